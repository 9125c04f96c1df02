#include "analysis/theory/cape_surface.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kSlope = 0.01;
constexpr int kLines = 16;

at::Tensor leaky_of(const at::Tensor& x) { return at::leaky_relu(x, kSlope); }

// What these many units do exactly, relative to the largest value, on points up to e^5.
struct ExactCase {
  const char* name;
  double worst = 0;
};
std::vector<ExactCase> exact_cases(Random& random) {
  const at::Tensor size = at::exp(7 * at::sigmoid(normal_tensor(random, {4000, 1})) - 2);
  const at::Tensor points = normal_tensor(random, {4000, 2}) * size;
  const at::Tensor a = points.select(1, 0), b = points.select(1, 1);
  const auto off = [](const at::Tensor& got, const at::Tensor& wanted) {
    return relative_difference(got, wanted);
  };
  const double low = -1.3, high = 2.1;
  const at::Tensor rest = -kSlope / (1 - kSlope) * a + (1 + kSlope / (1 - kSlope)) * b;
  const double box = largest_entry(b);
  return {
      {"b anywhere, 2 units", off((leaky_of(b) - leaky_of(-b)) / (1 + kSlope), b)},
      {"b on a bounded range, 1 unit", off(leaky_of(b + box) - box, b)},
      {"relu(a), 2 units",
       off((leaky_of(a) + kSlope * leaky_of(-a)) / (1 - kSlope * kSlope), at::relu(a))},
      {"|a|, 2 units", off((leaky_of(a) + leaky_of(-a)) / (1 - kSlope), a.abs())},
      {"clamp(a), 2 units",
       off(low + (leaky_of(a - low) - leaky_of(a - high) - kSlope * (high - low)) / (1 - kSlope),
           a.clamp(low, high))},
      {"max(a, b), 3 units",
       off(leaky_of(a - b) / (1 - kSlope) + (leaky_of(rest) - leaky_of(-rest)) / (1 + kSlope),
           at::maximum(a, b))},
  };
}

Correction drawn_correction(Random& random, std::int64_t heads, std::int64_t hidden) {
  return {normal_tensor(random, {hidden, 2 * heads}) / std::sqrt(2.0),
          normal_tensor(random, {hidden}) * 0.5, normal_tensor(random, {heads, hidden}) / 3,
          normal_tensor(random, {heads}) * 0.1};
}

std::string shares_text(const SurfaceShares& s) {
  return "shares of variance: affine " + short_number(s.affine) + ", content " +
         short_number(s.content) + ", bias " + short_number(s.bias) + ", interaction " +
         short_number(s.interaction) + " (cosine with a b " + short_number(s.product_cosine) + ")";
}

// The middle row of the surface, as a curve of the content.
CheckCurve slice_of(const Correction& f, const at::Tensor& held, const std::string& label) {
  const at::Tensor a = at::linspace(-3, 3, 121, at::kDouble);
  const at::Tensor values =
      surface_of(f, 0, held, a, at::full({1}, -1.0, at::kDouble)).select(1, 0);
  CheckCurve curve = curve_of(label, {"content score", "f", false, false}, {}, {});
  for (std::int64_t n = 0; n < a.size(0); ++n) {
    curve.x.push_back(a[n].item<double>()), curve.y.push_back(values[n].item<double>());
  }
  return curve;
}

CheckResult cape_surface_alone(const CheckContext& context) {
  Random random(context.seed);
  const Correction f = drawn_correction(random, 4, 12);
  CheckResult result = judge_surface(f, context.seed);
  Parts parts;
  for (const ExactCase& one : exact_cases(random)) parts.below(one.name, one.worst, 1e-13);
  CheckCurve curve = curve_of("worst |f - a b|", {"units of f", "error", true, true}, {}, {});
  for (const std::int64_t width : {4, 8, 16, 32, 64}) {
    const auto d = static_cast<double>(width);
    const double error = product_error(width);
    parts.below("a b with " + std::to_string(width) + " units", error,
                4 / ((d + 2) * (d + 2)) + 1e-9);
    parts.control("a b with " + std::to_string(width) + " units", error,
                  1 / (2 * (d + 1) * (d + 1)));
    curve.x.push_back(d), curve.y.push_back(error);
    curve.bound.push_back(1 / (2 * (d + 1) * (d + 1)));
  }
  if (!parts.hold()) result.verdict = name_of(Verdict::fails);
  result.detail += "; " + parts.detail();
  result.curves = {std::move(curve),
                   slice_of(f, at::zeros({8}, at::kDouble), "a drawn f, bias -1")};
  return result;
}

CheckResult cape_surface_of_model(const CheckContext& context) {
  if (!correction_of(*context.model, 0)) {
    return not_measured(Verdict::premise_not_met,
                        "premise: an f that reads content and bias of a pair; this model has none");
  }
  std::string detail;
  Measured worst{0, 0, 0, 0};
  bool hold = true;
  std::vector<CheckCurve> curves;
  const auto& layers = context.model->decoder.weights().layers;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Correction f = *correction_of(*context.model, l);
    const CheckResult one = judge_surface(f, context.seed + l);
    hold = hold && one.verdict == "holds";
    worst.samples += one.samples;
    if (l == 0 || one.verdict != "holds") worst.value = one.value, worst.bound = one.bound;
    const at::Tensor held = at::zeros({f.w1.size(1)}, at::kDouble);
    const at::Tensor a = at::linspace(-3, 3, 25, at::kDouble),
                     b = at::linspace(-4, 0, 21, at::kDouble);
    if (l == 0)
      detail =
          one.detail + "; L0H0: " + shares_text(surface_shares(surface_of(f, 0, held, a, b), a, b));
    curves.push_back(slice_of(f, held, "L" + std::to_string(l) + "H0, bias -1"));
  }
  CheckResult result = answer(hold ? Verdict::holds : Verdict::fails, worst, detail);
  result.curves = std::move(curves);
  return result;
}

CheckResult run_cape_surface(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  return context.model == nullptr ? cape_surface_alone(context) : cape_surface_of_model(context);
}

}  // namespace

std::optional<Correction> correction_of(const model::Model& model, std::size_t layer) {
  if (model.config().encoding.key != "cape") return std::nullopt;
  const auto form = model.encoding().options().at("form").get<std::string>();
  if (form != "concat" && form != "concat_residual") return std::nullopt;
  const model::Parameters& parameters = model.decoder.weights().layers[layer].encoding;
  const auto get = [&](const char* name) { return parameters.at(name).to(at::kDouble); };
  return Correction{get("mlp.0.weight"), get("mlp.0.bias"), get("mlp.2.weight"), get("mlp.2.bias")};
}

at::Tensor Correction::of(const at::Tensor& z) const {
  const at::Tensor hidden = at::matmul(z, w1.t()) + b1;
  return at::matmul(gelu ? at::gelu(hidden, "tanh") : leaky_of(hidden), w2.t()) + b2;
}

LineCorners corners_on_line(const Correction& f, std::int64_t head, const at::Tensor& from,
                            const at::Tensor& to, std::int64_t samples) {
  const at::Tensor share = at::linspace(0, 1, samples, at::kDouble).unsqueeze(1);
  const at::Tensor line = from + share * (to - from);
  const at::Tensor y = f.of(line).select(1, head);
  const at::Tensor second =
      y.slice(0, 2) - 2 * y.slice(0, 1, samples - 1) + y.slice(0, 0, samples - 2);
  LineCorners out;
  out.found = (second.abs() > 1e-12 * y.abs().max()).sum().item<std::int64_t>();
  const at::Tensor sign = (at::matmul(line, f.w1.t()) + f.b1).sign();
  out.crossed =
      (sign.slice(0, 1) != sign.slice(0, 0, samples - 1)).any(0).sum().item<std::int64_t>();
  return out;
}

at::Tensor surface_of(const Correction& f, std::int64_t head, const at::Tensor& held,
                      const at::Tensor& a, const at::Tensor& b) {
  const std::int64_t heads = held.size(0) / 2;
  at::Tensor z = held.expand({a.size(0), b.size(0), held.size(0)}).clone();
  z.select(2, head).copy_(a.unsqueeze(1).expand({-1, b.size(0)}));
  z.select(2, heads + head).copy_(b.unsqueeze(0).expand({a.size(0), -1}));
  return f.of(z).select(2, head);
}

SurfaceShares surface_shares(const at::Tensor& surface, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor s = surface - surface.mean();
  const at::Tensor by_a = s.mean(1, true), by_b = s.mean(0, true), interaction = s - by_a - by_b;
  const at::Tensor product = (a - a.mean()).unsqueeze(1) * (b - b.mean());
  const at::Tensor columns =
      at::stack({a.unsqueeze(1).expand_as(s).flatten(), b.unsqueeze(0).expand_as(s).flatten(),
                 at::ones({s.numel()}, at::kDouble)},
                1);
  const at::Tensor fitted =
      at::matmul(columns, at::matmul(at::linalg_pinv(columns), s.flatten().unsqueeze(1)))
          .squeeze(1);
  const double total = s.square().sum().item<double>();
  const auto share = [&](const at::Tensor& x, double times) {
    return x.square().sum().item<double>() * times / total;
  };
  SurfaceShares out;
  out.affine = 1 - share(s.flatten() - fitted, 1);
  out.content = share(by_a, static_cast<double>(b.size(0)));
  out.bias = share(by_b, static_cast<double>(a.size(0)));
  out.interaction = share(interaction, 1);
  out.product_cosine = (interaction * product).sum().item<double>() /
                       std::max((interaction.norm() * product.norm()).item<double>(), 1e-300);
  return out;
}

double product_error(std::int64_t width) {
  const auto n = static_cast<double>(width / 2 + 1);
  const double step = 4 / n / (1 - kSlope);  // the slope changes by twice 4/n at each inner knot
  const auto ridge = [&](const at::Tensor& u) {
    at::Tensor sum = at::zeros_like(u);
    for (std::int64_t k = 1; k <= width / 2; ++k) {
      const double knot = -2 + 4 * static_cast<double>(k) / n;
      const double sign = knot > 0 ? 1 : knot < 0 ? -1 : 0;
      sum = sum + 2 * step * leaky_of(sign * (u - knot));
    }
    return sum;
  };
  const at::Tensor grid = at::linspace(-1, 1, 801, at::kDouble);
  const at::Tensor a = grid.unsqueeze(1), b = grid.unsqueeze(0);
  return largest_entry((ridge(a + b) - ridge(a - b)) / 4 - a * b);
}

CheckResult judge_surface(const Correction& f, std::uint64_t seed) {
  Random random(seed + 7);
  const std::int64_t inputs = f.w1.size(1), heads = f.w2.size(0);
  std::int64_t most_found = 0, most_crossed = 0, excess = 0;
  for (int n = 0; n < kLines; ++n) {
    const at::Tensor from = normal_tensor(random, {inputs}) * 4 - 4;
    const at::Tensor to = normal_tensor(random, {inputs}) * 4 + 4;
    const LineCorners got = corners_on_line(f, n % heads, from, to);
    excess = std::max(excess, got.found - 2 * got.crossed);
    if (got.found < most_found) continue;
    most_found = got.found, most_crossed = got.crossed;
  }
  return answer(excess <= 0 ? Verdict::holds : Verdict::fails,
                {static_cast<double>(most_found), 2 * static_cast<double>(most_crossed), 0, kLines},
                "along " + std::to_string(kLines) + " lines of 4001 samples at most " +
                    std::to_string(most_found) + " second differences are not 0, where " +
                    std::to_string(most_crossed) + " of " + std::to_string(f.w1.size(0)) +
                    " creases are crossed");
}

TheoryCheck cape_surface() {
  return {
      {.id = "cape.surface",
       .statement = "f is piecewise linear with at most D creases, each a whole line; sums, "
                    "maxima and clamps of content and bias are exact with two or three units, "
                    "a product never: its error is between 1/(2 (D + 1)^2) and 4/(D + 2)^2.",
       .source = "arXiv 2405.14722, Section 3.2, corrected",
       .title = "What f makes of a content score and a bias",
       .needs = "nothing, or a CAPE model whose f reads both",
       .rule = "holds where, along 16 random lines of 4001 samples, second differences differ "
               "from 0 at no more than two samples a crease crossed, the exact cases are met to "
               "1e-13 and the products lie between their bounds; shares of variance are numbers "
               "without verdict"},
      &run_cape_surface,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
