#include "app/cli/progress_lines.h"

#include <algorithm>
#include <cstdio>

namespace phasescope::app {

double ProgressLines::fraction(double told) {
  if (told >= 0) fraction_ = std::min(told, 1.0);
  return fraction_;
}

std::optional<std::string> ProgressLines::line(double told, const std::string& text,
                                               Clock::time_point now) {
  const double percent = 100 * fraction(told);
  if (!last_) last_ = now;
  if (text.empty() || now - *last_ < kBetween) return std::nullopt;
  last_ = now;
  char number[16];
  std::snprintf(number, sizeof number, "%3.0f %% ", percent);
  return number + text;
}

}  // namespace phasescope::app
