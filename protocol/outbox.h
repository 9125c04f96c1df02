// Sends frames from a thread of its own, so that nobody who has something to say waits for the
// other side, and keeps the heartbeat.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "protocol/channel.h"
#include "protocol/frame.h"

namespace phasescope::protocol {

class Outbox {
 public:
  // Called in the outbox's thread with a frame that exceeds a limit, and why; the frame is dropped.
  using Refused = std::function<void(const Frame& frame, const std::string& reason)>;

  Outbox(Channel& channel, std::chrono::milliseconds heartbeat, Refused refused);
  // Drops what was not sent.
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Frames posted before start() wait for it.
  void start();
  void post(Frame frame);
  // Waits until at most `bytes` of tensors wait to be sent, or the channel has ended.
  void wait_until_below(std::size_t bytes);
  // Waits until all has been sent; false when the time has passed or the channel has ended.
  bool flush(std::chrono::milliseconds limit);

 private:
  void run();
  void send_one(const Frame& frame);
  void refuse(const Frame& frame, const std::string& why);
  void stop();

  Channel& channel_;
  std::chrono::milliseconds heartbeat_;
  Refused refused_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Frame> frames_;
  std::size_t waiting_bytes_ = 0;  // of the queue and of the frame being sent
  bool sending_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace phasescope::protocol
