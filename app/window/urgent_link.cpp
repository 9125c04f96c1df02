#include "app/window/urgent_link.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "protocol/error_info.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/map.h"
#include "protocol/messages/worker.h"

namespace phasescope::app {
namespace {

// One that is computed, and one behind it so that the worker need not wait for the window.
constexpr std::size_t kWithWorker = 2;

}  // namespace

bool UrgentLink::is_urgent(const std::string& method) {
  return method == protocol::MapRequest::method || method == protocol::FolderRequest::method;
}

bool UrgentLink::is_long(const std::string& method) {
  return method == protocol::EvalRequest::method;
}

bool UrgentLink::is_repeatable(const std::string& method) {
  constexpr std::array<std::string_view, 6> kOnce{"jobs.",   "model",  "worker.",
                                                  "convert", "import", "capture"};
  return !is_urgent(method) && std::ranges::none_of(kOnce, [&](std::string_view begin) {
    return method.starts_with(begin);
  });
}

protocol::RequestId UrgentLink::submit(const std::string& method, nlohmann::json params,
                                       protocol::Callbacks callbacks, const std::string& tag) {
  const auto older = std::ranges::find_if(
      waiting_, [&](const Request& one) { return !tag.empty() && one.tag == tag; });
  if (older != waiting_.end()) {
    end_unsent(std::move(*older));
    waiting_.erase(older);
  }
  Request request{++last_id_, method, tag, std::move(params), std::move(callbacks)};
  if (is_urgent(method)) {
    take_back_for_urgent();
    send(std::move(request));
  } else {
    waiting_.push_back(std::move(request));
  }
  return last_id_;
}

void UrgentLink::take_back_for_urgent() {
  for (auto& [id, request] : sent_) {
    if (request.taken_back || request.stops >= kMostStops || !is_repeatable(request.method)) {
      continue;
    }
    request.taken_back = true, ++request.stops;
    worker_->cancel(request.with_worker);
  }
}

void UrgentLink::send(Request request) {
  const protocol::RequestId id = request.id;
  protocol::Callbacks callbacks;
  callbacks.on_result = [this, id](protocol::Reply reply) { on_result(id, std::move(reply)); };
  callbacks.on_error = [this, id](const protocol::ErrorInfo& error) { on_error(id, error); };
  callbacks.on_progress = [pass_on = request.callbacks.on_progress](double fraction,
                                                                    const std::string& text) {
    if (pass_on) pass_on(fraction, text);
  };
  Request& kept = sent_[id] = std::move(request);
  kept.taken_back = false;
  // A request that may be stopped needs its parameters once more.
  nlohmann::json params = is_repeatable(kept.method) ? kept.params : std::move(kept.params);
  kept.with_worker =
      worker_->submit(kept.method, std::move(params), std::move(callbacks), kept.tag);
}

void UrgentLink::send_waiting() {
  while (!waiting_.empty() && sent_.size() < kWithWorker) {
    auto next = std::ranges::find_if_not(waiting_, is_long, &Request::method);
    if (next == waiting_.end()) next = waiting_.begin();
    if (!sent_.empty() && !is_repeatable(next->method)) return;
    Request request = std::move(*next);
    waiting_.erase(next);
    send(std::move(request));
  }
}

void UrgentLink::on_result(protocol::RequestId id, protocol::Reply reply) {
  auto ended = sent_.extract(id);
  if (ended) ended.mapped().callbacks.on_result(std::move(reply));
}

void UrgentLink::on_error(protocol::RequestId id, const protocol::ErrorInfo& error) {
  auto ended = sent_.extract(id);
  if (!ended) return;
  Request& request = ended.mapped();
  if (!request.taken_back || error.code != protocol::error_code::cancelled) {
    return request.callbacks.on_error(error);
  }
  // To its place in the order they came, whichever of several is let go first.
  const auto place = std::ranges::upper_bound(waiting_, id, {}, &Request::id);
  waiting_.insert(place, std::move(request));
}

void UrgentLink::end_unsent(Request request) { cancelled_.push_back(std::move(request.callbacks)); }

void UrgentLink::cancel(protocol::RequestId id) {
  const auto waits = std::ranges::find(waiting_, id, &Request::id);
  if (waits != waiting_.end()) {
    end_unsent(std::move(*waits));
    waiting_.erase(waits);
    return;
  }
  const auto sent = sent_.find(id);
  if (sent == sent_.end()) return;
  if (!std::exchange(sent->second.taken_back, false)) worker_->cancel(sent->second.with_worker);
}

std::size_t UrgentLink::drain() {
  std::size_t count = worker_->drain();
  for (const protocol::Callbacks& callbacks : std::exchange(cancelled_, {})) {
    callbacks.on_error({std::string(protocol::error_code::cancelled), "cancelled", "", ""});
    ++count;
  }
  // A dead worker ends them all, each with how it died.
  while (state() == protocol::WorkerState::dead && !waiting_.empty()) {
    Request next = std::move(waiting_.front());
    waiting_.pop_front();
    send(std::move(next));
  }
  return count;
}

}  // namespace phasescope::app
