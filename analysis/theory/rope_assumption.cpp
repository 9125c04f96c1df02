#include "analysis/theory/rope_assumption.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/intrinsic_bias.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/pair_samples.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kRopeAssumptionPairs = 1000;  // a head, as in the paper
constexpr int kRopeAssumptionDistances = 100;
constexpr std::size_t kBins = 10;
constexpr double kErrors = 3, kGrowth = 3;

// Pairs come text by text; bins want them by distance.
CoefficientPairs by_distance(const CoefficientPairs& pairs) {
  std::vector<std::size_t> order(pairs.distance.size());
  for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return pairs.distance[a] < pairs.distance[b]; });
  CoefficientPairs out;
  out.planes = pairs.planes;
  const auto planes = static_cast<std::size_t>(pairs.planes);
  for (const std::size_t n : order) {
    out.distance.push_back(pairs.distance[n]), out.text.push_back(pairs.text[n]);
    for (std::size_t d = 0; d < planes; ++d) {
      out.a.push_back(pairs.a[n * planes + d]), out.b.push_back(pairs.b[n * planes + d]);
    }
  }
  return out;
}

void read_layer(const DrawnPairs& drawn, const model::LayerAttention& attention,
                const Rotation& rotation, std::map<LayerHead, CoefficientPairs>& heads) {
  const std::int64_t group = attention.heads() / attention.kv_heads();
  const auto distance = to_vector<double>(drawn.queries() - drawn.keys());
  for (std::int64_t head = 0; head < attention.heads(); ++head) {
    const at::Tensor q =
        model::on_host(attention.q()[0][head]).index_select(0, drawn.queries()).to(at::kDouble);
    const at::Tensor k = model::on_host(attention.k()[0][head / group])
                             .index_select(0, drawn.keys())
                             .to(at::kDouble);
    const PlaneProducts products = plane_products(q, k, rotation.layout);
    CoefficientPairs& out = heads[{attention.layer(), head}];
    out.planes = products.a.size(1);
    append(out.a, products.a * rotation.gain), append(out.b, products.b * rotation.gain);
    out.distance.insert(out.distance.end(), distance.begin(), distance.end());
    out.text.insert(out.text.end(), distance.size(), drawn.text);
  }
}

CheckResult run_rope_assumption(const CheckContext& context) {
  TextPass first(context.model, first_ids(context, 64), asked_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(first);
  if (!rotation) {
    return not_measured(Verdict::premise_not_met,
                        "premise: q and k rotated whole by fixed angles; this model does not");
  }
  const std::vector<std::int64_t> distances =
      reached_distances(*context.texts, kRopeAssumptionDistances, false);
  if (distances.size() < kBins) {
    return not_measured(Verdict::undecided,
                        "needs at least " + std::to_string(kFewestClusters) +
                            " texts of a dozen tokens or more for errors clustered by text");
  }
  std::map<LayerHead, CoefficientPairs> heads;
  visit_pairs(context, context.model, distances,
              context.pairs > 0 ? context.pairs : kRopeAssumptionPairs,
              [&](const DrawnPairs& drawn, const model::LayerAttention& attention) {
                read_layer(drawn, attention, *rotation, heads);
              });
  std::vector<std::pair<std::string, HeadVerdict>> verdicts;
  std::vector<CheckCurve> curves;
  for (const auto& [head, pairs] : heads) {
    const CoefficientBins bins = coefficient_bins(by_distance(pairs));
    const std::string name = name_of(head);
    verdicts.emplace_back(name, judge_coefficients(bins));
    for (const auto& [label, means] : {std::pair{" mu", &bins.mu}, std::pair{" nu", &bins.nu}}) {
      CheckCurve& curve = curves.emplace_back(curve_of(
          name + label, {"distance", "mean over planes", false, false}, bins.distance, {}));
      for (const MeanError& mean : *means) {
        curve.y.push_back(mean.mean), curve.bound.push_back(kErrors * mean.error);
      }
    }
  }
  CheckResult result = over_heads(verdicts);
  result.curves = std::move(curves);
  return result;
}

}  // namespace

CoefficientBins coefficient_bins(const CoefficientPairs& pairs) {
  CoefficientBins out;
  const std::size_t count = pairs.distance.size(), planes = static_cast<std::size_t>(pairs.planes);
  out.smallest = 1e300;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const std::size_t begin = count * bin / kBins, end = count * (bin + 1) / kBins;
    std::vector<double> mu, nu;
    std::vector<std::int64_t> text;
    double sums = 0;
    for (std::size_t n = begin; n < end; ++n) {
      double a = 0, b = 0, sum_a = 0, sum_b = 0;
      for (std::size_t d = 0; d < planes; ++d) {
        const double x = pairs.a[n * planes + d], y = pairs.b[n * planes + d];
        a += x, b += y, sum_a += std::abs(x), sum_b += std::abs(y);
      }
      mu.push_back(a / static_cast<double>(planes)), nu.push_back(b / static_cast<double>(planes));
      if (!pairs.text.empty()) text.push_back(pairs.text[n]);
      sums += sum_a;
      out.largest_sum = std::max(out.largest_sum, sum_a + sum_b);
    }
    const auto in_bin = static_cast<double>(end - begin);
    out.distance.push_back((pairs.distance[begin] + pairs.distance[end - 1]) / 2);
    // Over n - 1 where pairs are independent.
    const double unbiased = text.empty() ? std::sqrt(in_bin / (in_bin - 1)) : 1;
    out.mu.push_back(mean_error(mu, text)), out.nu.push_back(mean_error(nu, text));
    out.mu.back().error *= unbiased, out.nu.back().error *= unbiased;
    out.sums.push_back(sums / in_bin);
    out.smallest = std::min(out.smallest, std::abs(out.mu.back().mean));
  }
  for (std::size_t d = 0; d < planes; ++d) {
    std::vector<double> column;
    for (std::size_t n = 0; n < count; ++n) column.push_back(pairs.a[n * planes + d]);
    out.mu_by_plane.push_back(moments_of(column).mean);
    out.sd_by_plane.push_back(sample_deviation(column));
  }
  return out;
}

HeadVerdict judge_coefficients(const CoefficientBins& bins) {
  HeadVerdict out;
  double least = 1e300;
  bool one_sign = true;
  for (const MeanError& mean : bins.mu) {
    one_sign = one_sign && (mean.mean > 0) == (bins.mu[0].mean > 0);
    const double z = std::abs(mean.mean) / mean.error;
    if (std::isnan(least) || z >= least) continue;
    least = z;
    out.measured = {std::abs(mean.mean), kErrors * mean.error, mean.error, 0};
  }
  const double growth = bins.sums.back() / bins.sums.front();
  out.measured.samples = static_cast<std::int64_t>(bins.mu.size());
  const bool holds = least > kErrors && one_sign && growth <= kGrowth;
  out.verdict = holds ? Verdict::holds : Verdict::fails;
  out.why = "smallest mean of a tenth of the distances " + short_number(out.measured.value) +
            " +- " + short_number(out.measured.noise) + ", smallest |mu| " +
            short_number(bins.smallest) + (one_sign ? "" : ", signs differ") +
            "; sum of |A_d| in the last tenth over the first " + short_number(growth) +
            ", largest sum of |A_d| + |B_d| " + short_number(bins.largest_sum);
  return out;
}

TheoryCheck rope_assumption() {
  return {{.id = "rope.assumption",
           .statement = "Over distance the coefficient sums stay bounded, and the mean mu of A_d "
                        "stays away from zero.",
           .source = "arXiv 2509.12635, Assumption 2.1 and Appendix H",
           .title = "The coefficients of RoPE's planes over distance",
           .needs = "a RoPE model and 8 texts or more",
           .rule = "of a head holds where the mean of every tenth of the distances is more than 3 "
                   "standard errors (clustered by text) from 0 with one sign, and the last tenth's "
                   "sum of |A_d| is at most 3 times the first's; fails where any head does"},
          &run_rope_assumption,
          On::model,
          {.pairs = true}};
}

}  // namespace phasescope::analysis
