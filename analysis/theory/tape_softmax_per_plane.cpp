#include "analysis/theory/tape_softmax_per_plane.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kTapeSoftmaxPerPlaneBound = 1e-12;

double mean_entropy(const at::Tensor& maps) {
  return -at::xlogy(maps, maps).sum(-1).mean().item<double>();
}

// The normalised product of the maps of planes (H, M, N, N).
at::Tensor product_map(const at::Tensor& maps, const at::Tensor& mask) {
  const at::Tensor logs = at::where(maps > 0, maps, at::ones_like(maps)).log().sum(1);
  return at::softmax(logs.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity()),
                     -1);
}

// Largest distance of two states that a row sees, (H, M, N).
at::Tensor diameters(const at::Tensor& e, const at::Tensor& mask) {
  const at::Tensor by_plane = e.flatten(3).permute({1, 2, 0, 3}).contiguous();  // (H, M, N, LR)
  constexpr std::int64_t kBySubtraction = 2;  // products in its place lose half the digits
  const at::Tensor distance = at::cdist(by_plane, by_plane, 2, kBySubtraction);
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < mask.size(0); ++i) {
    const at::Tensor seen = mask[i].nonzero().squeeze(1);
    rows.push_back(distance.index_select(2, seen).index_select(3, seen).amax({2, 3}));
  }
  return at::stack(rows, 2);
}

// The largest gap over its bound, less what rounding adds to a gap: half a unit in the last place
// of each of its terms, one a key. Where planes hardly differ that is more than 1e-12 of the bound.
double share_of_bound(const at::Tensor& gap, const at::Tensor& most, const at::Tensor& e) {
  const double largest = e.flatten(3).norm(2, 3).max().item<double>();
  const double rounding = 4 * 0x1p-53 * static_cast<double>(e.size(0)) * largest;
  const at::Tensor counted = most > 1e3 * rounding;
  if (!counted.any().item<bool>()) return 0;
  return ((gap - rounding) / most).masked_select(counted).max().item<double>();
}

CheckResult run_tape_softmax_per_plane(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  const std::string missing = general_form_missing(*context.model);
  if (!missing.empty()) return not_measured(Verdict::premise_not_met, missing);
  const auto model64 = in_float64(context.model);
  return judge_softmaxes(
      compare_softmaxes(general_tape(*model64), general_input(*model64, first_ids(context, 48))));
}

}  // namespace

std::vector<PlaneComparison> compare_softmaxes(const GeneralTape& tape, const GeneralInput& input) {
  GeneralTape printed = tape, shared = tape;
  printed.softmax_per_plane = true, shared.softmax_per_plane = false;
  GeneralState of_planes = input, of_shared = input;
  std::vector<PlaneComparison> out;
  for (std::size_t l = 0; l < tape.layers.size(); ++l) {
    const GeneralLayerRun a = run_layer(printed, l, of_planes, input.mask);
    const GeneralLayerRun b = run_layer(shared, l, of_shared, input.mask);
    PlaneComparison& row = out.emplace_back();
    row.product = largest_entry(product_map(a.plane_maps, input.mask) - a.attention);
    const at::Tensor same = at::einsum("hij,jhmlr->ihmlr", {a.attention, of_planes.e});
    const at::Tensor gap = (a.averaged - same).flatten(3).norm(2, 3).permute({1, 2, 0});
    const at::Tensor variation = 0.5 * (a.plane_maps - a.attention.unsqueeze(1)).abs().sum(-1);
    const at::Tensor most = variation * diameters(of_planes.e, input.mask);
    row.bound = share_of_bound(gap, most, of_planes.e);
    row.averaged = (a.averaged - same).norm().item<double>() / same.norm().item<double>();
    row.variation = to_vector<double>(variation.mean(0).mean(-1));
    row.shared_entropy = mean_entropy(a.attention), row.plane_entropy = mean_entropy(a.plane_maps);
    const auto spread = [&](const at::Tensor& scores) {
      return scores.masked_select(input.mask).std(false).item<double>();
    };
    row.spread = spread(a.plane_scores) / spread(a.plane_scores.sum(1));
    row.x = relative_difference(a.after.x, b.after.x);
    row.attention = largest_entry(a.attention - b.attention);
    of_planes = a.after, of_shared = b.after;
  }
  return out;
}

CheckResult judge_softmaxes(const std::vector<PlaneComparison>& layers) {
  double product = 0, bound = 0;
  CheckCurve entropy =
      curve_of("entropy, planes less shared", {"layer", "nats", false, false}, {}, {});
  CheckCurve averaged =
      curve_of("e~, planes against shared", {"layer", "relative", false, false}, {}, {});
  CheckCurve x = curve_of("x, planes against shared", {"layer", "relative", false, false}, {}, {});
  for (const PlaneComparison& row : layers) {
    product = worst_of(product, row.product), bound = worst_of(bound, row.bound);
    const auto at = static_cast<double>(entropy.x.size());
    for (CheckCurve* curve : {&entropy, &averaged, &x}) curve->x.push_back(at);
    entropy.y.push_back(row.plane_entropy - row.shared_entropy);
    averaged.y.push_back(row.averaged), x.y.push_back(row.x);
  }
  Parts parts;
  parts.below("shared map from the normalised product of the plane maps", product,
              kTapeSoftmaxPerPlaneBound);
  parts.below("difference of e~ over its bound, total variation times distance", bound,
              1 + kTapeSoftmaxPerPlaneBound);
  parts.below("x of the first layer, both programs", layers.front().x, 0);
  parts.below("attention of the first layer, both programs", layers.front().attention, 0);
  parts.report("without verdict: x after the last layer differs by", layers.back().x);
  parts.report("e~ of the first layer by", layers.front().averaged);
  parts.report("spread of a plane's scores over that of their sum", layers.front().spread);
  CheckResult result = parts.result();
  result.samples = static_cast<std::int64_t>(layers.size());
  result.curves = {std::move(entropy), std::move(averaged), std::move(x)};
  return result;
}

TheoryCheck tape_softmax_per_plane() {
  return {
      {.id = "tape.softmax_per_plane",
       .statement = "The shared map is the normalised product of the maps of the planes; |e~ of "
                    "the planes - e~ shared| is at most the total variation times the largest "
                    "distance of two visible e; x and attention of the first layer are the "
                    "same. All else of the two programs differs.",
       .source = "arXiv 2501.00712, Section 3.2, Equation 7 against Equation 6",
       .title = "A softmax of each plane against the shared one",
       .needs = "a TAPE model",
       .rule = "holds where the product and the bound are met to 1e-12 and the first layers are "
               "equal; the differences after it are numbers without verdict"},
      &run_tape_softmax_per_plane,
      On::model};
}

}  // namespace phasescope::analysis
