#pragma once
// Progress for who reads standard error later: a line every few seconds of what takes that long.
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace phasescope::app {

class ProgressLines {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBetween{5};

  // The line to print now: " 42 % reading the text"; nothing where the last one, or the first call,
  // is not yet kBetween old. An unknown fraction (below 0) is the last known one, at first 0.
  std::optional<std::string> line(double fraction, const std::string& text,
                                  Clock::time_point now = Clock::now());
  // Something else begins, from 0 %.
  void restart() { fraction_ = 0; }
  // The last known fraction, from 0 to 1.
  double fraction(double told);

 private:
  double fraction_ = 0;
  std::optional<Clock::time_point> last_;
};

// A bar with the percentage and what is done, in less than `columns` columns: what a terminal
// breaks into two lines would not be painted over by the next one. Control characters are escaped.
std::string progress_bar(double fraction, const std::string& text, std::size_t columns);

}  // namespace phasescope::app
