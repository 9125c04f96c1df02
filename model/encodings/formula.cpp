#include "model/encodings/formula.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "formats/error.h"
#include "formats/formula/terms.h"
#include "model/encoding_cost.h"
#include "model/encodings/alibi.h"
#include "model/encodings/formula_values.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {

using formula::Formula;
using formula::Op;
using formula::Recognised;
using Form = Recognised::Form;

formula::Sizes formula_sizes(const ModelConfig& model) {
  return {model.heads, model.head_dim, model.score_scale(), model.attention.causal};
}

std::vector<ParameterSpec> formula_parameters(const Formula& formula, bool shared) {
  using Start = formula::Parameter::Start;
  using Init = ParameterSpec::Init;
  std::vector<ParameterSpec> specs;
  for (const formula::Parameter& p : formula.parameters) {
    if (p.shared != shared) continue;
    ParameterSpec spec{.name = p.name, .shape = p.shape, .init = Init::zeros, .decays = p.matrix};
    if (p.start == Start::ones) spec.init = Init::ones;
    if (p.start == Start::constant) spec.start = at::full({}, p.first, at::kDouble);
    if (p.start == Start::slopes) {
      spec.start = at::tensor(alibi_slopes(formula.sizes.heads), at::kDouble);
    }
    if (p.start == Start::uniform) {
      spec.init = Init::uniform, spec.low = p.first, spec.high = p.second;
    }
    if (p.start == Start::normal) spec.init = Init::normal, spec.low = p.first;
    specs.push_back(std::move(spec));
  }
  return specs;
}

namespace {

const EncodingInfo& formula_info() {
  static const EncodingInfo info = {
      .key = "formula",
      .title = "A formula of one's own",
      .formula = "s_ij = an expression of content, q, k, lam = max(i - j, 0), i, j and parameters",
      .source = "docs/formula.md",
      .departure = "",
      .options = {{"expression", "param m[head] ~ slopes; score = content - m*lam",
                   "the score, with its parameters; phasescope formula --help"},
                  layout_option(),
                  {"recognise", true,
                   "what a fused kernel knows runs fused; false: tensor operations, always"}},
      .under_shift = {UnderShift::Kind::stays, "the formula reads distances alone"},
      .has_state = false,
  };
  return info;
}

bool is_one(const formula::Terms& terms, double one) {
  return terms.size() == 1 && terms.begin()->first.empty() && terms.begin()->second == one;
}

// x (..) as (1, 1, 1, L, 1).
at::Tensor along_keys_axis(const at::Tensor& x) { return x.view({1, 1, 1, -1, 1}); }

// Everything a term needs; it may outlive the encoding.
struct FormulaTerm {
  std::shared_ptr<const Formula> formula;
  Parameters parameters;
  at::Tensor q, k;  // (B, H, N, d), (B, kv heads, M, d)
  double step = 1;
  std::int64_t length = 0;
  RotationLayout layout = RotationLayout::half;

  at::Tensor operator()(const TermRegion& region) const {
    const at::Tensor& content = region.content;
    const at::ScalarType dtype = content.scalar_type();
    FormulaAxes axes;
    axes.dtype = dtype, axes.device = content.device();
    axes.length = static_cast<double>(length);
    axes.first_head = region.first_head, axes.heads = content.size(1);
    axes.content = content.unsqueeze(-1);
    axes.q = q.slice(1, axes.first_head, axes.first_head + axes.heads)
                 .slice(2, region.first_row, region.first_row + content.size(2))
                 .to(dtype)
                 .unsqueeze(3);
    axes.k = keys_of(axes).slice(2, region.first_column, region.first_column + content.size(3));
    axes.k = axes.k.to(dtype).unsqueeze(2);
    const auto five = [&](const at::Tensor& ids) {
      return (ids.to(dtype) * step).unsqueeze(1).unsqueeze(-1);
    };
    axes.difference = five(region.query_id - region.key_id);
    axes.distance = axes.difference.clamp_min(0);
    axes.query_place = five(region.query_id), axes.key_place = five(region.key_id);
    const FormulaValues values(*formula, parameters, std::move(axes), layout);
    return values.of(formula->score).squeeze(-1).expand_as(content);
  }

 private:
  at::Tensor keys_of(const FormulaAxes& axes) const {
    const std::int64_t group = q.size(1) / k.size(1);
    if (group == 1) return k.slice(1, axes.first_head, axes.first_head + axes.heads);
    const at::Tensor heads =
        at::arange(axes.first_head, axes.first_head + axes.heads, k.options().dtype(at::kLong))
            .floor_divide(group);
    return k.index_select(1, heads);
  }
};

class FormulaEncoding final : public Encoding {
 public:
  FormulaEncoding(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (model.attention.scale_by_layer || model.attention.layer_gain) {
      throw formats::bad_input("a formula has scales of its own, and takes none by layer",
                               "attention");
    }
    Formula formula = formula::read_formula(text("expression"), formula_sizes(model));
    is_ = formula::recognised(formula);
    if (!flag("recognise")) {
      is_ = Recognised();
      is_.why = "recognise is false";
    }
    formula_ = std::make_shared<const Formula>(std::move(formula));
  }

  const EncodingInfo& info() const override { return formula_info(); }
  UnderShift under_shift() const override {
    if (formula_->shift_invariant()) return info().under_shift;
    return {UnderShift::Kind::moves, "the formula reads i or j by themselves"};
  }

  std::vector<ParameterSpec> parameters() const override {
    return formula_parameters(*formula_, false);
  }
  std::vector<ParameterSpec> shared_parameters() const override {
    return formula_parameters(*formula_, true);
  }

  // What all layers share, one after another, and what q and k are turned by.
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    std::vector<at::Tensor> all;
    for (const ParameterSpec& spec : shared_parameters()) {
      all.push_back(context.shared->at(spec.name).flatten());
    }
    if (!all.empty()) state.table = at::cat(all);
    if (has_state()) {
      const Positions& positions = context.positions;
      state.z = turned(angles_of(at_distance_one({}, positions), positions), context.dtype);
    }
    return state;
  }

  bool has_state() const override { return turns_alone(); }

  // The frequencies of a rotation that all heads and layers have, to which nothing else is done.
  at::Tensor frequencies(const StartContext& context) const override {
    if (!turns_alone()) return {};
    const at::Tensor w = angles_a_token({}, context.positions).flatten();
    return (w * (is_.turn * step_)).expand({head_dim_ / 2}).to(context.angle_dtype);
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (has_state()) {
      const RotationLayout layout = layout_of(options_);
      program.transform(rotate(q, state.z, layout), rotate(k, state.z, layout));
      return program;
    }
    const Parameters all = with_shared(layer, state);
    if (!run_fused(all, program)) run_as_term(all, program);
    return program;
  }

  Pieces in_pieces(std::int64_t) const override {
    if ((reads_of(formula_->score) & formula::kReadsLength) == 0) return {};
    return {Pieces::Kind::refused, "the formula reads the length of the text"};
  }

  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        const at::TensorOptions& options) const override {
    const bool added = is_.form == Form::table && is_.query < 0 && is_one(is_.gain, 1);
    if (!added || !shared_parameters().empty()) return {};
    return by_distance(layer, is_.table, {0, length}, length, options.device())
        .to(table_options(options));
  }

  void constrain(Parameters& layer) const override {
    const at::NoGradGuard no_grad;
    for (const formula::Parameter& p : formula_->parameters) {
      if (p.low && !p.shared) layer.at(p.name).clamp_(*p.low, *p.high);
    }
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    switch (is_.form) {
      case Form::plain:
        return {};
      case Form::rotated:
        return {rotation_cost(s)};
      case Form::table:
      case Form::multiplied:
        return {score_cost("function of the distance on the scores", s, 1)};
      case Form::tapa:
        return {score_cost("cosine of the phase", s, 3)};
      case Form::cape:
      case Form::term:
        break;
    }
    // Counted as one multiply-add a number of every pair that the formula makes.
    return {pair_cost("formula", s, static_cast<double>(formula_arrays(*formula_)) / 2)};
  }

  // Not from a paper but from the kernels: how it runs, and what was doubtful about it.
  std::string departure() const override {
    std::string text = is_.form == Form::term
                           ? "runs as a term, by plain tensor operations: " + is_.why
                           : "runs as " + std::string(name_of(is_.form)) + ", fused";
    for (const std::string& warning : formula_->warnings) text += "; " + warning;
    return text;
  }

 private:
  unsigned reads_of(int id) const { return formula_->at(id).reads; }

  // Whether q and k themselves are turned by angles that all heads and layers have, and no more.
  bool turns_alone() const {
    return is_.form == Form::rotated && is_.decays.empty() && is_.table.empty() &&
           is_one(is_.gain, scale_) && is_plain_sides() &&
           (reads_of(is_.angle) & formula::kReadsParameters) == 0;
  }

  // Whether the product that scores are made of is of the query and the key themselves.
  bool is_plain_sides() const {
    if (is_.query < 0) return true;
    return formula_->at(is_.query).op == Op::q && formula_->at(is_.key).op == Op::k;
  }

  Parameters with_shared(const Parameters& layer, const PositionState& state) const {
    Parameters all = layer;
    std::int64_t from = 0;
    for (const ParameterSpec& spec : shared_parameters()) {
      std::int64_t size = 1;
      for (const std::int64_t n : spec.shape) size *= n;
      all[spec.name] = state.table.slice(0, from, from + size).view(spec.shape);
      from += size;
    }
    return all;
  }

  void run_as_term(const Parameters& all, AttentionProgram& program) const {
    program.variant =
        TermProgram{.score = FormulaTerm{formula_, all, program.q, program.k, step_,
                                         program.positions.length, layout_of(options_)},
                    .reads_rows = (reads_of(formula_->score) & formula::kReadsAllHeads) != 0,
                    .arrays = formula_arrays(*formula_),
                    .no_table = "a formula that is neither a table of distances nor a known form"};
  }

  // ---- what kernels know ----------------------------------------------------------------------

  // False where it does not run so after all.
  bool run_fused(const Parameters& all, AttentionProgram& program) const {
    switch (is_.form) {
      case Form::term:
        return false;
      case Form::tapa:
        return run_tapa(all, program);
      case Form::cape:
        run_cape(all, program);
        return true;
      default:
        break;
    }
    if (!turn_sides(all, program)) return false;
    if (is_.table.empty()) return true;
    program.variant = TableProgram{table_of(all, is_.table, program),
                                   first_distance(program.positions), is_.form == Form::multiplied};
    return true;
  }

  std::int64_t first_distance(const Positions& positions) const {
    return causal_ && positions.consecutive() ? 0 : -positions.largest_distance();
  }

  // (H, L) of distances first, first + 1, ... and before `end`, in float64.
  struct Distances {
    std::int64_t first, end;
  };
  at::Tensor by_distance(const Parameters& all, const formula::Terms& terms,
                         const Distances& distances, std::int64_t length, at::Device device) const {
    const auto [first, end] = distances;
    FormulaAxes axes;
    axes.heads = heads_, axes.length = static_cast<double>(length), axes.device = device;
    axes.difference = along_keys_axis(at::arange(first, end, axes.options()) * step_);
    axes.distance = axes.difference.clamp_min(0);
    const FormulaValues values(*formula_, all, std::move(axes), layout_of(options_));
    return values.of(terms).expand({1, heads_, 1, end - first, 1}).reshape({heads_, end - first});
  }

  at::Tensor table_of(const Parameters& all, const formula::Terms& terms,
                      const AttentionProgram& program) const {
    const Positions& positions = program.positions;
    return by_distance(all, terms, {first_distance(positions), positions.largest_distance() + 1},
                       positions.length, program.q.device())
        .to(table_dtype(program.q.scalar_type()));
  }

  // Queries and keys on axes of their own, in their own dtype.
  FormulaAxes token_axes(const AttentionProgram& program) const {
    FormulaAxes axes;
    axes.heads = heads_, axes.length = static_cast<double>(program.positions.length);
    axes.dtype = table_dtype(program.q.scalar_type()), axes.device = program.q.device();
    axes.q = program.q_plain.to(axes.dtype).unsqueeze(3);
    axes.k = program.k_plain.to(axes.dtype).unsqueeze(2);
    at::Tensor ids = position_ids(program.positions);
    if (ids.dim() == 1) ids = ids.unsqueeze(0);
    const at::Tensor places = ids.to(axes.dtype) * step_;  // (B or 1, N)
    axes.query_place = places.unsqueeze(1).unsqueeze(-1).unsqueeze(-1);
    axes.key_place = places.unsqueeze(1).unsqueeze(1).unsqueeze(-1);
    return axes;
  }

  // The two sides of the product, rotated, with what multiplies them.
  bool turn_sides(const Parameters& all, AttentionProgram& program) const {
    at::Tensor q = program.q, k = program.k;
    const FormulaValues values(*formula_, all, token_axes(program), layout_of(options_));
    if (!is_plain_sides()) {
      if (kv_heads_ != heads_) return false;
      q = values.of(is_.query).squeeze(3).expand_as(q).to(q.scalar_type());
      k = values.of(is_.key).squeeze(2).expand_as(k).to(k.scalar_type());
    }
    if (is_.form == Form::rotated && !rotate_sides(all, program.positions, q, k)) return false;
    // The kernel multiplies by the scale, which the content alone has in it.
    const bool scaled = is_.query < 0;
    const bool alone = is_one(is_.gain, scaled ? 1 : scale_);
    if (!alone) {
      const at::Tensor gain = values.of(is_.gain).squeeze(-1) / (scaled ? 1 : scale_);
      q = (q * gain).to(q.scalar_type());
    }
    if (!alone || !is_plain_sides() || is_.form == Form::rotated) program.transform(q, k);
    return true;
  }

  // Radians a token of each head and plane, (H or 1, d/2 or 1) in float64: what the angle is at
  // distance 1.
  at::Tensor angles_a_token(const Parameters& all, const Positions& positions) const {
    return at_distance_one(all, positions).of(is_.angle).flatten(0, 3).reshape({-1});
  }

  FormulaValues at_distance_one(const Parameters& all, const Positions& positions) const {
    FormulaAxes axes;
    axes.heads = heads_, axes.length = static_cast<double>(positions.length);
    axes.device = positions.device;
    axes.distance = axes.difference = at::ones({1, 1, 1, 1, 1}, axes.options());
    return {*formula_, all, std::move(axes), layout_of(options_)};
  }

  // (B or 1, 1, N, 1) float64.
  at::Tensor places_of(const Positions& positions) const {
    at::Tensor ids = position_ids(positions);
    if (ids.dim() == 1) ids = ids.unsqueeze(0);
    return ids.to(at::kDouble).unsqueeze(1).unsqueeze(-1) * step_;
  }

  // What every token's planes are turned by, (B or 1, H or 1, N, d/2) in float64.
  at::Tensor angles_of(const FormulaValues& one, const Positions& positions) const {
    const at::Tensor w = one.of(is_.angle).squeeze(3).squeeze(2);  // (1, H or 1, planes or 1)
    return places_of(positions) * (w.expand({-1, -1, head_dim_ / 2}).unsqueeze(2) * is_.turn);
  }

  bool rotate_sides(const Parameters& all, const Positions& positions, at::Tensor& q,
                    at::Tensor& k) const {
    const FormulaValues one = at_distance_one(all, positions);
    const at::Tensor angles = angles_of(one, positions);
    if (angles.size(1) > 1 && kv_heads_ != heads_) return false;
    at::Tensor of_q = turned(angles, at::kDouble), of_k = of_q;  // (B, H, N, 2, planes)
    if (!is_.decays.empty()) {
      const auto growth = decay_of(one, positions, places_of(positions), q.scalar_type());
      if (!growth || (growth->size(1) > 1 && kv_heads_ != heads_)) return false;
      of_q = of_q * growth->unsqueeze(-2), of_k = of_k / growth->unsqueeze(-2);
    }
    q = rotate(q, of_q.to(q.scalar_type()), layout_of(options_));
    k = rotate(k, of_k.to(k.scalar_type()), layout_of(options_));
    return true;
  }

  // What queries are multiplied by and keys divided by, (B or 1, H or 1, N, planes or 1), counted
  // from the middle of the text; nothing where the model's dtype cannot hold it.
  std::optional<at::Tensor> decay_of(const FormulaValues& one, const Positions& positions,
                                     const at::Tensor& places, at::ScalarType dtype) const {
    const at::Tensor rate = rate_of_decays(one, places.options());
    const at::Tensor middle = (places.amin(2, true) + places.amax(2, true)) / 2;
    const at::Tensor exponents = (places - middle) * rate.squeeze(3);
    const double limit = dtype == at::kHalf ? std::log(65504.0)
                         : dtype == at::kDouble
                             ? std::log(std::numeric_limits<double>::max())
                             : std::log(double{std::numeric_limits<float>::max()});
    const double farthest = farthest_apart(positions) * step_ / 2;
    const bool held = farthest * largest_rate(rate, positions) < limit;
    return held ? std::optional(exponents.exp()) : std::nullopt;
  }

  at::Tensor rate_of_decays(const FormulaValues& one, const at::TensorOptions& options) const {
    at::Tensor rate = at::zeros({1, 1, 1, 1, 1}, options);
    for (const auto& [id, power] : is_.decays) rate = rate + one.of(id).log() * power;
    return rate;
  }

  // Where no parameter is in it, the host makes it anew and reads nothing of a device.
  double largest_rate(const at::Tensor& rate, const Positions& positions) const {
    const bool known = std::ranges::none_of(is_.decays, [this](const auto& decay) {
      return (reads_of(decay.first) & formula::kReadsParameters) != 0;
    });
    if (rate.is_cpu() || !known) return rate.detach().abs().max().item<double>();
    Positions here;
    here.length = positions.length;
    const Parameters none;
    return rate_of_decays(at_distance_one(none, here), at::kDouble).abs().max().item<double>();
  }

  bool run_tapa(const Parameters& all, AttentionProgram& program) const {
    const std::int64_t width = is_.content_width;
    const auto is_rest = [&](int id, Op of) {
      const formula::Node& node = formula_->at(id);
      return node.op == Op::slice && formula_->at(node.args[0]).op == of && node.from == width &&
             node.to == head_dim_;
    };
    if (!is_rest(is_.phase_query, Op::q) || !is_rest(is_.phase_key, Op::k)) {
      if (kv_heads_ != heads_) return false;
      const FormulaValues values(*formula_, all, token_axes(program), layout_of(options_));
      const auto with_phase = [&](const at::Tensor& x, const at::Tensor& phase) {
        const at::Tensor sized = phase.expand({x.size(0), x.size(1), x.size(2), -1});
        return at::cat({x.narrow(-1, 0, width), sized.to(x.scalar_type())}, -1);
      };
      program.transform(with_phase(program.q, values.of(is_.phase_query).squeeze(3)),
                        with_phase(program.k, values.of(is_.phase_key).squeeze(2)));
    }
    program.scale = is_.gain.begin()->second;
    program.variant =
        TapaProgram{width, program.scale, 1.0, false,
                    by_distance(all, is_.power, {0, program.positions.largest_distance() + 1},
                                program.positions.length, program.q.device())
                        .select(0, 0)
                        .to(table_dtype(program.q.scalar_type()))};
    return true;
  }

  void run_cape(const Parameters& all, AttentionProgram& program) const {
    FormulaAxes axes;
    axes.heads = heads_, axes.length = static_cast<double>(program.positions.length);
    axes.dtype = table_dtype(program.q.scalar_type()), axes.device = program.q.device();
    const FormulaValues values(*formula_, all, std::move(axes), layout_of(options_));
    const at::Tensor w1 = values.parameter(is_.first), w2 = values.parameter(is_.second);
    at::Tensor b1 = at::zeros({w1.size(0)}, w1.options());
    if (is_.first_bias >= 0) b1 = values.of(is_.first_bias).flatten().expand({w1.size(0)});
    const at::Tensor b2 = values.of(is_.last_bias).expand({1, heads_, 1, 1, 1}).reshape({heads_});
    CapeProgram cape{
        is_.with_base ? CapeProgram::Form::concat_residual : CapeProgram::Form::content,
        {},
        w1,
        b1,
        w2,
        b2};
    if (is_.with_base) {
      cape.values = by_distance(all, is_.base, {0, program.positions.largest_distance() + 1},
                                program.positions.length, program.q.device())
                        .to(table_dtype(program.q.scalar_type()));
    }
    program.variant = std::move(cape);
  }

  std::shared_ptr<const Formula> formula_;
  Recognised is_;
};

std::unique_ptr<Encoding> make_formula(const Json& options, const ModelConfig& model) {
  return std::make_unique<FormulaEncoding>(options, model);
}

}  // namespace

EncodingEntry formula_entry() { return {&formula_info(), &make_formula}; }

}  // namespace phasescope::model
