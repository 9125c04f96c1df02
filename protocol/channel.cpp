#include "protocol/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "protocol/crc32c.h"
#include "protocol/frame_layout.h"

namespace phasescope::protocol {

namespace {

using std::chrono::milliseconds;

// What is checksummed and written at once: still in the cache when it is copied to the socket.
constexpr std::size_t write_step = 256u << 10;
// Frames up to here are put together and written with one call.
constexpr std::size_t small_frame = 64u << 10;
constexpr int pipe_bytes = 1 << 20;

bool is_unix_socket(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

bool is_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

// A pipe is written without blocking and given a buffer that suits large frames; it may refuse
// that.
void prepare_pipe(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::fcntl(fd, F_SETPIPE_SZ, pipe_bytes);
}

FrameLimits limits_before_hello(FrameLimits limits) {
  limits.header = std::min<std::size_t>(limits.header, 64u << 10);
  limits.payload = 0;
  return limits;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

std::string seconds_text(milliseconds time) {
  const auto tenths = time.count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

bool offers(const Hello& hello, std::string_view transport) {
  return std::find(hello.transports.begin(), hello.transports.end(), transport) !=
         hello.transports.end();
}

std::string named(const Hello& hello) {
  return hello.program + " " + hello.version + " speaks protocol " + std::to_string(hello.protocol);
}

}  // namespace

Channel::Channel(formats::UniqueFd in, formats::UniqueFd out, bool may_pass_memory,
                 FrameLimits frames, TimeLimits times)
    : in_(std::move(in)),
      out_(std::move(out)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      in_is_socket_(is_socket(in_.get())),
      out_is_socket_(is_socket(out_.get())),
      may_pass_memory_(may_pass_memory && is_unix_socket(in_.get()) && is_unix_socket(out_.get())),
      frame_limits_(frames),
      times_(times),
      decoder_(limits_before_hello(frames)),
      last_byte_(Clock::now()) {
  if (!out_is_socket_) prepare_pipe(out_.get());
}

Channel::~Channel() { close("the program is ending"); }

Hello Channel::handshake(Hello mine, milliseconds limit) {
  mine.transports = {"inline"};
  if (may_pass_memory_) mine.transports.push_back("memfd");
  send({FrameType::hello, 0, mine, {}});
  auto frame = receive(limit);
  if (!frame) fail("no hello came within " + seconds_text(limit));
  if (frame->type != FrameType::hello) fail("the first frame was not a hello");
  Hello theirs;
  try {
    theirs = frame->header.get<Hello>();
  } catch (const nlohmann::json::exception& error) {
    fail(std::string("a hello that cannot be read: ") + error.what());
  }
  if (theirs.protocol != mine.protocol) {
    fail(named(theirs) + " but " + named(mine) + "; install the same version on both sides");
  }
  pass_memory_ = may_pass_memory_ && offers(theirs, "memfd");
  decoder_.set_limits(frame_limits_);
  return theirs;
}

// ---- Waiting and closing --------------------------------------------------------------------

bool Channel::wait_for(int fd, short events, Clock::time_point until) const {
  pollfd watched[2] = {{fd, events, 0}, {wake_.get(), POLLIN, 0}};
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  const auto limit = std::clamp<std::int64_t>(left.count(), 0, 1'000'000);
  if (::poll(watched, 2, static_cast<int>(limit)) < 0 && errno != EINTR) {
    throw ChannelClosed(std::string("poll failed: ") + std::strerror(errno), false);
  }
  throw_if_closed();
  return watched[0].revents != 0;
}

void Channel::throw_if_closed() const {
  if (!closed_) return;
  std::lock_guard lock(closed_mutex_);
  throw ChannelClosed(closed_reason_, closed_end_of_input_);
}

void Channel::mark_closed(const std::string& reason, bool end_of_input) {
  std::lock_guard lock(closed_mutex_);
  if (closed_) return;
  closed_reason_ = reason;
  closed_end_of_input_ = end_of_input;
  closed_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Channel::say_closing(const std::string& reason, bool fault) {
  std::unique_lock lock(send_mutex_, std::try_to_lock);
  if (!lock || !out_) return;
  const Frame frame{FrameType::closing, 0, {{"reason", reason}, {"fault", fault}}, {}};
  auto bytes = encode_frame(frame, frame_limits_, std::nullopt).head;
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)).subspan(preamble_bytes));
  std::byte trailer[4];
  store_little(std::span<std::byte>(trailer), 0, crc);
  bytes.append(reinterpret_cast<const char*>(trailer), sizeof trailer);
  write_some(std::as_bytes(std::span(bytes)), -1);
}

void Channel::close(const std::string& reason) { close_as(reason, false, false); }

void Channel::close_as(const std::string& reason, bool fault, bool end_of_input) {
  if (closed_) return;
  mark_closed(reason, end_of_input);
  say_closing(reason, fault);
  if (out_is_socket_) ::shutdown(out_.get(), SHUT_WR);
}

void Channel::fail(const std::string& reason, bool end_of_input) {
  close_as(reason, !end_of_input, end_of_input);
  throw_if_closed();
  throw ChannelClosed(reason, end_of_input);
}

// ---- Receiving ------------------------------------------------------------------------------

std::optional<Frame> Channel::receive(milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (true) {
    const auto deadline = std::min(until, pace_deadline().first);
    if (wait_for(in_.get(), POLLIN, deadline)) {
      read_once();
    } else {
      check_pace();
      if (Clock::now() >= until) return std::nullopt;
    }
    if (!decoder_.complete()) {
      // What lies here unread is not late: this process may have been held up itself.
      if (!wait_for(in_.get(), POLLIN, Clock::now())) check_pace();
      continue;
    }
    Frame frame = take_frame();
    if (frame.type == FrameType::closing) closed_by_other(frame);
    if (frame.type != FrameType::heartbeat) return frame;
  }
}

void Channel::read_once() {
  const bool was_inside = decoder_.inside_frame();
  const bool had_preamble = decoder_.preamble_complete();
  const ssize_t count = read_some(decoder_.wanted());
  if (count == 0) end_of_input();
  if (count < 0) return;
  last_byte_ = Clock::now();
  try {
    decoder_.commit(static_cast<std::size_t>(count));
  } catch (const FrameError& error) {
    fail(error.what());
  } catch (const std::bad_alloc&) {
    fail("a frame does not fit into memory");
  }
  if (!was_inside && decoder_.inside_frame()) frame_start_ = last_byte_;
  if (!had_preamble && decoder_.preamble_complete()) check_passed_files();
}

ssize_t Channel::read_some(std::span<std::byte> into) {
  if (!in_is_socket_) {
    const ssize_t count = ::read(in_.get(), into.data(), into.size());
    return count < 0 && !would_block(errno) ? 0 : count;
  }
  iovec piece{into.data(), into.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = ::recvmsg(in_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) return would_block(errno) ? -1 : 0;
  take_passed_files(message);
  return count;
}

void Channel::take_passed_files(msghdr& message) {
  for (auto* item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file;
      std::memcpy(&file, CMSG_DATA(item) + i * sizeof file, sizeof file);
      passed_files_.emplace_back(file);
    }
  }
  if (passed_files_.size() > 1 || (message.msg_flags & MSG_CTRUNC)) {
    fail("more files were passed than a frame may have");
  }
}

void Channel::end_of_input() {
  if (decoder_.inside_frame()) fail("the input ended in the middle of a frame");
  fail("the other side closed the connection", true);
}

void Channel::closed_by_other(const Frame& frame) {
  std::string reason = "no reason given";
  bool fault = true;
  if (auto given = frame.header.find("reason"); given != frame.header.end() && given->is_string()) {
    reason = given->get<std::string>();
  }
  if (auto given = frame.header.find("fault"); given != frame.header.end() && given->is_boolean()) {
    fault = given->get<bool>();
  }
  fail("the other side closed: " + reason, !fault);
}

// A memory file travels with the first byte of its frame.
void Channel::check_passed_files() {
  const bool announced = decoder_.preamble().has_memory_file;
  if (announced && !pass_memory_) fail("a memory file where none was agreed on");
  if (announced != !passed_files_.empty()) fail("a frame and its memory file do not agree");
}

std::pair<Channel::Clock::time_point, std::string> Channel::pace_deadline() const {
  if (!decoder_.inside_frame()) {
    return {last_byte_ + times_.silence, "nothing was heard for " + seconds_text(times_.silence)};
  }
  if (!decoder_.preamble_complete()) {
    return {frame_start_ + times_.preamble, "a frame was begun and not continued"};
  }
  const auto needed = milliseconds(decoder_.frame_bytes() * 1000 / times_.slowest_bytes_per_second);
  return {std::min(last_byte_ + times_.stall, frame_start_ + times_.stall + needed),
          "a frame came too slowly, or stopped halfway"};
}

void Channel::check_pace() {
  const auto [deadline, reason] = pace_deadline();
  if (Clock::now() >= deadline) fail(reason);
}

Frame Channel::take_frame() {
  formats::UniqueFd file;
  if (!passed_files_.empty()) file = std::move(passed_files_.back());
  passed_files_.clear();
  try {
    return decoder_.take(file);
  } catch (const FrameError& error) {
    fail(error.what());
  } catch (const std::bad_alloc&) {
    fail("a frame does not fit into memory");
  }
}

// ---- Sending --------------------------------------------------------------------------------

void Channel::send(const Frame& frame) {
  throw_if_closed();
  const auto from = pass_memory_ ? std::optional(memory_file_threshold) : std::nullopt;
  const EncodedFrame encoded = encode_frame(frame, frame_limits_, from);
  std::lock_guard lock(send_mutex_);
  write_frame(encoded);
}

bool Channel::try_heartbeat() {
  std::unique_lock lock(send_mutex_, std::try_to_lock);
  if (!lock || !wait_for(out_.get(), POLLOUT, Clock::now())) return false;
  write_frame(encode_frame({}, frame_limits_, std::nullopt));
  return true;
}

void Channel::write_frame(const EncodedFrame& frame) {
  const auto head = std::as_bytes(std::span(frame.head));
  std::vector<std::byte> start(head.begin(), head.end());
  std::uint32_t crc = crc32c(head.subspan(preamble_bytes));
  std::size_t next = 0;
  for (; next < frame.payload.size(); ++next) {
    const auto piece = frame.payload[next];
    if (start.size() + piece.size() > small_frame) break;
    crc = crc32c(piece, crc);
    start.insert(start.end(), piece.begin(), piece.end());
  }
  std::array<std::byte, 4> trailer;
  if (next == frame.payload.size()) {
    store_little(std::span<std::byte>(trailer), 0, crc);
    start.insert(start.end(), trailer.begin(), trailer.end());
    return write_all(start, frame.memory_file.get());
  }
  write_all(start, frame.memory_file.get());
  for (; next < frame.payload.size(); ++next) {
    for (auto rest = frame.payload[next]; !rest.empty();) {
      const auto step = rest.first(std::min(rest.size(), write_step));
      crc = crc32c(step, crc);
      write_all(step, -1);
      rest = rest.subspan(step.size());
    }
  }
  store_little(std::span<std::byte>(trailer), 0, crc);
  write_all(trailer, -1);
}

void Channel::write_all(std::span<const std::byte> bytes, int file) {
  auto deadline = Clock::now() + times_.send;
  while (!bytes.empty()) {
    throw_if_closed();
    const ssize_t count = write_some(bytes, file);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      file = -1;
      deadline = Clock::now() + times_.send;
    } else if (count < 0 && !would_block(errno)) {
      // What it sent before it went can still be received, its last words among it.
      throw ChannelClosed(std::string("the other side takes nothing more: ") + std::strerror(errno),
                          false);
    } else if (!wait_for(out_.get(), POLLOUT, deadline) && Clock::now() >= deadline) {
      mark_closed("the other side took no bytes for " + seconds_text(times_.send), false);
    }
  }
}

// A passed file goes with the first byte; the caller passes it until something was written.
ssize_t Channel::write_some(std::span<const std::byte> bytes, int file) {
  if (!out_is_socket_) return ::write(out_.get(), bytes.data(), bytes.size());
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    auto* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(item), &file, sizeof file);
  }
  return ::sendmsg(out_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace phasescope::protocol
