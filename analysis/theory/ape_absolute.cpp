#include "analysis/theory/ape_absolute.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kShift = 5;
constexpr double kApeAbsoluteBound = 1e-12;
constexpr std::pair<std::int64_t, std::int64_t> kApeAbsolutePlaces[] = {
    {0, 0}, {3, 9}, {40, 2}, {7, 1000}};

CheckResult run_ape_absolute(const CheckContext& context) {
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  if (context.model == nullptr) {
    return judge_absolute(generators.matrices, context.seed, one_sided_score);
  }
  CheckResult result = judge_absolute(generators.matrices, context.seed, two_sided_score);
  result.verdict = name_of(Verdict::premise_not_met);
  result.detail =
      "premise: W^j on the keys alone; this model has it on both sides. Measured all "
      "the same: " +
      result.detail;
  return result;
}

}  // namespace

double one_sided_score(const at::Tensor& w, const at::Tensor& q, std::int64_t, const at::Tensor& k,
                       std::int64_t j) {
  return score(q, power_of(w, j), k);
}

double two_sided_score(const at::Tensor& w, const at::Tensor& q, std::int64_t i,
                       const at::Tensor& k, std::int64_t j) {
  return power_of(w, i).mv(q).dot(power_of(w, j).mv(k)).item<double>();
}

CheckResult judge_absolute(const Matrices& matrices, std::uint64_t seed, PlacedScore placed) {
  Random random(seed + 5);
  double at_zero = 0, query_side = 0, powers = 0, over = 0, least = 1e300;
  CheckCurve curve =
      curve_of("moved by a shift of 5", {"pair", "of |q| |k|", false, false}, {}, {});
  for (const at::Tensor& w : matrices) {
    const std::int64_t dim = w.size(0);
    const at::Tensor q = normal_tensor(random, {dim}), k = normal_tensor(random, {dim});
    const double size = (q.norm() * k.norm()).item<double>();
    const double most = spectral_norm(power_of(w, kShift) - at::eye(dim, at::kDouble));
    powers = worst_of(
        powers, largest_entry(at::matmul(power_of(w, 31), power_of(w, 12)) - power_of(w, 43)));
    double moved = 0;
    for (const auto& [i, j] : kApeAbsolutePlaces) {
      at_zero = worst_of(at_zero,
                         std::abs(placed(w, q, 0, k, j) - two_sided_score(w, q, 0, k, j)) / size);
      query_side = worst_of(query_side, std::abs(power_of(w, i).mv(q).dot(k).item<double>() -
                                                 score(q, power_of(w, -i), k)) /
                                            size);
      const double by =
          std::abs(placed(w, q, i + kShift, k, j + kShift) - placed(w, q, i, k, j)) / size;
      moved = worst_of(moved, by);
      curve.x.push_back(static_cast<double>(curve.x.size())), curve.y.push_back(by);
      curve.bound.push_back(most);
    }
    over = worst_of(over, moved / (most + kApeAbsoluteBound));
    least = std::isnan(moved) ? moved : std::min(least, moved);
  }
  const double bound = product_bound(matrices, 1000);
  Parts parts;
  parts.below("from the two-sided score of a query at 0, of |q| |k|", at_zero, bound);
  parts.below("(W^i q).k - q.(W^-i k)", query_side, bound);
  parts.below("W^31 W^12 - W^43", powers, product_bound(matrices, 43));
  parts.below("moved by a shift of 5, over |W^5 - I|", over, 1);
  parts.control("moved by a shift of 5, of |q| |k|", least, bound);
  CheckResult result = parts.result();
  result.samples = static_cast<std::int64_t>(curve.x.size());
  result.curves = {std::move(curve)};
  return result;
}

TheoryCheck ape_absolute() {
  return {
      {.id = "ape.absolute",
       .statement = "W^j on the keys alone gives q.(W^j k), the two-sided score of a query at "
                    "0; W^p W^r = W^(p+r). A shift by s moves it, by at most |q| |k| |W^s - I|.",
       .source = "arXiv 2312.16045, Section 3.5",
       .title = "One-sided positions are absolute",
       .needs = "nothing, or an APE model",
       .rule = "holds where the identities are met to 1e-12 or p times the generators' defect, "
               "and a shift moves the score by more than that and less than its bound"},
      &run_ape_absolute,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
