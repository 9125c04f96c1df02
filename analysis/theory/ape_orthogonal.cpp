#include "analysis/theory/ape_orthogonal.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kFirst = 1e-12;  // exp(A - A^T) alone is off by up to 4e-14
constexpr double kApeOrthogonalGrowth = 1.1;

CheckResult run_ape_orthogonal(const CheckContext& context) {
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  return judge_orthogonal(generators.matrices);
}

}  // namespace

double defect_of_power(const at::Tensor& w, std::int64_t power) {
  const at::Tensor raised = power_of(w, power);
  return largest_entry(at::matmul(raised.t(), raised) - at::eye(w.size(0), at::kDouble));
}

CheckResult judge_orthogonal(const Matrices& matrices) {
  double first = 0, growth = 0;
  CheckCurve curve =
      curve_of("largest |(W^p)^T W^p - I|", {"p", "largest entry", true, true}, {}, {});
  for (const std::int64_t p : {1, 10, 1000, 10000, 1000000, 100000000}) {
    double worst = 0, allowed = 0;
    for (const at::Tensor& w : matrices) {
      const double one = defect_of_power(w, 1), got = defect_of_power(w, p);
      const double bound = kApeOrthogonalGrowth * static_cast<double>(p) * one +
                           power_rounding(w.size(0), static_cast<double>(p));
      worst = worst_of(worst, got), allowed = std::max(allowed, bound);
      if (p == 1) first = worst_of(first, got);
      growth = worst_of(growth, got / bound);
    }
    curve.x.push_back(static_cast<double>(p)), curve.y.push_back(worst);
    curve.bound.push_back(p == 1 ? kFirst : allowed);
  }
  Parts parts;
  parts.below("W^T W - I", first, kFirst);
  parts.below("growth with p, over 1.1 p times that of p = 1 and rounding", growth, 1);
  parts.report("at p = 10^8", curve.y.back());
  CheckResult result = parts.result();
  result.samples = static_cast<std::int64_t>(matrices.size());
  result.curves = {std::move(curve)};
  return result;
}

TheoryCheck ape_orthogonal() {
  return {{.id = "ape.orthogonal",
           .statement = "W^T W = I, and the defect of W^p grows no faster than p.",
           .source = "arXiv 2312.16045, Section 3.1",
           .title = "Maps of positions keep norms",
           .needs = "nothing, or an APE model",
           .rule = "holds where |W^T W - I| is at most 1e-12 in float64 and that of W^p at most "
                   "1.1 p times it, and rounding, up to p = 10^8"},
          &run_ape_orthogonal,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
