#include "app/cli/progress_lines.h"

#include <algorithm>
#include <cstdio>

#include "app/cli/output.h"
#include "formats/utf8.h"

namespace phasescope::app {

namespace {

std::string percent_text(double percent) {
  char number[32];
  std::snprintf(number, sizeof number, "%3.0f %% ", percent);
  return number;
}

}  // namespace

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
  return percent_text(percent) + for_terminal(text);
}

std::string progress_bar(double fraction, const std::string& text, std::size_t columns) {
  constexpr std::size_t width = 30;
  const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * width + 0.5);
  std::string line = percent_text(100 * fraction) + for_terminal(text, Breaks::escaped);
  if (columns > 2 * width) {
    line = "[" + std::string(filled, '#') + std::string(width - filled, ' ') + "] " + line;
  }
  std::size_t end = 0;
  for (std::size_t column = 1; column < columns && end < line.size(); ++column) {
    end += formats::utf8_char_at(line, end).length;
  }
  return line.substr(0, end);
}

}  // namespace phasescope::app
