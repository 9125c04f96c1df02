#include "analysis/theory/ape_composite.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/theory/equality.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kApeCompositePairs = 30;

CompositePlace drawn_place(Random& random) {
  return {random.below(40), 1 + random.below(63), random.below(40)};
}

// On the generators of a model, or drawn ones.
CheckResult run_ape_composite(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  const Generators generators = generators_of(context);
  if (!generators.missing.empty() || generators.matrices.size() < 2) {
    return not_measured(Verdict::premise_not_met, generators.missing.empty()
                                                      ? "premise: two generators or more"
                                                      : generators.missing);
  }
  const std::int64_t dim = generators.dim();
  Random random(context.seed + 29);
  double worst = 0, swapped = 0;
  CheckCurve curve =
      curve_of("sum of the parts - whole", {"pair", "of |q| |k|", false, true}, {}, {});
  for (std::int64_t n = 0; n < kApeCompositePairs; ++n) {
    const at::Tensor q = normal_tensor(random, {3 * dim}), k = normal_tensor(random, {3 * dim});
    const Matrices parts =
        composite_parts(generators.matrices, drawn_place(random), drawn_place(random));
    double sum = 0;
    for (std::int64_t p = 0; p < 3; ++p) {
      sum += score(q.narrow(0, p * dim, dim), parts[static_cast<std::size_t>(p)],
                   k.narrow(0, p * dim, dim));
    }
    const double size = (q.norm() * k.norm()).item<double>();
    const double off = std::abs(sum - score(q, direct_sum(parts), k)) / size;
    worst = worst_of(worst, off);
    swapped = std::max(
        swapped, std::abs(sum - score(q, direct_sum({parts[0], parts[2], parts[1]}), k)) / size);
    curve.x.push_back(static_cast<double>(n)), curve.y.push_back(off);
    curve.bound.push_back(1e-12);
  }
  Parts parts;
  parts.below("score of sequence (+) tree (+) sequence from the sum of its parts", worst, 1e-12);
  parts.control("with two parts exchanged", swapped, 1e-6);
  CheckResult result = parts.result();
  result.samples = kApeCompositePairs;
  result.curves = {std::move(curve)};
  return result;
}

}  // namespace

Matrices composite_parts(const Matrices& generators, const CompositePlace& u,
                         const CompositePlace& v) {
  const Matrices two = {generators.at(0), generators.at(1)};
  const std::int64_t dim = two[0].size(0);
  const at::Tensor from = path_matrix(two, path_of_node(u[1]), dim);
  const at::Tensor to = path_matrix(two, path_of_node(v[1]), dim);
  return {power_of(two[0], v[0] - u[0]), at::matmul(from.t(), to), power_of(two[1], v[2] - u[2])};
}

TheoryCheck ape_composite() {
  return {{.id = "ape.composite",
           .statement = "The interpretation of a pair of structures is the direct sum of those of "
                        "its parts: its score is the sum of theirs.",
           .source = "arXiv 2312.16045, Section 3.4, Equations 10 to 12, and Section 3.5",
           .title = "Composite structures are direct sums",
           .needs = "nothing, or an APE model",
           .rule = "holds where the score of sequence (+) tree (+) sequence equals the sum of its "
                   "parts to 1e-12 of |q| |k|, and not with two parts exchanged"},
          &run_ape_composite,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
