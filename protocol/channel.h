// A transport for frames over file descriptors: a unix socket pair, where large tensors are passed
// as sealed memory files, or two pipes, where everything is inline.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "formats/unique_fd.h"
#include "protocol/frame.h"

namespace phasescope::protocol {

// Why a channel ended. After it every send and receive throws the same.
class ChannelClosed : public std::runtime_error {
 public:
  ChannelClosed(const std::string& reason, bool end_of_input)
      : std::runtime_error(reason), end_of_input_(end_of_input) {}
  // The other side closed in order: between two frames, or with a closing frame that names no
  // fault.
  bool end_of_input() const { return end_of_input_; }

 private:
  bool end_of_input_;
};

// Tensors below this are sent inline even where memory files can be.
inline constexpr std::size_t memory_file_threshold = 256u << 10;

// One thread receives, any thread sends; close() may be called from any.
class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  // `in` and `out` are the same socket (one a dup of the other) or two pipe ends; with pipes the
  // process must ignore SIGPIPE. `may_pass_memory`: this side has reason to think that memory files
  // arrive; they are used when both sides say so.
  Channel(formats::UniqueFd in, formats::UniqueFd out, bool may_pass_memory,
          FrameLimits frames = {}, TimeLimits times = {});
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Sends `mine` (its transports are filled in here) and waits for the other side's. Until then
  // only small frames are accepted. Throws ChannelClosed; a mismatch names both versions.
  Hello handshake(Hello mine, std::chrono::milliseconds limit);

  // Blocks until the other side's buffer has taken the frame. Throws ChannelClosed, FrameError (the
  // frame exceeds a limit; nothing was sent).
  void send(const Frame& frame);
  // Sends a heartbeat when that cannot block and no frame is being sent; returns whether it did.
  bool try_heartbeat();
  // The next frame; nothing when none had come after `limit`. Heartbeats are not returned. Throws
  // ChannelClosed.
  std::optional<Frame> receive(std::chrono::milliseconds limit);

  // Tells the other side why, when that does not block, and ends every send and receive.
  void close(const std::string& reason);
  // Text the other side printed before its first frame (a login banner).
  const std::string& banner() const { return decoder_.banner(); }
  bool passes_memory() const { return pass_memory_; }

 private:
  bool wait_for(int fd, short events, Clock::time_point until) const;
  void read_once();
  ssize_t read_some(std::span<std::byte> into);
  void take_passed_files(msghdr& message);
  void end_of_input();
  void check_passed_files();
  void check_pace();
  std::pair<Clock::time_point, std::string> pace_deadline() const;
  Frame take_frame();
  void write_frame(const EncodedFrame& frame);
  void write_all(std::span<const std::byte> bytes, int file);
  ssize_t write_some(std::span<const std::byte> bytes, int file);
  [[noreturn]] void closed_by_other(const Frame& frame);
  void close_as(const std::string& reason, bool fault, bool end_of_input);
  void say_closing(const std::string& reason, bool fault);
  void mark_closed(const std::string& reason, bool end_of_input);
  [[noreturn]] void fail(const std::string& reason, bool end_of_input = false);
  void throw_if_closed() const;

  formats::UniqueFd in_;
  formats::UniqueFd out_;
  formats::UniqueFd wake_;  // readable once closed
  bool in_is_socket_;
  bool out_is_socket_;
  bool may_pass_memory_;
  std::atomic<bool> pass_memory_{false};
  FrameLimits frame_limits_;
  TimeLimits times_;
  FrameDecoder decoder_;
  std::vector<formats::UniqueFd> passed_files_;
  Clock::time_point last_byte_;
  Clock::time_point frame_start_;
  std::mutex send_mutex_;
  mutable std::mutex closed_mutex_;
  std::atomic<bool> closed_{false};
  std::string closed_reason_;
  bool closed_end_of_input_ = false;
};

}  // namespace phasescope::protocol
