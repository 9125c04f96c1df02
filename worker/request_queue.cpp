#include "worker/request_queue.h"

#include <algorithm>
#include <utility>

namespace phasescope::worker {

RequestQueue::PushResult RequestQueue::push(Request request) {
  std::lock_guard lock(mutex_);
  if (!request.tag.empty()) {
    const auto older =
        std::find_if(requests_.begin(), requests_.end(),
                     [&](const Request& waiting) { return waiting.tag == request.tag; });
    if (older != requests_.end()) {
      const std::uint64_t replaced = older->id;
      *older = std::move(request);
      return {Pushed::replaced_older, replaced};
    }
  }
  if (requests_.size() >= longest) return {Pushed::full, 0};
  requests_.push_back(std::move(request));
  changed_.notify_one();
  return {};
}

std::optional<Request> RequestQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !requests_.empty(); });
  if (closed_) return std::nullopt;
  Request request = std::move(requests_.front());
  requests_.pop_front();
  return request;
}

bool RequestQueue::remove(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  return std::erase_if(requests_, [id](const Request& waiting) { return waiting.id == id; }) > 0;
}

void RequestQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  requests_.clear();
  changed_.notify_all();
}

}  // namespace phasescope::worker
