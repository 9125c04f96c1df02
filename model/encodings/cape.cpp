#include "model/encodings/cape.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model/attention/plain_attention.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& cape_info() {
  static const EncodingInfo info = {
      .key = "cape",
      .title = "CAPE (context-adaptive bias, published as DAPE too)",
      .formula =
          "concat_residual: s = A + B + f([A, B]), A and B the content scores and base "
          "biases of all heads of a pair, f = Linear(D, H) leaky(Linear(2H, D)); conv: f's "
          "layers read a key's neighbours too",
      .source = "arXiv 2405.14722, Eq. 4-5; conv: arXiv 2410.04798",
      .departure = "",
      .options = {only_where({"form", {"concat_residual", "concat", "add_residual", "conv"}},
                             {"base",
                              "kerple_log",
                              "the bias that is corrected",
                              {"alibi", "kerple_log", "fire"}}),
                  {"form",
                   "concat_residual",
                   "what f reads and is added to",
                   {"concat_residual", "concat", "add_residual", "content", "conv"}},
                  {"hidden", 32, "D, width of f's hidden layer", {}, 1, 4096},
                  {"rotate", false, "A is the score after RoPE (half layout, base 10000)"},
                  only_where(
                      {"base", {"fire"}},
                      {"base_hidden", 32, "units of fire's own network, as the base", {}, 1, 4096}),
                  only_where({"base", {"fire"}},
                             {"base_threshold", 512.0, "L of fire, as the base", {}, 0, 1e9})},
      .under_shift = {UnderShift::Kind::stays,
                      "the base bias and its correction read distances and content alone"},
      .has_state = false,
  };
  return info;
}

CapeProgram::Form form_of(const std::string& name) {
  if (name == "concat") return CapeProgram::Form::concat;
  if (name == "add_residual") return CapeProgram::Form::add_residual;
  if (name == "content") return CapeProgram::Form::content;
  return CapeProgram::Form::concat_residual;
}

// FIRE's own network is a leaky one wherever it stands inside CAPE.
std::shared_ptr<const Encoding> make_base(const Json& options, const ModelConfig& model) {
  ModelConfig config = model;
  config.encoding = {options.at("base").get<std::string>(), Json::object()};
  if (config.encoding.key == "fire") {
    config.encoding.options = {{"activation", "leaky_relu"},
                               {"hidden", options.at("base_hidden")},
                               {"threshold", options.at("base_threshold")}};
  }
  return make_encoding(config);
}

// A 1 x 3 convolution along the keys with zero padding: x (B, in, rows, columns), w (out, in, 1,
// 3).
at::Tensor along_keys(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const std::int64_t columns = x.size(3);
  const at::Tensor padded = at::constant_pad_nd(x, {1, 1}).movedim(1, -1);
  const at::Tensor three = at::cat(
      {padded.narrow(2, 0, columns), padded.narrow(2, 1, columns), padded.narrow(2, 2, columns)},
      -1);
  const at::Tensor weight = w.squeeze(2).transpose(1, 2).flatten(1);  // (out, 3 in)
  return at::linear(three, weight, b).movedim(-1, 1);
}

// What the forms without a table of distances need; all heads and keys of some rows.
struct CapeTerm {
  CapeProgram cape;
  std::shared_ptr<const Encoding> base;
  Parameters layer;
  bool conv = false, causal = true;

  at::Tensor operator()(const TermRegion& region) const {
    const at::Tensor& content = region.content;
    const at::Tensor bias = base->bias(layer, region);
    if (!conv) return cape_scores(cape, content, bias);
    at::Tensor both = at::cat({content, bias.expand_as(content)}, 1);
    if (causal) {
      const at::TensorOptions places = content.options().dtype(at::kLong);
      const at::Tensor row =
          at::arange(region.first_row, region.first_row + content.size(2), places);
      const at::Tensor later = at::arange(content.size(3), places) > row.unsqueeze(1);
      both = both.masked_fill(later, 0.0);
    }
    const auto layer_of = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
      return along_keys(x, w.to(content.scalar_type()), b.to(content.scalar_type()));
    };
    const at::Tensor hidden = at::leaky_relu(layer_of(both, cape.w1, cape.b1), 0.01);
    return content + bias + layer_of(hidden, cape.w2, cape.b2);
  }
};

class Cape final : public Encoding {
 public:
  Cape(const Json& options, const ModelConfig& model)
      : Encoding(options, model), form_(form_of(text("form"))), conv_(text("form") == "conv") {
    if (conv_ || form_ != CapeProgram::Form::content) base_ = make_base(options, model);
    if (flag("rotate")) require_pairs("cape.rotate", head_dim_);
  }

  const EncodingInfo& info() const override { return cape_info(); }
  UnderShift under_shift() const override {
    return !base_ || base_->shift_invariant() ? info().under_shift : base_->under_shift();
  }

  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    if (base_) specs = base_->parameters();
    const std::int64_t inputs = reads_both() ? 2 * heads_ : heads_;
    const std::int64_t hidden = integer("hidden");
    const std::int64_t keys = conv_ ? 3 : 1;
    const double bound1 = 1.0 / std::sqrt(static_cast<double>(inputs * keys));
    const double bound2 = 1.0 / std::sqrt(static_cast<double>(hidden * keys));
    const auto uniform = [&](const char* name, std::vector<std::int64_t> shape, double bound) {
      const bool matrix = shape.size() == 2;
      if (matrix && conv_) shape.insert(shape.end(), {1, 3});
      specs.push_back({.name = name,
                       .shape = std::move(shape),
                       .init = ParameterSpec::Init::uniform,
                       .low = -bound,
                       .high = bound,
                       .decays = matrix});
    };
    uniform("mlp.0.weight", {hidden, inputs}, bound1);
    uniform("mlp.0.bias", {hidden}, bound1);
    uniform("mlp.2.weight", {heads_, hidden}, bound2);
    uniform("mlp.2.bias", {heads_}, bound2);
    return specs;
  }

  at::Tensor frequencies(const StartContext& context) const override {
    return flag("rotate") ? rope_frequencies(10000.0, head_dim_, context.angle_options()) * step_
                          : at::Tensor();
  }

  // The state's table is RoPE's rotation, as z.
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    if (flag("rotate")) {
      state.table = rotation_state(position_values(context), frequencies(context), context.dtype);
    }
    return state;
  }

  // The bias of the base alone: what the correction adds depends on the content.
  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        const at::TensorOptions& options) const override {
    return base_ ? base_->bias_table(layer, length, options) : at::Tensor();
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (state.table.defined()) {
      program.transform(rotate(q, state.table, RotationLayout::half),
                        rotate(k, state.table, RotationLayout::half));
    }
    CapeProgram cape = {form_,
                        {},
                        layer.at("mlp.0.weight"),
                        layer.at("mlp.0.bias"),
                        layer.at("mlp.2.weight"),
                        layer.at("mlp.2.bias")};
    if (conv_) {
      program.variant = as_term(cape, layer);
    } else if (base_) {
      add_base(base_->program(layer, q, k, state), cape, layer, program);
    } else {
      program.variant = std::move(cape);
    }
    return program;
  }

  Pieces in_pieces(std::int64_t length) const override {
    if (conv_) {
      return {Pieces::Kind::refused, "its convolutions are cut off where the text ends"};
    }
    return base_ && base_->in_pieces(length).kind == Pieces::Kind::refused
               ? base_->in_pieces(length)
               : Pieces();
  }

  void constrain(Parameters& layer) const override {
    if (base_) base_->constrain(layer);
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const char* name = "correction of the scores";
    const double macs = (reads_both() ? 3 : 2) * s.heads * number("hidden") * (conv_ ? 3 : 1);
    std::vector<EncodingCost> costs;
    const bool past = on_fire() && s.tokens * step_ > number("base_threshold");
    if (conv_ || (past && !causal_)) {
      // By tensor operations, and the base with it.
      if (on_fire()) {
        costs.push_back(pair_cost("network of the bias", s, number("base_hidden") * (1 + s.heads)));
      }
      costs.push_back(pair_cost(name, s, macs));
    } else {
      if (on_fire()) costs = base_->cost(s);
      if (past) costs[0].executed_macs = pieces_cost(s);
      costs.push_back({name, s.layers * macs * s.all_pairs, fused_cost(s, past), 0, 0});
    }
    return costs;
  }

 private:
  // The cost of the correction's two layers on the content scores. What the biases add to a unit is
  // read: from a table by distance, made once, or from FIRE's pieces.
  double fused_cost(const CostSizes& s, bool pieces) const {
    const bool table = !pieces && form_ != CapeProgram::Form::content;
    const double numbers = 2 * s.seen_pairs + (table ? s.tokens : 0);
    return s.layers * s.heads * number("hidden") * numbers;
  }

  // The cost of FIRE's pieces, at most one a unit and one more: made once with their sums over the
  // heads for each unit of the correction, and read by a multiply-add for each of both at a pair.
  double pieces_cost(const CostSizes& s) const {
    const double fire = number("base_hidden"), units = number("hidden");
    const double pieces = 2 * (fire + 1) * s.heads * (fire + units);
    return s.layers * (pieces + (units + s.heads) * s.seen_pairs);
  }

  bool on_fire() const { return base_ && text("base") == "fire"; }

  // FIRE's bias is one by distance within its threshold alone; past it the kernel reads its pieces.
  void add_base(const AttentionProgram& base, CapeProgram cape, const Parameters& layer,
                AttentionProgram& program) const {
    if (const auto* table = base.as<TableProgram>()) {
      cape.values = table->values;
      program.variant = std::move(cape);
      return;
    }
    TermProgram term = as_term(cape, layer);
    const FireProgram* pieces = base.fire();
    if (pieces == nullptr) {
      program.variant = std::move(term);
      return;
    }
    cape.fire = *pieces;
    cape.fire->term = std::move(term);
    program.variant = std::move(cape);
  }

  TermProgram as_term(const CapeProgram& cape, const Parameters& layer) const {
    return {.score = CapeTerm{cape, base_, layer, conv_, causal_},
            .reads_rows = true,
            .arrays = 12 * heads_ + (conv_ ? 5 : 3) * integer("hidden") + 3 * 32};
  }

  bool reads_both() const {
    return conv_ || form_ == CapeProgram::Form::concat_residual ||
           form_ == CapeProgram::Form::concat;
  }

  CapeProgram::Form form_;
  bool conv_;
  std::shared_ptr<const Encoding> base_;
};

std::unique_ptr<Encoding> make_cape(const Json& options, const ModelConfig& model) {
  return std::make_unique<Cape>(options, model);
}

}  // namespace

EncodingEntry cape_entry() { return {&cape_info(), &make_cape}; }

}  // namespace phasescope::model
