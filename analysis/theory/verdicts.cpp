#include "analysis/theory/verdicts.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace phasescope::analysis {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string interval_text(const protocol::Interval& interval) {
  const std::string value = short_number(interval.mean);
  if (!interval.low || !interval.high) return value + " [-]";
  return value + " [" + short_number(*interval.low) + ", " + short_number(*interval.high) + "]";
}

CheckResult not_measured(Verdict verdict, const std::string& detail) {
  CheckResult result;
  result.verdict = name_of(verdict);
  result.detail = detail;
  return result;
}

CheckResult answer(Verdict verdict, const Measured& measured, const std::string& detail) {
  CheckResult result = not_measured(verdict, detail);
  result.value = measured.value;
  result.bound = measured.bound;
  result.noise = measured.noise;
  result.samples = measured.samples;
  return result;
}

CheckResult answer_below(const Measured& measured, const std::string& detail) {
  const bool holds = measured.value <= measured.bound;
  return answer(holds ? Verdict::holds : Verdict::fails, measured, detail);
}

CheckCurve curve_of(const std::string& label, const Axes& axes, std::vector<double> x,
                    std::vector<double> y, std::vector<double> bound) {
  return {label,      axes.x,       axes.y,       axes.log_x,
          axes.log_y, std::move(x), std::move(y), std::move(bound)};
}

void Parts::add(const std::string& text) { detail_ += (detail_.empty() ? "" : "; ") + text; }

void Parts::below(const std::string& name, double value, double bound) {
  hold_ = hold_ && value <= bound;
  ++count_;
  const double share = std::isnan(value) ? value : bound > 0 ? value / bound : value;
  // A NaN is the worst there is, and stays it.
  if (!any_ || !(share <= worst_ || std::isnan(worst_))) {
    worst_ = share, value_ = value, bound_ = bound;
  }
  any_ = true;
  add(name + " " + short_number(value) + " (at most " + short_number(bound) + ")");
}

void Parts::control(const std::string& name, double value, double bound) {
  hold_ = hold_ && value > bound;
  add(name + " " + short_number(value) + " (must exceed " + short_number(bound) + ")");
}

void Parts::report(const std::string& name, double value) { add(name + " " + short_number(value)); }

CheckResult Parts::result(double noise) const {
  return answer(hold_ ? Verdict::holds : Verdict::fails, {value_, bound_, noise, count_}, detail_);
}

}  // namespace phasescope::analysis
