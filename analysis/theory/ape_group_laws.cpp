#include "analysis/theory/ape_group_laws.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kApeGroupLawsBound = 1e-12;

at::Tensor product(const at::Tensor& a, const at::Tensor& b) { return at::matmul(a, b); }

double commutator(const at::Tensor& a, const at::Tensor& b) {
  return largest_entry(product(a, b) - product(b, a));
}

void add_period(const Generators& generators, Parts& parts) {
  double whole = 0, before = 1e300;
  const at::Tensor identity = at::eye(generators.dim(), at::kDouble);
  for (const at::Tensor& w : generators.matrices) {
    whole = worst_of(whole, largest_entry(power_of(w, generators.period) - identity));
    before = std::min(before, largest_entry(power_of(w, generators.period - 1) - identity));
  }
  const double bound = std::max(
      kApeGroupLawsBound, power_rounding(generators.dim(), static_cast<double>(generators.period)));
  parts.below("W^n - I", whole, bound);
  if (generators.period > 1) parts.control("W^(n-1) - I", before, bound);
}

CheckResult run_ape_group_laws(const CheckContext& context) {
  Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  return judge_group_laws(generators);
}

}  // namespace

GroupLaws group_laws_of(const at::Tensor& w, const at::Tensor& v) {
  const at::Tensor identity = at::eye(w.size(0), at::kDouble);
  const auto place = [&](std::int64_t a, std::int64_t b) {
    return direct_sum({power_of(w, a), power_of(v, b)});
  };
  GroupLaws out;
  out.associative = largest_entry(product(product(w, v), w) - product(w, product(v, w)));
  out.neutral = largest_entry(product(w, identity) - w);
  out.inverse = largest_entry(product(w, w.t()) - identity);
  out.powers = largest_entry(product(power_of(w, 100), power_of(w, -37)) - power_of(w, 63));
  out.tree = commutator(w, v);
  out.grid = commutator(place(3, -2), place(-1, 4));
  return out;
}

CheckResult judge_group_laws(const Generators& generators) {
  GroupLaws worst;
  double tree = 1e300;
  const Matrices& all = generators.matrices;
  CheckCurve curve = curve_of("|W W^T - I|", {"matrix", "largest entry", false, true}, {}, {});
  for (std::size_t n = 0; n < all.size(); ++n) {
    const GroupLaws got = group_laws_of(all[n], all[(n + 1) % all.size()]);
    worst.associative = worst_of(worst.associative, got.associative);
    worst.neutral = worst_of(worst.neutral, got.neutral);
    worst.inverse = worst_of(worst.inverse, got.inverse);
    worst.powers = worst_of(worst.powers, got.powers);
    worst.grid = worst_of(worst.grid, got.grid);
    tree = std::min(tree, got.tree);
    curve.x.push_back(static_cast<double>(n)), curve.y.push_back(got.inverse);
    curve.bound.push_back(kApeGroupLawsBound);
  }
  const double powered = product_bound(all, 137);
  Parts parts;
  parts.below("(W V) W - W (V W)", worst.associative, kApeGroupLawsBound);
  parts.below("W I - W", worst.neutral, kApeGroupLawsBound);
  parts.below("W W^T - I", worst.inverse, kApeGroupLawsBound);
  parts.below("W^100 W^-37 - W^63", worst.powers, powered);
  parts.below("commutator of two places of a grid", worst.grid, powered);
  const bool branches = generators.kind == "tree" || generators.kind == "drawn";
  if (branches && all.size() > 1) {
    parts.control("commutator of two branches of a tree", tree, kApeGroupLawsBound);
  }
  if (generators.period > 0) add_period(generators, parts);
  CheckResult result = parts.result();
  result.samples = static_cast<std::int64_t>(all.size());
  result.curves = {std::move(curve)};
  return result;
}

TheoryCheck ape_group_laws() {
  return {{.id = "ape.group_laws",
           .statement = "Composition of positions is associative, the identity is neutral and the "
                        "transpose inverts; W^p W^r = W^(p+r). Branches of a tree do not commute, "
                        "places of a grid do; a periodic W has W^n = I.",
           .source = "arXiv 2312.16045, Section 3.1, L1 to L3",
           .title = "Positions as orthogonal matrices are a group",
           .needs = "nothing, or an APE model",
           .rule = "holds where every law is met to 1e-12 in float64 (powers: to p times the "
                   "generators' defect and rounding), and branches differ by more"},
          &run_ape_group_laws,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
