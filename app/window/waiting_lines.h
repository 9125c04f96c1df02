#pragma once
// What is said on standard error while a picture waits for its answers.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "app/cli/progress_lines.h"

namespace phasescope::app {

class WaitingLines {
 public:
  // The line to print now, of how many of the answers asked for so far are still to come; nothing
  // where the last one, or the first call, is not yet ProgressLines::kBetween old.
  std::optional<std::string> line(
      std::size_t waiting, ProgressLines::Clock::time_point now = ProgressLines::Clock::now()) {
    most_ = std::max({most_, waiting, std::size_t{1}});
    const double left = static_cast<double>(waiting) / static_cast<double>(most_);
    return lines_.line(
        1 - left, std::to_string(waiting) + (waiting == 1 ? " answer" : " answers") + " to come",
        now);
  }

 private:
  ProgressLines lines_;
  std::size_t most_ = 0;  // that ever waited at once
};

}  // namespace phasescope::app
