#include "analysis/theory/rope_instability.h"

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <cmath>
#include <numbers>

#include "analysis/theory/matrix_product.h"
#include "analysis/theory/rope_angles.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kBlocksAtOnce = 128;  // whose sums are 8 MB
constexpr double kRmsWithin = 0.02;
constexpr double kBeyond = 3;  // of r / sqrt(D)

double angle_of(long double turns) {
  return 2 * std::numbers::pi * static_cast<double>(turns - std::floor(turns));
}

// Rows: cosines of each plane, then sines; columns: offsets 0 .. block - 1.
std::vector<double> offset_table(const InstabilitySum& sum) {
  const std::size_t planes = sum.turns.size();
  std::vector<double> table(2 * planes * kInstabilityBlock);
  for (std::size_t d = 0; d < planes; ++d) {
    for (std::int64_t o = 0; o < kInstabilityBlock; ++o) {
      const double angle = angle_of(static_cast<long double>(o) * sum.turns[d]);
      const double size =
          sum.damping.empty() ? 1 : std::exp(-sum.damping[d] * static_cast<double>(o));
      table[d * kInstabilityBlock + static_cast<std::size_t>(o)] = size * std::cos(angle);
      table[(planes + d) * kInstabilityBlock + static_cast<std::size_t>(o)] =
          size * std::sin(angle);
    }
  }
  return table;
}

// mu cos(a + b) + nu sin(a + b) = (mu cos a + nu sin a) cos b + (nu cos a - mu sin a) sin b, a the
// angle of the block's start.
void add_block(const InstabilitySum& sum, std::int64_t start, std::vector<double>& rows) {
  const std::size_t planes = sum.turns.size();
  const double scale = 1 / static_cast<double>(planes) / sum.radius();
  for (const bool sines : {false, true}) {
    for (std::size_t d = 0; d < planes; ++d) {
      const double angle = angle_of(static_cast<long double>(start) * sum.turns[d]);
      const double c = std::cos(angle), s = std::sin(angle);
      const double size =
          sum.damping.empty() ? 1 : std::exp(-sum.damping[d] * static_cast<double>(start));
      rows.push_back(scale * size * (sines ? sum.nu * c - sum.mu * s : sum.mu * c + sum.nu * s));
    }
  }
}

void read_block(const double* values, std::int64_t start, Extremes& out, double& squares) {
  double squared = 0;
  for (std::int64_t o = 0; o < kInstabilityBlock; ++o) {
    const double value = values[o];
    squared += value * value;
    if (value > out.largest) out.largest = value, out.largest_at = start + o;
    if (value < out.smallest) out.smallest = value, out.smallest_at = start + o;
  }
  squares += squared;
}

std::vector<Extremes> both_windows(const InstabilitySum& sum, protocol::Progress* progress) {
  protocol::PartOfProgress first(*progress, 0, 0.1), second(*progress, 0.1, 1);
  return {extremes_of(sum, 1'000'000, 10'000'000, &first),
          extremes_of(sum, 10'000'000, 100'000'000, &second)};
}

std::string dependence_text(const Dependence& dependence) {
  const auto [low, high] = reach_of(dependence, 0);
  return "premise: frequencies that are linearly independent over the rationals; here planes fall "
         "into groups of " +
         std::to_string(dependence.groups_of) + " with ratio " + short_number(dependence.ratio) +
         ", so that at most [" + short_number(low) + ", " + short_number(high) +
         "] r is within reach. Measured all the same: ";
}

CheckResult run_rope_instability(const CheckContext& context) {
  // A base that is no power, and the head size of the paper's 7B model.
  GeometricAngles angles{5e5, 128, {}};
  if (context.model != nullptr) {
    angles = geometric_angles_of(context);
    if (!angles.missing.empty()) return not_measured(Verdict::premise_not_met, angles.missing);
  }
  const InstabilitySum sum = rope_sum(angles.base, angles.dim, Angles::model, 1, 0);
  CheckResult result = judge_instability(both_windows(sum, context.progress), angles.dim);
  result.detail = "base " + short_number(angles.base) + ", D = " + std::to_string(angles.dim) +
                  ": " + result.detail;
  const Dependence dependence = dependence_of(angles.base, angles.dim / 2);
  if (!dependence.independent()) {
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail = dependence_text(dependence) + result.detail;
  } else if (angles.base > 1e6) {
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail = "premise: windows that begin above the base " + short_number(angles.base) +
                    ". Measured all the same: " + result.detail;
  }
  return result;
}

}  // namespace

double InstabilitySum::radius() const { return std::hypot(mu, nu); }

InstabilitySum rope_sum(double base, std::int64_t dim, Angles angles, double mu, double nu) {
  InstabilitySum sum;
  sum.mu = mu, sum.nu = nu;
  const long double two_pi = boost::math::constants::two_pi<long double>();
  const long double step =
      std::log(static_cast<long double>(base)) * 2 / static_cast<long double>(dim);
  for (std::int64_t d = 0; d < dim / 2; ++d) {
    const long double theta = std::exp(-step * static_cast<long double>(d));
    sum.turns.push_back(angles == Angles::paper ? theta : theta / two_pi);
  }
  return sum;
}

Extremes extremes_of(const InstabilitySum& sum, std::int64_t from, std::int64_t to,
                     protocol::Progress* progress) {
  const std::int64_t first = (from + kInstabilityBlock - 1) / kInstabilityBlock;
  const std::int64_t last = to / kInstabilityBlock;
  const std::vector<double> table = offset_table(sum);
  Extremes out{first * kInstabilityBlock, last * kInstabilityBlock, -1e300, 1e300};
  double squares = 0;
  for (std::int64_t begin = first; begin < last; begin += kBlocksAtOnce) {
    progress->throw_if_cancelled();
    progress->progress(static_cast<double>(begin - first) / static_cast<double>(last - first),
                       "every integer up to " + std::to_string(to));
    const std::int64_t end = std::min(last, begin + kBlocksAtOnce);
    std::vector<double> rows;
    for (std::int64_t b = begin; b < end; ++b) add_block(sum, b * kInstabilityBlock, rows);
    const std::vector<double> values =
        matrix_product(rows, table, end - begin, sum.dim(), kInstabilityBlock);
    for (std::int64_t b = begin; b < end; ++b) {
      read_block(&values[static_cast<std::size_t>((b - begin) * kInstabilityBlock)],
                 b * kInstabilityBlock, out, squares);
    }
  }
  out.rms = std::sqrt(squares / static_cast<double>(out.to - out.from));
  return out;
}

Dependence dependence_of(double base, std::int64_t planes) {
  for (std::int64_t g = planes; g > 1; --g) {
    if (planes % g != 0 || base != std::floor(base)) continue;
    const double root = std::round(std::pow(base, 1 / static_cast<double>(g)));
    if (std::pow(root, static_cast<double>(g)) == base) return {g, root};
  }
  return {1, base};
}

std::array<double, 2> reach_of(const Dependence& dependence, double psi) {
  if (dependence.independent()) return {-1, 1};
  const auto groups = static_cast<double>(dependence.groups_of);
  const auto value = [&](double x) {
    double sum = 0, factor = 1;
    for (std::int64_t k = 0; k < dependence.groups_of; ++k, factor *= dependence.ratio) {
      sum += std::cos(x * factor - psi);
    }
    return sum / groups;
  };
  // Enough points for the fastest term, then a ternary search about the best of them.
  const double fastest = std::pow(dependence.ratio, groups - 1);
  const auto count = static_cast<std::int64_t>(std::clamp(32 * fastest, 4096.0, 4e6));
  std::array<double, 2> ends{};
  for (const bool highest : {false, true}) {
    const double sign = highest ? 1 : -1, step = 2 * std::numbers::pi / static_cast<double>(count);
    double best = -2, at = 0;
    for (std::int64_t n = 0; n < count; ++n) {
      const double x = step * static_cast<double>(n);
      if (sign * value(x) > best) best = sign * value(x), at = x;
    }
    double low = at - step, high = at + step;
    for (int n = 0; n < 100; ++n) {
      const double third = (high - low) / 3;
      (sign * value(low + third) < sign * value(high - third) ? low : high) +=
          sign * value(low + third) < sign * value(high - third) ? third : -third;
    }
    ends[highest ? 1 : 0] = value((low + high) / 2);
  }
  return ends;
}

CheckResult judge_instability(const std::vector<Extremes>& windows, std::int64_t dim) {
  const double root = std::sqrt(static_cast<double>(dim));
  const double beyond = kBeyond / root;
  double worst_rms = 0, nearest = 1e300;
  std::int64_t samples = 0;
  std::string detail;
  CheckCurve highest = curve_of("largest", {"lambda", "part of r", true, false}, {}, {});
  CheckCurve lowest = curve_of("smallest", {"lambda", "part of r", true, false}, {}, {});
  for (const Extremes& window : windows) {
    worst_rms = worst_of(worst_rms, std::abs(window.rms * root - 1));
    nearest = std::min({nearest, window.largest, -window.smallest});
    samples += window.to - window.from;
    detail += std::string(detail.empty() ? "" : "; ") + "in [" + std::to_string(window.from) +
              ", " + std::to_string(window.to) + ") from " + short_number(window.smallest) +
              " r (at " + std::to_string(window.smallest_at) + ") to " +
              short_number(window.largest) + " r (at " + std::to_string(window.largest_at) +
              "), root mean square " + short_number(window.rms * root) + " r / sqrt D";
    highest.x.push_back(static_cast<double>(window.largest_at));
    highest.y.push_back(window.largest), highest.bound.push_back(beyond);
    lowest.x.push_back(static_cast<double>(window.smallest_at));
    lowest.y.push_back(window.smallest), lowest.bound.push_back(-beyond);
  }
  const bool holds = worst_rms <= kRmsWithin && nearest >= beyond;
  CheckResult result = answer(holds ? Verdict::holds : Verdict::fails,
                              {nearest, beyond, worst_rms, samples}, detail);
  result.curves = {std::move(highest), std::move(lowest)};
  return result;
}

TheoryCheck rope_instability() {
  return {{.id = "rope.instability",
           .statement = "As lambda grows without end, (2/sqrt D) times the mean score comes within "
                        "O(1/D) of every value in [-r, r], r = sqrt(mu^2 + nu^2), if the "
                        "theta_0^(2d/D) are linearly independent over the rationals.",
           .source = "arXiv 2509.12635, Theorem 2.1 (last version: 2.2)",
           .title = "Far away RoPE's mean score takes every value",
           .needs = "nothing; of a model its base and head size",
           .rule = "holds where, over every integer of [10^6, 10^7) and of [10^7, 10^8), the root "
                   "mean square is within 2 % of r/sqrt D and both ends lie beyond 3 r/sqrt D; "
                   "premise not met where the base is a power c^g with g dividing D/2"},
          &run_rope_instability,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
