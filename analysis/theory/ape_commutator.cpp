#include "analysis/theory/ape_commutator.h"

#include <ATen/ATen.h>

#include <cmath>

#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

CheckResult run_ape_commutator(const CheckContext& context) {
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  CheckResult result = judge_commutators(generators.matrices);
  if (generators.kind == "tree" || generators.kind == "drawn") return result;
  result.verdict = name_of(Verdict::premise_not_met);
  result.detail = "premise: branches of a tree; these are matrices of a " + generators.kind +
                  ", which meet nowhere. Measured all the same: " + result.detail;
  return result;
}

}  // namespace

Commutator commutator_of(const at::Tensor& w, const at::Tensor& v) {
  const at::Tensor identity = at::eye(w.size(0), at::kDouble);
  Commutator out;
  out.norm = (at::matmul(w, v) - at::matmul(v, w)).norm().item<double>();
  out.bound = 2 * spectral_norm(w - identity) * (v - identity).norm().item<double>();
  out.most = 2 * std::sqrt(static_cast<double>(w.size(0)));
  return out;
}

CheckResult judge_commutators(const Matrices& matrices) {
  if (matrices.size() < 2) {
    return not_measured(Verdict::premise_not_met, "premise: two generators; here there is one");
  }
  const double floor = 100 * power_rounding(matrices[0].size(0), 1);
  double least = 1e300, share = 0;
  Commutator smallest;
  CheckCurve curve =
      curve_of("commutator of each pair", {"pair", "Frobenius norm", false, false}, {}, {});
  for (std::size_t a = 0; a < matrices.size(); ++a) {
    for (std::size_t b = a + 1; b < matrices.size(); ++b) {
      const Commutator got = commutator_of(matrices[a], matrices[b]);
      share = worst_of(share, got.norm / (got.bound + floor));
      curve.x.push_back(static_cast<double>(curve.x.size())), curve.y.push_back(got.norm);
      curve.bound.push_back(got.bound);
      if (std::isnan(least) || got.norm >= least) continue;
      least = got.norm, smallest = got;
    }
  }
  const bool holds = least > floor && share <= 1;
  CheckResult result =
      answer(holds ? Verdict::holds : Verdict::fails,
             {least, floor, power_rounding(matrices[0].size(0), 1),
              static_cast<std::int64_t>(curve.x.size())},
             "smallest commutator " + short_number(least) + ", which must exceed " +
                 short_number(floor) + "; it could be as large as " + short_number(smallest.most) +
                 ", and for matrices so near "
                 "the identity " +
                 short_number(smallest.bound) +
                 " (largest share of that bound: " + short_number(share) + ")");
  result.curves = {std::move(curve)};
  return result;
}

TheoryCheck ape_commutator() {
  return {
      {.id = "ape.commutator",
       .statement = "Maps of distinct branches do not commute. It is not automatic: in d = 2, "
                    "and for matrices that share their planes, they do; near the identity the "
                    "commutator is of second order.",
       .source = "arXiv 2312.16045, Section 3.3, corrected",
       .title = "Branches of a tree do not commute",
       .needs = "nothing, or an APE model of trees",
       .rule = "holds where |W V - V W| of every pair is above 400 d 2^-53 and no larger than 2 "
               "|W - I| |V - I|"},
      &run_ape_commutator,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
