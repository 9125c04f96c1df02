#include "protocol/stderr_tail.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace phasescope::protocol {

StderrTail::StderrTail(formats::UniqueFd pipe)
    : pipe_(std::move(pipe)), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ::fcntl(pipe_.get(), F_SETFL, ::fcntl(pipe_.get(), F_GETFL) | O_NONBLOCK);
  thread_ = std::thread([this] { run(); });
}

StderrTail::~StderrTail() { finish(); }

std::vector<std::string> StderrTail::lines() const {
  std::lock_guard lock(mutex_);
  return {lines_.begin(), lines_.end()};
}

void StderrTail::finish() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void StderrTail::run() {
  pollfd watched[2] = {{pipe_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return;
    const bool stop = watched[1].revents != 0;
    bool more = true;
    // When stopping, what is there is taken, but no more than a full pipe of it.
    for (int reads = 0; more && reads < 16; ++reads) more = read_once();
    if (stop || (!more && (watched[0].revents & POLLHUP))) return;
  }
}

bool StderrTail::read_once() {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (count <= 0) return false;
  try {
    add({buffer.data(), static_cast<std::size_t>(count)});
  } catch (const std::exception&) {  // without memory for them these lines are lost
  }
  return true;
}

void StderrTail::add(std::string_view text) {
  std::lock_guard lock(mutex_);
  for (const char character : text) {
    if (character == '\n') {
      // ssh ends its own lines by two characters.
      if (line_open_ && lines_.back().ends_with('\r')) lines_.back().pop_back();
      line_open_ = false;
      continue;
    }
    if (!line_open_) lines_.emplace_back();
    if (lines_.size() > kept_lines) lines_.pop_front();
    line_open_ = true;
    if (lines_.back().size() < longest_line) lines_.back() += character;
  }
}

}  // namespace phasescope::protocol
