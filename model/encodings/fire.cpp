#include "model/encodings/fire.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <tuple>

#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

constexpr double kEpsilon = 1e-6;  // keeps the normaliser off 0, as the public code has it
constexpr double kLeak = 0.01;

const EncodingInfo& fire_info() {
  static const EncodingInfo info = {
      .key = "fire",
      .title = "FIRE (functional interpolation)",
      .formula =
          "s_ij = q_i.k_j / sqrt(d) + MLP_h(ln(|c (i-j)| + 1) / ln(|c max(i, |mult L|)| + 1)), "
          "MLP 1 -> hidden -> H",
      .source = "arXiv 2310.04418, Eq. 7-8",
      .departure = "",
      .options =
          {{"hidden", 32, "units of the MLP", {}, 1, 4096},
           {"threshold", 512.0, "L, where a checkpoint does not hold its own", {}, 0, kNoLimit},
           {"activation",
            "relu",
            "of the MLP; leaky_relu has the slope 0.01",
            {"relu", "leaky_relu"}}},
      .under_shift = {UnderShift::Kind::moves,
                      "past its threshold the normaliser reads the query's own position"},
      .has_state = false,
  };
  return info;
}

// One layer's tensors, and what the bias is made of beside them.
struct FireBias {
  at::Tensor c, multiplier, threshold;  // scalars; the threshold is float64
  at::Tensor w1, b1, w2, b2;            // (D, 1), (D), (H, D), (H)
  bool leaky = false, causal = true;
  double step = 1;  // places a token

  // (.., H) of distances and normalisers (..) in places, and of their dtype.
  at::Tensor network(const at::Tensor& distance, const at::Tensor& normaliser) const {
    const at::Tensor u =
        at::log((c * distance).abs() + 1) / (at::log((c * normaliser).abs() + 1) + kEpsilon);
    const at::ScalarType dtype = u.scalar_type();
    const at::Tensor x = at::linear(u.unsqueeze(-1), w1.to(dtype), b1.to(dtype));
    return at::linear(leaky ? at::leaky_relu(x, kLeak) : at::relu(x), w2.to(dtype), b2.to(dtype));
  }

  // Float64.
  at::Tensor least_normaliser() const { return (multiplier.to(at::kDouble) * threshold).abs(); }

  // network() by pieces, of consecutive tokens: their distances from the first one, and
  // places, both float64.
  FireProgram pieces(const at::Tensor& distance, const at::Tensor& place) const;

  // (B or 1, H, rows, columns) of `dtype`.
  at::Tensor operator()(const TermRegion& region, at::ScalarType dtype) const {
    const at::Tensor query = region.query_id.to(dtype) * step;
    const at::Tensor key = region.key_id.to(dtype) * step;
    const at::Tensor distance = causal ? (query - key).clamp_min(0) : (query - key).abs();
    const at::Tensor last = causal ? query : at::maximum(query, key);
    return network(distance, at::maximum(last, least_normaliser())).movedim(-1, 1);
  }
};

// Computed in float64 whatever the model's dtype: the pieces' slopes are sums that cancel.
FireProgram FireBias::pieces(const at::Tensor& distance, const at::Tensor& place) const {
  const at::Tensor w = w1.flatten().to(at::kDouble), b = b1.to(at::kDouble);
  const at::Tensor out = w2.to(at::kDouble), scale = c.to(at::kDouble);
  const at::Tensor normaliser = at::maximum(place, least_normaliser());
  at::Tensor knots, rectified;
  {
    // A unit switches at a knot; those that some pair can reach lie in 0 <= u < 1. The network is
    // continuous there, so that no gradient flows to the knots.
    const at::NoGradGuard no_grad;
    const at::Tensor all = -b / w;
    const at::Tensor reached = (all >= 0) & (all < 1);
    // How many there are is not asked of a device: there the others stand at 1, behind every pair.
    knots = std::get<0>(
        (all.is_cpu() ? all.masked_select(reached) : at::where(reached, all, 1.0)).sort());
    const at::Tensor zero = at::zeros({1}, all.options()), one = at::ones({1}, all.options());
    const at::Tensor middle = (at::cat({zero, knots}) + at::cat({knots, one})) / 2;
    // (S, D): the slope of each unit's rectifier in each segment.
    const double leak = leaky ? kLeak : 0;
    rectified = (at::outer(middle, w) + b > 0).to(at::kDouble) * (1 - leak) + leak;
  }
  const auto single = [](const at::Tensor& x) { return x.to(at::kFloat); };
  return {.distance = single(at::log((scale * distance).abs() + 1)),
          .factor = single(1 / (at::log((scale * normaliser).abs() + 1) + kEpsilon)),
          .knots = single(knots),
          .slope = single(at::linear(out * w, rectified)),
          .intercept = single(at::linear(out * b, rectified) + b2.to(at::kDouble).unsqueeze(1))};
}

// Content and bias of a region.
at::Tensor with_bias(const FireBias& fire, const TermRegion& region) {
  const at::Tensor bias = fire(region, region.content.scalar_type());
  return region.content +
         bias.slice(1, region.first_head, region.first_head + region.content.size(1));
}

class Fire final : public Encoding {
 public:
  Fire(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return fire_info(); }

  std::vector<ParameterSpec> parameters() const override {
    using Init = ParameterSpec::Init;
    const std::int64_t hidden = integer("hidden");
    const double bound = 1.0 / std::sqrt(static_cast<double>(hidden));
    const auto uniform = [](const char* name, std::vector<std::int64_t> shape, double limit) {
      const bool matrix = shape.size() == 2;
      return ParameterSpec{.name = name,
                           .shape = std::move(shape),
                           .init = Init::uniform,
                           .low = -limit,
                           .high = limit,
                           .decays = matrix};
    };
    return {
        uniform("fire.0.weight", {hidden, 1}, 1),
        uniform("fire.0.bias", {hidden}, 1),
        uniform("fire.2.weight", {heads_, hidden}, bound),
        uniform("fire.2.bias", {heads_}, bound),
        {.name = "c", .shape = {}, .decays = false, .start = at::full({}, 0.1), .of_host = true},
        {.name = "L_multiplier",
         .shape = {},
         .decays = false,
         .start = at::ones({}),
         .of_host = true},
        {.name = "init_L", .shape = {}, .trainable = false, .optional = true, .of_host = true}};
  }

  at::Tensor bias(const Parameters& layer, const TermRegion& region) const override {
    return fire_of(layer)(region, region.content.scalar_type());
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const FireBias fire = fire_of(layer);
    if (within_threshold(fire, state.positions)) {
      const at::Tensor distance = distances(state.positions.length, q.device());
      program.variant = TableProgram{
          fire.network(distance, fire.least_normaliser()).t().to(table_dtype(q.scalar_type()))};
      return program;
    }
    TermProgram term;
    term.arrays = 3 * integer("hidden");
    term.score = [fire](const TermRegion& region) { return with_bias(fire, region); };
    if (!state.positions.consecutive()) {
      program.variant = std::move(term);
      return program;
    }
    const std::int64_t length = state.positions.length, shift = state.positions.shift;
    FireProgram pieces =
        fire.pieces(distances(length, q.device()),
                    at::arange(shift, shift + length, q.options().dtype(at::kDouble)) * step_);
    pieces.term = std::move(term);
    program.variant = std::move(pieces);
    return program;
  }

  // Within the threshold the network runs once for each distance, and scores get one addition. Past
  // it causal attention takes the network's pieces, at most one a unit and one more, and scores get
  // a multiply-add and an addition.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double hidden = number("hidden"), macs = hidden * (1 + s.heads);
    EncodingCost cost = pair_cost("network of the bias", s, macs);
    const bool within = s.tokens * step_ <= number("threshold");
    if (!within && !causal_) return {cost};
    cost.executed_flops = s.layers * s.heads * s.seen_pairs;
    cost.executed_macs = s.layers * (within ? s.tokens * macs
                                            : s.heads * (s.seen_pairs + 2 * hidden * (hidden + 1)));
    return {cost};
  }

 private:
  // Whether every query has the normaliser of the threshold, so that the bias is a function of the
  // distance alone.
  bool within_threshold(const FireBias& fire, const Positions& positions) const {
    if (!positions.consecutive() || positions.length == 0) return false;
    const auto last = static_cast<double>(positions.shift + positions.length - 1) * step_;
    return last < fire.least_normaliser().item<double>();
  }

  FireBias fire_of(const Parameters& layer) const {
    const auto stored = layer.find("init_L");
    const at::Tensor threshold = stored != layer.end()
                                     ? stored->second.to(at::kDouble)
                                     : at::full({}, number("threshold"), at::kDouble);
    return {layer.at("c"),
            layer.at("L_multiplier"),
            threshold,
            layer.at("fire.0.weight"),
            layer.at("fire.0.bias"),
            layer.at("fire.2.weight"),
            layer.at("fire.2.bias"),
            text("activation") == "leaky_relu",
            causal_,
            step_};
  }
};

std::unique_ptr<Encoding> make_fire(const Json& options, const ModelConfig& model) {
  return std::make_unique<Fire>(options, model);
}

}  // namespace

EncodingEntry fire_entry() { return {&fire_info(), &make_fire}; }

}  // namespace phasescope::model
