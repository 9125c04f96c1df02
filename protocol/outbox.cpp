#include "protocol/outbox.h"

#include <utility>

namespace phasescope::protocol {

namespace {

std::size_t tensor_bytes_of(const Frame& frame) {
  std::size_t bytes = 0;
  for (const auto& tensor : frame.tensors) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace

Outbox::Outbox(Channel& channel, std::chrono::milliseconds heartbeat, Refused refused)
    : channel_(channel), heartbeat_(heartbeat), refused_(std::move(refused)) {}

Outbox::~Outbox() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Outbox::start() {
  thread_ = std::thread([this] { run(); });
}

void Outbox::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void Outbox::post(Frame frame) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  waiting_bytes_ += tensor_bytes_of(frame);
  frames_.push_back(std::move(frame));
  changed_.notify_all();
}

void Outbox::wait_until_below(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || waiting_bytes_ <= bytes; });
}

bool Outbox::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return stopped_ || (frames_.empty() && !sending_); });
  return !stopped_ && frames_.empty() && !sending_;
}

void Outbox::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    const bool woken =
        changed_.wait_for(lock, heartbeat_, [&] { return stopped_ || !frames_.empty(); });
    if (stopped_) break;
    Frame frame;
    if (woken) {
      frame = std::move(frames_.front());
      frames_.pop_front();
    }
    const std::size_t bytes = tensor_bytes_of(frame);
    sending_ = true;
    lock.unlock();
    send_one(frame);
    frame = {};
    lock.lock();
    sending_ = false;
    waiting_bytes_ -= bytes;
    changed_.notify_all();
  }
}

// A frame of type heartbeat is one that nobody posted.
void Outbox::send_one(const Frame& frame) {
  try {
    if (frame.type == FrameType::heartbeat) {
      channel_.try_heartbeat();
    } else {
      channel_.send(frame);
    }
  } catch (const ChannelClosed&) {
    stop();
  } catch (const std::exception& error) {  // too large, or no memory to pass it in
    refuse(frame, error.what());
  }
}

// Where not even that can be said, whoever waits for an answer learns it from the channel's end.
void Outbox::refuse(const Frame& frame, const std::string& why) {
  try {
    refused_(frame, why);
  } catch (const std::exception&) {
    channel_.close("a frame could neither be sent nor refused");
    stop();
  }
}

}  // namespace phasescope::protocol
