#include "app/window/recorded_link.h"

#include <algorithm>
#include <utility>

namespace phasescope::app {

void RecordedLink::start() {
  started_ = true;
  if (is_live_) live_->start();
}

void RecordedLink::restart() {
  if (is_live_) live_->restart();
}

protocol::RequestId RecordedLink::submit(const std::string& method, nlohmann::json params,
                                         protocol::Callbacks callbacks, const std::string& tag) {
  if (is_live_) return live_->submit(method, std::move(params), std::move(callbacks), tag);
  const protocol::RequestId id = ++last_id_;
  if (const protocol::Reply* reply = recording_->find(method, params)) {
    answered_.push_back({id, reply, std::move(callbacks)});
  } else {
    held_.push_back({id, method, std::move(params), std::move(callbacks), tag});
  }
  return id;
}

void RecordedLink::cancel(protocol::RequestId id) {
  if (const auto live = live_ids_.find(id); live != live_ids_.end()) {
    return live_->cancel(live->second);
  }
  const auto is_it = [&](const auto& request) { return request.id == id; };
  std::erase_if(answered_, is_it);
  const auto held = std::ranges::find_if(held_, is_it);
  if (held == held_.end()) {
    if (is_live_) live_->cancel(id);
    return;
  }
  const auto on_error = std::move(held->callbacks.on_error);
  held_.erase(held);
  if (on_error) on_error({std::string(protocol::error_code::cancelled), "cancelled", "", ""});
}

std::size_t RecordedLink::drain() {
  if (!is_live_ && !watch_.awaited()) go_live();
  if (is_live_) return live_->drain();
  const auto answered = std::exchange(answered_, {});
  for (const Answered& each : answered) each.callbacks.on_result(*each.reply);
  for (const Held& each : held_) {
    if (each.callbacks.on_progress) each.callbacks.on_progress(-1, "waiting for the worker");
  }
  return answered.size();
}

void RecordedLink::go_live() {
  is_live_ = true;
  if (started_) live_->start();
  for (Held& each : std::exchange(held_, {})) {
    live_ids_[each.id] =
        live_->submit(each.method, std::move(each.params), std::move(each.callbacks), each.tag);
  }
  for (const Answered& each : std::exchange(answered_, {})) each.callbacks.on_result(*each.reply);
}

protocol::WorkerState RecordedLink::state() const {
  return is_live_ ? live_->state() : protocol::WorkerState::ready;
}

std::optional<protocol::DeathNotice> RecordedLink::death() const {
  return is_live_ ? live_->death() : std::nullopt;
}

std::string RecordedLink::description() const {
  return is_live_ ? live_->description() : "recorded";
}

void RecordedLink::set_wake(std::function<void()> wake) { live_->set_wake(std::move(wake)); }

std::string RecordedLink::recorded() const { return is_live_ ? "" : watch_.words(); }

// --- recording ------------------------------------------------------------------------------

namespace {

// Jobs are of one machine and one hour.
bool is_worth_keeping(const std::string& method) { return !method.starts_with("job"); }

class RecordingLink : public WorkerLink {
 public:
  RecordingLink(std::unique_ptr<WorkerLink> live, std::shared_ptr<Recording> recording)
      : live_(std::move(live)), recording_(std::move(recording)) {}

  void start() override { live_->start(); }
  void restart() override { live_->restart(); }
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override {
    if (is_worth_keeping(method)) {
      callbacks.on_result = [recording = recording_, method, params,
                             pass_on = std::move(callbacks.on_result)](protocol::Reply reply) {
        recording->keep(method, params, reply);
        pass_on(std::move(reply));
      };
    }
    return live_->submit(method, std::move(params), std::move(callbacks), tag);
  }
  void cancel(protocol::RequestId id) override { live_->cancel(id); }
  std::size_t drain() override { return live_->drain(); }
  void flush() override { live_->flush(); }
  protocol::WorkerState state() const override { return live_->state(); }
  std::optional<protocol::DeathNotice> death() const override { return live_->death(); }
  std::string description() const override { return live_->description(); }
  void set_wake(std::function<void()> wake) override { live_->set_wake(std::move(wake)); }

 private:
  std::unique_ptr<WorkerLink> live_;
  std::shared_ptr<Recording> recording_;
};

}  // namespace

std::unique_ptr<WorkerLink> recording_link(std::unique_ptr<WorkerLink> live,
                                           std::shared_ptr<Recording> recording) {
  return std::make_unique<RecordingLink>(std::move(live), std::move(recording));
}

}  // namespace phasescope::app
