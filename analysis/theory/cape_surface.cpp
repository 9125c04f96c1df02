#include "analysis/theory/cape_surface.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/bias_rows.h"
#include "analysis/model_sides.h"
#include "analysis/random.h"
#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"
#include "model/host_memory.h"

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

// One row of the surface, as a curve of the content.
CheckCurve slice_of(const Correction& f, std::int64_t head, const at::Tensor& held,
                    const at::Tensor& a, double bias, const std::string& label) {
  const at::Tensor values =
      surface_of(f, head, held, a, at::full({1}, bias, at::kDouble)).select(1, 0);
  return curve_of(label, {"content score", "f", false, false}, to_vector<double>(a),
                  to_vector<double>(values));
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
                   slice_of(f, 0, at::zeros({8}, at::kDouble),
                            at::linspace(-3, 3, 121, at::kDouble), -1, "a drawn f, bias -1")};
  return result;
}

// f at w . z + c = 0 of one unit, the other inputs held: w_a a + w_b b + c.
struct Crease {
  double a = 0, b = 0, c = 0;
  double at(double content, double bias) const { return a * content + b * bias + c; }
};
std::vector<Crease> creases_of(const Correction& f, std::int64_t head, const at::Tensor& held) {
  const std::int64_t heads = held.size(0) / 2;
  at::Tensor others = held.clone();
  others[head] = 0, others[heads + head] = 0;
  const auto a = to_vector<double>(f.w1.select(1, head).contiguous());
  const auto b = to_vector<double>(f.w1.select(1, heads + head).contiguous());
  const auto c = to_vector<double>(at::matmul(f.w1, others) + f.b1);
  std::vector<Crease> creases;
  for (std::size_t n = 0; n < a.size(); ++n) creases.push_back({a[n], b[n], c[n]});
  return creases;
}

// The box that a region stands in.
struct Box {
  double low = 0, high = 0, least = 0, most = 0;  // of x, of y
};
Box box_of(const ConvexRegion& region) {
  const auto [low, high] = std::ranges::minmax(region.x);
  const auto [least, most] = std::ranges::minmax(region.y);
  return {low, high, least, most};
}

// Where creases run through a box, each a line of points with a gap after it.
CheckCurve crease_lines(const std::vector<Crease>& creases, const Box& box, const Axes& axes) {
  constexpr int kPoints = 49;
  CheckCurve curve = curve_of("creases of f", axes, {}, {});
  for (const Crease& crease : creases) {
    const double wide = box.high - box.low, tall = box.most - box.least;
    const bool along = std::abs(crease.a) * wide <= std::abs(crease.b) * tall;
    std::size_t inside = 0;
    for (int n = 0; n < kPoints; ++n) {
      const double share = n / double{kPoints - 1};
      double x = box.low + share * wide, y = box.least + share * tall;
      (along ? y : x) =
          along ? -(crease.a * x + crease.c) / crease.b : -(crease.b * y + crease.c) / crease.a;
      if (!(x >= box.low && x <= box.high && y >= box.least && y <= box.most)) continue;
      curve.x.push_back(x), curve.y.push_back(y), ++inside;
    }
    if (inside > 0) curve.x.push_back(std::nan("")), curve.y.push_back(std::nan(""));
  }
  return curve;
}

// Five biases of those that were read, from the least to the largest.
std::vector<double> spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  std::vector<double> spread;
  for (const std::size_t n : {0, 1, 2, 3, 4}) spread.push_back(values[n * (values.size() - 1) / 4]);
  spread.erase(std::ranges::unique(spread).begin(), spread.end());
  return spread;
}

constexpr std::int64_t kSurfacePairs = 4096;

// The surface of the head that was asked for, over what its f reads in texts.
void show_head(const CheckContext& context, const LayerHead& shown, const Correction& f,
               CheckResult& result) {
  const std::int64_t heads = f.w2.size(0), head = shown.head;
  const std::string name = name_of(shown);
  const PairsRead read =
      pairs_read(context, shown.layer, context.pairs > 0 ? context.pairs : kSurfacePairs);
  if (read.query.size() < 3) {
    result.detail += "; " + name +
                     ": its base bias is no table of distances at these lengths, so "
                     "what f reads of it is not known";
    return;
  }
  const at::Tensor held = read.inputs.mean(0);
  const auto content = to_vector<double>(read.inputs.select(1, head).contiguous());
  const auto bias = to_vector<double>(read.inputs.select(1, heads + head).contiguous());
  std::vector<std::pair<double, double>> points;
  for (std::size_t n = 0; n < content.size(); ++n) points.emplace_back(content[n], bias[n]);
  const ConvexRegion region = region_around(std::move(points));
  const Box box = box_of(region);
  const at::Tensor a = at::linspace(box.low, box.high, 25, at::kDouble),
                   b = at::linspace(box.least, box.most, 21, at::kDouble);
  result.detail +=
      "; " + name + " over content scores " + short_number(box.low) + " to " +
      short_number(box.high) + " and biases " + short_number(box.least) + " to " +
      short_number(box.most) + ", which " + std::to_string(read.query.size()) + " pairs of " +
      std::to_string(read.text.back() + 1) + " texts have, the other inputs at their means: " +
      shares_text(surface_shares(surface_of(f, head, held, a, b), a, b)) + "; " +
      std::to_string(creases_inside(f, head, held, region)) + " of " +
      std::to_string(f.w1.size(0)) + " creases run through the region where these pairs lie";
  const at::Tensor fine = at::linspace(box.low, box.high, 121, at::kDouble);
  for (const double one : spread_of(bias)) {
    result.curves.push_back(
        slice_of(f, head, held, fine, one, name + ", bias " + short_number(one)));
  }
  const Axes axes{"content score", "bias"};
  // With points between the corners, so that few corners are drawn as a line too.
  CheckCurve around = curve_of("where pairs lie", axes, {}, {});
  for (std::size_t n = 0; n + 1 < region.x.size(); ++n) {
    for (const double share : {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0}) {
      around.x.push_back(region.x[n] + share * (region.x[n + 1] - region.x[n]));
      around.y.push_back(region.y[n] + share * (region.y[n + 1] - region.y[n]));
    }
  }
  result.curves.push_back(std::move(around));
  CheckCurve lines = crease_lines(creases_of(f, head, held), box, axes);
  if (!lines.x.empty()) result.curves.push_back(std::move(lines));
}

CheckResult cape_surface_of_model(const CheckContext& context) {
  const std::map<std::int64_t, Correction> corrections = corrections_of(*context.model);
  if (corrections.empty()) {
    return not_measured(Verdict::premise_not_met,
                        "premise: an f that reads content and bias of a pair; this model has none");
  }
  const LayerHead shown = shown_head(context);
  std::string detail;
  Measured worst{0, 0, 0, 0};
  bool hold = true;
  std::uint64_t seed = context.seed;
  for (const auto& [layer, f] : corrections) {
    const CheckResult one = judge_surface(f, seed++);
    hold = hold && one.verdict == "holds";
    worst.samples += one.samples;
    const bool first = detail.empty();
    if (first || one.verdict != "holds") worst.value = *one.value, worst.bound = *one.bound;
    if (first) detail = one.detail;
  }
  CheckResult result = answer(hold ? Verdict::holds : Verdict::fails, worst, detail);
  if (const auto f = corrections.find(shown.layer); f != corrections.end()) {
    show_head(context, shown, f->second, result);
  }
  return result;
}

CheckResult run_cape_surface(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  return context.model == nullptr ? cape_surface_alone(context) : cape_surface_of_model(context);
}

}  // namespace

std::map<std::int64_t, Correction> corrections_of(const model::Model& model) {
  std::map<std::int64_t, Correction> corrections;
  const model::ModelConfig& config = model.config();
  if (config.encoding.key != "cape") return corrections;
  const auto form = model.encoding().options().at("form").get<std::string>();
  if (form != "concat" && form != "concat_residual") return corrections;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool own = &model.decoder.encoding_of(layer) == &model.encoding();
    if (!own || !has_head(config, layer, 0)) continue;
    const model::Parameters& parameters =
        model.decoder.weights().layers[static_cast<std::size_t>(layer)].encoding;
    const auto get = [&](const char* name) {
      return model::on_host(parameters.at(name)).to(at::kDouble);
    };
    corrections[layer] = {get("mlp.0.weight"), get("mlp.0.bias"), get("mlp.2.weight"),
                          get("mlp.2.bias")};
  }
  return corrections;
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

PairsRead pairs_read(const CheckContext& context, std::int64_t layer, std::int64_t pairs) {
  const at::NoGradGuard no_gradients;
  constexpr std::size_t kMostTexts = 16;
  const std::vector<Text>& texts = context.texts->items;
  const std::size_t used = std::min(kMostTexts, texts.size());
  const std::int64_t share = std::max<std::int64_t>(1, pairs / static_cast<std::int64_t>(used));
  PairsRead out;
  std::vector<at::Tensor> inputs;
  for (std::size_t t = 0; t < used; ++t) {
    context.progress->throw_if_cancelled();
    context.progress->progress(static_cast<double>(t) / static_cast<double>(used), "reading pairs");
    TextPass pass(context.model, ids_tensor(texts[t].ids), asked_options(context));
    const AttentionPointer attention = pass.layer(layer);
    const at::Tensor table = table_of_layer(*context.model, layer, pass.tokens());
    if (!table.defined()) return {};
    Random random(context.seed * 7919 + t);
    std::vector<std::int64_t> query, key;
    for (std::int64_t n = 0; n < share; ++n) {
      query.push_back(random.below(pass.tokens()));
      key.push_back(random.below(query.back() + 1));
    }
    const at::Tensor rows = at::tensor(query, at::kLong), columns = at::tensor(key, at::kLong);
    const std::int64_t group = attention->heads() / attention->kv_heads();
    const at::Tensor q =
        model::on_host(attention->q_rotated()[0]).index_select(1, rows).to(at::kDouble);
    const at::Tensor k = model::on_host(attention->k_rotated()[0])
                             .index_select(1, columns)
                             .repeat_interleave(group, 0)
                             .to(at::kDouble);
    const at::Tensor content = (q * k).sum(-1) * attention->program().scale;  // (H, P)
    inputs.push_back(at::cat({content, table.index_select(1, rows - columns)}).t());
    out.text.insert(out.text.end(), query.size(), static_cast<std::int64_t>(t));
    out.query.insert(out.query.end(), query.begin(), query.end());
    out.key.insert(out.key.end(), key.begin(), key.end());
  }
  out.inputs = at::cat(inputs);
  return out;
}

// Andrew's monotone chain: the lower side from the left, then the upper one from the right.
ConvexRegion region_around(std::vector<std::pair<double, double>> points) {
  std::ranges::sort(points);
  points.erase(std::ranges::unique(points).begin(), points.end());
  std::vector<std::pair<double, double>> corners;
  const auto add = [&corners](const std::pair<double, double>& point, std::size_t least) {
    const auto turns_left = [&] {
      const auto &o = corners[corners.size() - 2], &a = corners.back();
      return (a.first - o.first) * (point.second - o.second) -
                 (a.second - o.second) * (point.first - o.first) >
             0;
    };
    while (corners.size() >= least + 2 && !turns_left()) corners.pop_back();
    corners.push_back(point);
  };
  for (const auto& point : points) add(point, 0);
  const std::size_t lower = corners.size() - 1;
  for (std::size_t n = points.size() - 1; n-- > 0;) add(points[n], lower);
  ConvexRegion region;
  for (const auto& [x, y] : corners) region.x.push_back(x), region.y.push_back(y);
  return region;
}

std::int64_t creases_inside(const Correction& f, std::int64_t head, const at::Tensor& held,
                            const ConvexRegion& region) {
  const auto crosses = [&region](const Crease& crease) {
    bool above = false, below = false;
    for (std::size_t n = 0; n < region.x.size(); ++n) {
      const double side = crease.at(region.x[n], region.y[n]);
      above = above || side > 0, below = below || side < 0;
    }
    return above && below;
  };
  return std::ranges::count_if(creases_of(f, head, held), crosses);
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
       .needs = "nothing, or a CAPE model whose f reads both, and texts",
       .rule = "holds where, along 16 random lines of 4001 samples, second differences differ "
               "from 0 at no more than two samples a crease crossed, the exact cases are met to "
               "1e-13 and the products lie between their bounds; shares of variance are numbers "
               "without verdict, of a model those of one head (`layer`, `head`) over what it reads "
               "in texts"},
      &run_cape_surface,
      On::model_or_construction,
      {.pairs = true, .head = true}};
}

}  // namespace phasescope::analysis
