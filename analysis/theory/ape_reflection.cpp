#include "analysis/theory/ape_reflection.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/theory/ape_rope_equivalence.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

const std::vector<std::int64_t> kApeReflectionPowers = {-3, -1, 0, 1, 2, 7, 50};
constexpr int kApeReflectionDraws = 8;

CheckResult ape_reflection_alone(const CheckContext& context) {
  Random random(context.seed);
  double worst = 0, broken = 1e300, even = 0, rotation = 1;
  CheckCurve curve = curve_of("width d + 2 from W", {"draw", "of |q| |k|", false, true}, {}, {});
  Matrices all;
  for (int n = 0; n < kApeReflectionDraws; ++n) {
    const std::int64_t dim = 6 + n % 5;  // odd ones too
    const at::Tensor w = drawn_orthogonal(random, dim, -1);
    const at::Tensor q = normal_tensor(random, {dim}), k = normal_tensor(random, {dim});
    const double off = reflected_difference(w, q, k, kApeReflectionPowers, wide_rope);
    worst = worst_of(worst, off);
    if (dim % 2 == 0) {
      broken = std::min(broken, reflected_difference(w, q, k, kApeReflectionPowers, single_plane));
    }
    even = worst_of(even, std::abs(determinant(power_of(w, 2)) - 1));
    rotation = std::min(rotation, determinant(drawn_rotation(random, dim, 2)));
    curve.x.push_back(n), curve.y.push_back(off), curve.bound.push_back(1e-12);
    all.push_back(w);
  }
  Parts parts;
  parts.below("scores of the width d + 2 form, of |q| |k|", worst, product_bound({all[0]}, 50));
  parts.control("+1 and -1 treated as one plane", broken, 1e-6);
  parts.below("determinant of W^2 from 1", even, 1e-12);
  parts.below("determinant of exp(A - A^T) from 1", std::abs(rotation - 1), 1e-12);
  CheckResult result = parts.result();
  result.samples = kApeReflectionDraws;
  result.curves = {std::move(curve)};
  return result;
}

CheckResult run_ape_reflection(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  if (context.model == nullptr) return ape_reflection_alone(context);
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  Random random(context.seed);
  double worst = 0, lowest = 1;
  std::int64_t reflecting = 0;
  CheckCurve determinants =
      curve_of("determinants", {"generator", "determinant", false, false}, {}, {});
  for (const at::Tensor& w : generators.matrices) {
    lowest = std::min(lowest, determinant(w));
    determinants.x.push_back(static_cast<double>(determinants.x.size()));
    determinants.y.push_back(determinant(w));
    if (determinant(w) > 0) continue;
    ++reflecting;
    worst = worst_of(worst, reflected_difference(w, normal_tensor(random, {w.size(0)}),
                                                 normal_tensor(random, {w.size(0)}),
                                                 kApeReflectionPowers, wide_rope));
  }
  const auto count = static_cast<std::int64_t>(generators.matrices.size());
  CheckResult result =
      reflecting == 0
          ? answer(Verdict::premise_not_met, {lowest, -1, 0, count},
                   "premise: a W of determinant -1; the determinants here are " +
                       short_number(lowest) + " or more, and ape.rope_equivalence applies")
          : answer_below({worst, product_bound(generators.matrices, 50), 0, reflecting},
                         std::to_string(reflecting) + " of " + std::to_string(count) +
                             " reflect; RoPE of width d + 2 has their scores to " +
                             short_number(worst) + " of |q| |k|");
  result.curves = {std::move(determinants)};
  return result;
}

}  // namespace

WideRope wide_rope(const CanonicalForm& form, const at::Tensor& q, const at::Tensor& k) {
  const auto planes = static_cast<std::int64_t>(form.angles.size());
  WideRope out{form.angles, {}, {}};
  const auto widened = [&](const at::Tensor& x) {
    const at::Tensor along = form.basis.t().mv(x), zero = at::zeros({1}, at::kDouble);
    std::vector<at::Tensor> parts = {along.narrow(0, 0, 2 * planes)};
    for (std::int64_t n = 2 * planes; n < along.size(0); ++n) {
      parts.push_back(along.narrow(0, n, 1));
      parts.push_back(zero);
    }
    return at::cat(parts);
  };
  if (form.plus > 0) out.angles.push_back(0);
  if (form.minus > 0) out.angles.push_back(std::numbers::pi);
  out.q = widened(q), out.k = widened(k);
  return out;
}

WideRope single_plane(const CanonicalForm& form, const at::Tensor& q, const at::Tensor& k) {
  WideRope out{form.angles, form.basis.t().mv(q), form.basis.t().mv(k)};
  out.angles.push_back(std::numbers::pi / 2);
  return out;
}

double reflected_difference(const at::Tensor& w, const at::Tensor& q, const at::Tensor& k,
                            const std::vector<std::int64_t>& powers, RopeForm form) {
  const WideRope rope = form(canonical_form(w), q, k);
  const double size = (q.norm() * k.norm()).item<double>();
  double worst = 0;
  for (const std::int64_t p : powers) {
    const double wanted = score(q, power_of(w, p), k);
    worst = worst_of(worst, std::abs(rope_score(rope.q, rope.angles, p, rope.k) - wanted) / size);
  }
  return worst;
}

TheoryCheck ape_reflection() {
  return {{.id = "ape.reflection",
           .statement = "A W of determinant -1 has single eigenvalues +1 and -1 beside its "
                        "rotations: no RoPE of its width has its scores, one of width d + 2 (d + 1 "
                        "for odd d) does. exp(A - A^T) never reflects.",
           .source = "arXiv 2312.16045, Section 3.2, footnote 4, corrected",
           .title = "What a reflection adds",
           .needs = "nothing, or an APE model",
           .rule = "holds where the form of width d + 2 agrees in float64 to 1e-12 or p times the "
                   "defect, and +1 and -1 treated as one plane does not; premise not met where "
                   "every determinant is +1"},
          &run_ape_reflection,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
