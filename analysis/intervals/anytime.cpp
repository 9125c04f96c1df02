#include "analysis/intervals/anytime.h"

#include <cmath>

namespace phasescope::analysis {

std::optional<double> anytime_half_width(std::int64_t n, double effects, double alpha) {
  if (n < 2) return std::nullopt;
  const auto units = static_cast<double>(n);
  const double spread = 1 + units * effects;
  const double k = std::exp(2 / units * (0.5 * std::log(spread) - std::log(alpha)));
  if (k >= spread) return std::nullopt;
  const double t_square = (units - 1) * (k - 1) / (1 - k / spread);
  return std::sqrt(t_square / units);
}

Interval anytime_interval(std::span<const double> values, double effects) {
  Interval out;
  out.n = static_cast<std::int64_t>(values.size());
  if (values.empty()) return out;
  const auto units = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  out.mean = sum / units;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  const auto half = anytime_half_width(out.n, effects);
  if (!half || !std::isfinite(out.mean)) return out;
  const double width = *half * std::sqrt(squares / (units - 1));
  out.low = out.mean - width, out.high = out.mean + width;
  out.method = method::kAnytime;
  return out;
}

}  // namespace phasescope::analysis
