// Reads a child's standard error as it comes and keeps its last lines.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "formats/unique_fd.h"

namespace phasescope::protocol {

class StderrTail {
 public:
  static constexpr std::size_t kept_lines = 64;
  static constexpr std::size_t longest_line = 4096;

  explicit StderrTail(formats::UniqueFd pipe);
  ~StderrTail();
  StderrTail(const StderrTail&) = delete;
  StderrTail& operator=(const StderrTail&) = delete;

  std::vector<std::string> lines() const;
  // Takes what is still in the pipe and stops; others may hold the pipe open, so the end of it is
  // not waited for.
  void finish();

 private:
  void run();
  bool read_once();
  void add(std::string_view text);

  formats::UniqueFd pipe_;
  formats::UniqueFd stop_;
  mutable std::mutex mutex_;
  std::deque<std::string> lines_;
  bool line_open_ = false;  // the last of lines_ has no end yet
  std::thread thread_;
};

}  // namespace phasescope::protocol
