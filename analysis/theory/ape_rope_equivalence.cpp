#include "analysis/theory/ape_rope_equivalence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/intrinsic_bias.h"
#include "analysis/theory/equality.h"
#include "analysis/worst.h"
#include "model/layers.h"

namespace phasescope::analysis {
namespace {

constexpr double kFloat32Epsilon = std::numeric_limits<float>::epsilon();
const std::vector<std::int64_t> kApeRopeEquivalencePowers = {-63, -3, -1, 0, 1, 2, 7, 50, 511};

// Whether some layer with maps has fewer heads than others: APE has a matrix for each.
bool has_uneven_layers(const model::ModelConfig& config) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::int64_t heads = model::heads_of_layer(config, layer);
    if (heads != 0 && heads != config.heads) return true;
  }
  return false;
}

// Logits of a RoPE model and of the same weights under APE whose W is RoPE's rotation by a token.
CheckResult of_rope(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  const auto model64 = in_float64(context.model);
  const at::Tensor ids = first_ids(context, 64);
  TextPass pass(context.model, ids, plain_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(pass);
  model::ModelConfig config = context.model->config();
  if (!rotation || std::abs(rotation->gain - 1) > 1e-5 || config.kv_heads != config.heads ||
      has_uneven_layers(config) || config.local_encoding) {
    return not_measured(Verdict::premise_not_met,
                        "premise: q and k rotated whole by fixed angles, with a key head for every "
                        "head; this model does not");
  }
  const auto planes = static_cast<std::int64_t>(rotation->frequencies.size());
  at::Tensor generator = at::zeros({2 * planes, 2 * planes}, at::kDouble);
  const bool half = rotation->layout == PlaneLayout::half;
  for (std::int64_t m = 0; m < planes; ++m) {
    const std::int64_t first = half ? m : 2 * m, second = half ? m + planes : 2 * m + 1;
    generator[second][first] = rotation->frequencies[static_cast<std::size_t>(m)] / 2;
    generator[first][second] = -rotation->frequencies[static_cast<std::size_t>(m)] / 2;
  }
  config.encoding = {"ape_sequence", {{"decay", 1.0}}};
  model::Weights weights = model64->decoder.weights();
  weights.encoding = {
      {"generator",
       generator.expand({config.heads, -1, -1}).contiguous().to(model64->decoder.device())}};
  const model::Decoder ape(config, model::make_encoding(config), weights);
  const model::ForwardOptions plain = plain_options(context);
  const double off =
      relative_difference(outputs_of(ape, ids, plain), outputs_of(model64->decoder, ids, plain));
  // The angles are those of float64; powers of W by squaring add their rounding. Sines of a table
  // were rounded to float32 before, and each layer turns by them.
  const auto& options = context.model->config().encoding.options;
  const bool stored = options.value("table_rows", std::int64_t{0}) > 0;
  const double table = stored ? static_cast<double>(config.layers) * kFloat32Epsilon : 0;
  const double bound =
      std::max({1e-10, power_rounding(2 * planes, static_cast<double>(ids.size(1))), table});
  CheckResult result = answer_below(
      {off, bound, 0, ids.size(1)},
      "the same weights under APE, W being RoPE's rotation by one token, give outputs that differ "
      "by " +
          short_number(off));
  std::vector<double> x;
  for (std::int64_t m = 0; m < planes; ++m) x.push_back(static_cast<double>(m));
  result.curves = {
      curve_of("angles", {"plane", "radians a token", false, true}, x, rotation->frequencies)};
  return result;
}

CheckCurve angles_curve(const std::string& label, std::vector<double> angles) {
  std::ranges::sort(angles, std::greater<>());
  std::vector<double> x;
  for (std::size_t m = 0; m < angles.size(); ++m) x.push_back(static_cast<double>(m));
  return curve_of(label, {"plane", "radians a token", false, true}, x, std::move(angles));
}

CheckResult of_generators(const Generators& generators, std::uint64_t seed) {
  Random random(seed + 17);
  const std::int64_t dim = generators.dim();
  double worst = 0, unfolded = 1e300;
  CheckResult result;
  std::vector<CheckCurve> curves;
  for (const at::Tensor& w : generators.matrices) {
    const at::Tensor q = normal_tensor(random, {dim}), k = normal_tensor(random, {dim});
    const CanonicalForm form = canonical_form(w);
    if (form.plus + form.minus > 0) {
      return not_measured(Verdict::premise_not_met,
                          "premise: determinant +1; this W reflects, and ape.reflection applies");
    }
    worst = worst_of(worst, folded_difference(w, form, q, k, kApeRopeEquivalencePowers));
    unfolded =
        std::min(unfolded, folded_difference(w, form, q, k, kApeRopeEquivalencePowers, false));
    curves.push_back(angles_curve("angles of W " + std::to_string(curves.size()), form.angles));
  }
  Parts parts;
  parts.below("scores under W from RoPE's with P folded into q and k, of |q| |k|", worst,
              product_bound(generators.matrices, 511));
  parts.control("with P forgotten", unfolded, 1e-6);
  result = parts.result();
  result.samples =
      static_cast<std::int64_t>(generators.matrices.size() * kApeRopeEquivalencePowers.size());
  std::vector<double> rope;
  for (std::int64_t m = 0; m < dim / 2; ++m) {
    rope.push_back(std::pow(1e4, -2 * static_cast<double>(m) / static_cast<double>(dim)));
  }
  curves.push_back(angles_curve("RoPE's, base 10^4", rope));
  result.curves = std::move(curves);
  return result;
}

CheckResult run_ape_rope_equivalence(const CheckContext& context) {
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) return of_rope(context);
  if (generators.kind == "tree") {
    return not_measured(Verdict::premise_not_met,
                        "premise: positions on sequences or grids; branches of a tree do not "
                        "commute, and no RoPE has them");
  }
  return of_generators(generators, context.seed);
}

}  // namespace

double rope_score(const at::Tensor& q, const std::vector<double>& angles, std::int64_t power,
                  const at::Tensor& k) {
  std::vector<double> turned = angles;
  for (double& angle : turned) angle *= static_cast<double>(power);
  return score(q, rotation_blocks(turned), k);
}

double folded_difference(const at::Tensor& w, const CanonicalForm& form, const at::Tensor& q,
                         const at::Tensor& k, const std::vector<std::int64_t>& powers, bool fold) {
  const at::Tensor qz = fold ? form.basis.t().mv(q) : q, kz = fold ? form.basis.t().mv(k) : k;
  const double size = (q.norm() * k.norm()).item<double>();
  double worst = 0;
  for (const std::int64_t p : powers) {
    const double wanted = score(q, power_of(w, p), k);
    worst = worst_of(worst, std::abs(rope_score(qz, form.angles, p, kz) - wanted) / size);
  }
  return worst;
}

TheoryCheck ape_rope_equivalence() {
  return {{.id = "ape.rope_equivalence",
           .statement = "W = P R P^T with R a rotation of planes: with P folded into the "
                        "projections of q and k, APE on sequences and grids is RoPE with learned "
                        "angles, and RoPE is APE.",
           .source = "arXiv 2312.16045, Section 3.2 and Appendix A.2",
           .title = "APE on sequences is RoPE with angles of its own",
           .needs = "nothing, an APE model, or one with RoPE",
           .rule = "holds where scores (of a RoPE model: outputs) agree in float64 to 1e-12 or p "
                   "times the generators' defect, and do not with P forgotten"},
          &run_ape_rope_equivalence,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
