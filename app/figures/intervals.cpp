#include "app/figures/intervals.h"

#include <cmath>

namespace phasescope::app {

using protocol::IntervalEnd;

namespace {

std::string end_text(const IntervalEnd& end) { return end ? widgets::short_number(*end) : "-"; }

}  // namespace

std::string with_ends(double value, const IntervalEnd& low, const IntervalEnd& high) {
  const std::string text = widgets::short_number(value);
  if (!low && !high) return text + " [-]";
  return text + " [" + end_text(low) + ", " + end_text(high) + "]";
}

std::string with_ends(const protocol::Interval& interval) {
  return with_ends(interval.mean, interval.low, interval.high);
}

void add_ends(widgets::Series& series, const IntervalEnd& low, const IntervalEnd& high) {
  series.low.push_back(low.value_or(std::nan("")));
  series.high.push_back(high.value_or(std::nan("")));
}

}  // namespace phasescope::app
