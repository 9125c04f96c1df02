#include "model/encodings/tape.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rope_scaling.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& tape_info() {
  static const EncodingInfo info = {
      .key = "tape",
      .title = "TAPE (positions updated by the content)",
      .formula =
          "s_ij = sum_m Re(conj(z_i q_i)_m (z_j k_j)_m) / sqrt(d); z starts as RoPE's "
          "rotation (or as w e^(i omega n)), then z += P sum_j a_ij z_j and z += W2 (act(W_x y) * "
          "W1 z) each layer",
      .source = "arXiv 2501.00712, Eq. 6-9",
      .departure = "",
      .options =
          {{"start",
            "rope",
            "what z starts as: RoPE's rotation, or random Fourier features with a weight each",
            {"rope", "random_fourier"}},
           only_where({"start", {"rope"}}, base_option("base of the first rotation's frequencies")),
           only_where({"start", {"random_fourier"}},
                      {"length_scale",
                       1.0,
                       "tokens; the features' frequencies are drawn from N(0, 1 / length_scale^2)",
                       {},
                       kAboveZero,
                       kNoLimit}),
           only_where({"start", {"random_fourier"}},
                      {"seed", 1, "of the frequencies that are drawn", {}, 0, 1e9}),
           {"hidden", 0, "I, units of the position MLP; 0: four times the heads", {}, 0, 1 << 20},
           {"post_attention_linear",
            "mix",
            "how P acts on the averaged state: across heads (paper), or each head by its row's sum "
            "(public code)",
            {"mix", "rowsum"}},
           {"gate_input",
            "mlp_output",
            "what the position MLP's gate reads",
            {"mlp_output", "attention_output"}},
           {"gate_activation", "silu", "of the gate", {"silu", "gelu", "gelu_tanh", "relu"}},
           {"contextualize",
            "both",
            "which updates of the state are made",
            {"both", "attention_only", "mlp_only", "none"}},
           layout_option(),
           {"equivariance", true,
            "false: W1 and W2 act on the channels of all heads, which a shift of positions "
            "changes"},
           {"tensor_form",
            "LR22",
            "LR22: a 2 x 2 block a plane, a complex number; L1R4: the block as one vector, whose "
            "products multiply q.k of the plane; L4R1: two planes' numbers as one column against "
            "four "
            "channels. As the public code has it: cosines and sines with matrices of their own "
            "(adatensor), or updates along the channels of each head (adavector)",
            {"LR22", "L1R4", "L4R1", "adatensor", "adavector"}},
           {"scaling",
            "none",
            "of the first rotation: linear divides positions, yarn blends frequencies by the "
            "factor, "
            "adayarn does where a text is longer than trained_context, by as much",
            {"none", "linear", "yarn", "adayarn"}},
           only_where({"scaling", {"linear", "yarn", "adayarn"}},
                      {"factor", 1.0, "of the scaling", {}, kAboveZero, kNoLimit}),
           only_where({"scaling", {"yarn", "adayarn"}},
                      {"trained_context",
                       0,
                       "yarn: length before stretching; 0: the model's context",
                       {},
                       0,
                       kNoLimit}),
           shift_option(),
           {"shift_limit",
            0,
            "longer texts get no shift (public code); 0: no limit",
            {},
            0,
            kNoLimit},
           {"train_shift", true, "training draws a shift in 0..2 context for each step"},
           {"ids_are_rows", false,
            "given position ids are no angles: they say whose state turns q and k (public code)"}},
      .under_shift =
          {UnderShift::Kind::stays,
           "every layer turns the positions of all tokens alike (TAPE, Proposition 4.2)"},
      .has_state = true,
  };
  return info;
}

at::Tensor activated(const at::Tensor& x, const std::string& name) {
  if (name == "gelu") return at::gelu(x);
  if (name == "gelu_tanh") return at::gelu(x, "tanh");
  if (name == "relu") return at::relu(x);
  return at::silu(x);
}

// How the numbers of a plane enter the score, and what the matrices of an update act on: across
// heads but for `channels`.
enum class Form { block, vector, column, separate, channels };

Form tensor_form_of(const std::string& name) {
  if (name == "L1R4") return Form::vector;
  if (name == "L4R1") return Form::column;
  if (name == "adatensor") return Form::separate;
  return name == "adavector" ? Form::channels : Form::block;
}

// Turns over the trained length above which yarn keeps a plane's frequency, and below which it
// divides.
constexpr double kYarnFast = 32;
constexpr double kYarnSlow = 1;

class Tape final : public Encoding {
 public:
  Tape(const Json& options, const ModelConfig& model)
      : Encoding(options, model), form_(tensor_form_of(text("tensor_form"))) {
    require_pairs("tape", head_dim_);
    require_key_heads("tape", heads_, kv_heads_);
    if (!flag("equivariance") && form_ != Form::block) {
      throw formats::bad_input("tape.equivariance is false with the tensor form LR22 alone");
    }
    if (model.positions.map == "random_by_layer") {
      throw formats::bad_input(
          "tape carries its positions from layer to layer, so no layer can draw its own",
          "positions.map");
    }
    if (form_ == Form::column && head_dim_ % 4 != 0) {
      throw formats::bad_input(
          "tape's tensor form L4R1 takes channels by four, but the head size is " +
          std::to_string(head_dim_));
    }
    units_ = integer("hidden") > 0 ? integer("hidden") : 4 * heads_;
    trained_ = integer("trained_context") > 0 ? integer("trained_context") : context_;
  }

  const EncodingInfo& info() const override { return tape_info(); }
  UnderShift under_shift() const override {
    if (!flag("equivariance")) {
      return {UnderShift::Kind::moves, "without equivariance the update knows a plane's axes"};
    }
    if (form_ == Form::block || form_ == Form::vector) return info().under_shift;
    return {UnderShift::Kind::moves, "a shift turns what this tensor form's update reads"};
  }

  std::string departure() const override {
    std::string text_;
    if (text("post_attention_linear") == "rowsum") {
      text_ =
          form_ == Form::channels
              ? "the post-attention linear multiplies each channel by its row's sum, as the public "
                "code does"
              : "the post-attention linear multiplies each head by its row's sum, as the public "
                "code does; the paper mixes heads";
    }
    if (text("gate_input") == "mlp_output") {
      text_ += std::string(text_.empty() ? "" : "; ") +
               "the gate reads the MLP's output, as the public code does; the paper's reads the "
               "attention's";
    }
    if (form_ == Form::vector || form_ == Form::column) {
      text_ += std::string(text_.empty() ? "" : "; ") + "the tensor form " + text("tensor_form") +
               " is read from the paper's Eq. 6, and no public code has it";
    }
    if (random_features()) {
      text_ += std::string(text_.empty() ? "" : "; ") +
               "the start from random Fourier features is read from the paper's formula, and no "
               "public code has it";
    }
    return text_;
  }

  // Those of updates that are not made may be absent.
  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t mixed = form_ == Form::channels ? head_dim_ : heads_;
    const std::int64_t read = flag("equivariance") ? mixed : heads_ * head_dim_;
    const bool mlp = updates_in_mlp();
    std::vector<ParameterSpec> specs;
    const auto add = [&](const char* name, std::vector<std::int64_t> shape,
                         ParameterSpec::Init init, bool used) {
      for (const std::string& part : parts()) {
        specs.push_back({.name = name + part, .shape = shape, .init = init, .optional = !used});
      }
    };
    add("up_proj", {units_, read}, ParameterSpec::Init::zeros, mlp);
    specs.push_back({.name = "x_proj", .shape = {units_, width_}, .optional = !mlp});
    add("down_proj", {read, units_}, ParameterSpec::Init::normal, mlp);
    add("post_attention_linear", {mixed, mixed}, ParameterSpec::Init::zeros,
        updates_in_attention());
    return specs;
  }

  // RoPE's rotation has frequencies, which public checkpoints store, sometimes rounded, and which
  // are used as stored. Random Fourier features (see below) have the frequencies as drawn, and the
  // weights of each head.
  std::vector<ParameterSpec> shared_parameters() const override {
    const std::int64_t planes = head_dim_ / 2;
    if (!random_features()) {
      return {{.name = "inv_freq", .shape = {planes}, .trainable = false, .optional = true}};
    }
    return {{.name = "frequencies",
             .shape = {planes},
             .trainable = false,
             .decays = false,
             .start = drawn_frequencies()},
            {.name = "weights", .shape = {heads_, planes}, .decays = false, .start = at::ones({})}};
  }

  at::Tensor frequencies(const StartContext& context) const override {
    // Those that were drawn are the model's, and no configuration has them.
    if (random_features() && context.shared == nullptr) return {};
    const at::Tensor plain = plain_frequencies(context);
    const double factor = stretch(context.positions.length);
    const at::Tensor scaled =
        factor == 1.0 ? plain : yarn_by_turns(plain, factor, trained_, kYarnFast, kYarnSlow);
    return scaled * step_;
  }

  PositionState start(const StartContext& context) const override {
    const std::int64_t limit = integer("shift_limit");
    const bool shifted = limit == 0 || context.positions.length <= limit;
    StartContext turned = context;
    if (reads_rows(context.positions)) turned.positions.ids = at::Tensor();
    at::Tensor positions = position_values(turned, shifted ? integer("shift") : 0);
    if (text("scaling") == "linear") positions = positions / number("factor");
    at::Tensor z = rotation_state(positions, frequencies(context), context.dtype);
    if (random_features()) z = weighted(z, context);
    const double magnitude = yarn_magnitude(context.positions.length);
    if (magnitude != 1.0) z = z * magnitude;
    return {context.positions, by_channel() ? of_channels(z) : z};
  }

  // A token's state is made of those before it, and stays. Where it starts depends on the text's
  // length with some options.
  Pieces in_pieces(std::int64_t length) const override {
    const bool stretched = text("scaling") == "adayarn" && length > trained_;
    const std::int64_t limit = integer("shift_limit");
    if (stretched || (integer("shift") != 0 && limit > 0 && length > limit)) {
      return {Pieces::Kind::refused, "the first rotation changes when the text grows past " +
                                         std::to_string(stretched ? trained_ : limit) + " tokens"};
    }
    return {Pieces::Kind::tokens};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const at::Tensor z = by_token(state);
    program.transform(placed(q, z), placed(k, z));
    if (updates_in_attention()) program.variant = TapeProgram{state.z.flatten(-2)};
    return program;
  }

  void after_attention(const Parameters& layer, const at::Tensor& averaged_state,
                       PositionState& state) const override {
    if (!updates_in_attention()) return;
    const at::Tensor averaged = averaged_state.unflatten(-1, {2, -1});
    state.z = state.z + by_parts(averaged, [&](const at::Tensor& z, const std::string& part) {
                const at::Tensor& linear = layer.at("post_attention_linear" + part);
                const bool rowsum = text("post_attention_linear") == "rowsum";
                if (form_ == Form::channels) {
                  return rowsum ? z * linear.sum(1) : at::linear(z, linear);
                }
                return across_heads(rowsum ? at::diag(linear.sum(1)) : linear, z);
              });
  }

  void after_mlp(const Parameters& layer, const MlpContext& context,
                 PositionState& state) const override {
    if (!updates_in_mlp()) return;
    const at::Tensor& read =
        text("gate_input") == "mlp_output" ? context.mlp_output : context.attention_output;
    const at::Tensor gate =
        activated(at::linear(read, layer.at("x_proj")), text("gate_activation"));
    state.z = state.z + by_parts(state.z, [&](const at::Tensor& z, const std::string& part) {
                const at::Tensor& up = layer.at("up_proj" + part);
                const at::Tensor& down = layer.at("down_proj" + part);
                if (form_ == Form::channels) {
                  return at::linear(gate_of_heads(gate) * at::linear(z, up), down);
                }
                return flag("equivariance") ? gated_across_heads(gate, up, down, z)
                                            : gated_across_all(gate, up, down, z);
              });
  }

  std::int64_t train_shift() const override { return flag("train_shift") ? 2 * context_ : 0; }

  // A number of each kind for every channel, in place of every plane, doubles what the state costs.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double units = static_cast<double>(units_);
    const double states = by_channel() ? 2 : 1;
    const double channels = states * s.layers * s.heads * s.head_dim;  // of one stream
    std::vector<EncodingCost> parts{rotation_cost(s)};
    if (updates_in_attention()) {
      parts.push_back(
          {"second value stream", 2 * channels * s.all_pairs, channels * s.seen_pairs, 0, 0});
      parts.push_back(
          {"post-attention linear", 0, s.layers * s.tokens * s.heads * s.heads * s.head_dim, 0, 0});
    }
    if (!updates_in_mlp()) return parts;
    parts.push_back({"position gate", s.layers * s.tokens * s.width * units,
                     s.layers * s.tokens * s.width * units, 0, 0});
    // The gate is applied between W1 and W2 where no H x H matrix stands for them.
    if (by_channel()) {
      parts.push_back(token_cost("position MLP", s, 4 * units * s.heads * s.head_dim));
      return parts;
    }
    // Published: W1 and W2 over d/2 places. Executed: the H x H matrix of each token, times d.
    const double executed = s.layers * s.tokens * s.heads * s.heads * (units + s.head_dim);
    parts.push_back({"position MLP", s.layers * s.tokens * 2 * s.heads * units * s.head_dim / 2,
                     executed, 0, 0});
    return parts;
  }

  std::vector<std::string> idle_options() const override {
    std::vector<std::string> list = Encoding::idle_options();
    for (std::string& sentence : idle_scalings(options_)) list.push_back(std::move(sentence));
    return list;
  }

 private:
  // Whether position ids say whose state a token has.
  bool reads_rows(const Positions& positions) const {
    if (!flag("ids_are_rows") || positions.consecutive()) return false;
    const at::Tensor& ids = positions.ids;
    const PositionExtent ends = positions.measured();
    if (ids.numel() > 0 && (ends.least < 0 || ends.greatest >= positions.length)) {
      throw formats::bad_input(
          "position ids are rows of this model's state, so they must lie in 0.." +
              std::to_string(positions.length - 1),
          "position_ids");
    }
    return true;
  }

  // The state that turns each token's q and k: its own, or that of the row its id names.
  at::Tensor by_token(const PositionState& state) const {
    if (!reads_rows(state.positions)) return state.z;
    const at::Tensor& ids = state.positions.ids;
    if (ids.dim() == 1) return state.z.index_select(2, ids);
    const at::Tensor z = state.z.expand({ids.size(0), -1, -1, -1, -1});
    std::vector<at::Tensor> texts;
    for (std::int64_t b = 0; b < ids.size(0); ++b) texts.push_back(z[b].index_select(1, ids[b]));
    return at::stack(texts);
  }

  // The two channels of each plane, (B, H, N, 2, d/2).
  at::Tensor planes_of(const at::Tensor& x) const {
    const std::int64_t planes = head_dim_ / 2;
    return layout_ == RotationLayout::half ? x.unflatten(-1, {2, planes})
                                           : x.unflatten(-1, {planes, 2}).transpose(-1, -2);
  }

  // What of q or k the products of the score are made of. L1R4: e_i e_j^T is one number a plane,
  // that multiplies q.k of the plane; of the four numbers of a flattened rotation two are the other
  // two, and every update keeps them so: (c, s) with length 1 stands for all. L4R1: q^T e_i e_j^T
  // k, e the cosines and sines of two neighbouring planes.
  at::Tensor placed(const at::Tensor& x, const at::Tensor& z) const {
    if (form_ == Form::vector) return (planes_of(x).unsqueeze(-3) * z.unsqueeze(-2)).flatten(-3);
    if (form_ == Form::column) {
      return (planes_of(x) * z).sum(-2).unflatten(-1, {head_dim_ / 4, 2}).sum(-1);
    }
    return rotate(x, z, layout_);
  }

  bool updates_in_attention() const {
    return text("contextualize") == "both" || text("contextualize") == "attention_only";
  }
  bool updates_in_mlp() const {
    return text("contextualize") == "both" || text("contextualize") == "mlp_only";
  }

  // Whether each channel has a cosine and a sine of its own.
  bool by_channel() const { return !flag("equivariance") || form_ == Form::channels; }

  // Endings of the names of what acts on a part of the state.
  std::vector<std::string> parts() const {
    return form_ == Form::separate ? std::vector<std::string>{".0", ".1"}
                                   : std::vector<std::string>{""};
  }

  // What `update` makes of a state (B or 1, H or 1, N, 2, P): of both parts at once, or of cosines
  // and sines apart where their matrices differ.
  template <typename Update>
  at::Tensor by_parts(const at::Tensor& z, Update update) const {
    if (form_ != Form::separate) return update(z, std::string());
    return at::cat({update(z.narrow(-2, 0, 1), std::string(".0")),
                    update(z.narrow(-2, 1, 1), std::string(".1"))},
                   -2);
  }

  at::Tensor of_all_heads(const at::Tensor& z) const {
    return z.expand({z.size(0), heads_, z.size(2), z.size(3), z.size(4)});
  }

  // matrix (..., H, H), for all tokens or (B, N, H, H); z (B or 1, H or 1, N, parts, P).
  at::Tensor across_heads(const at::Tensor& matrix, const at::Tensor& z) const {
    const at::Tensor by_token = of_all_heads(z).flatten(-2).transpose(1, 2);
    return at::matmul(matrix, by_token).transpose(1, 2).unflatten(-1, {z.size(3), z.size(4)});
  }

  // W2 (g * (W1 z)) is linear in z for each token: the H x H matrix sum_i g_i W2[:, i] W1[i, :]
  // is formed from the gate first, which costs a fraction of going through all I units.
  at::Tensor gated_across_heads(const at::Tensor& gate, const at::Tensor& up,
                                const at::Tensor& down, const at::Tensor& z) const {
    const at::Tensor products = down.t().unsqueeze(2) * up.unsqueeze(1);  // (I, H, H)
    const at::Tensor matrices =
        at::matmul(gate, products.flatten(1)).unflatten(-1, {heads_, heads_});  // (B, N, H, H)
    return across_heads(matrices, z);
  }

  // W2 (g * (W1 z)) with up (I, H d) and down (H d, I), on the channels of all heads of a token.
  at::Tensor gated_across_all(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down,
                              const at::Tensor& z) const {
    const at::Tensor by_token =
        of_all_heads(z).permute({0, 2, 3, 1, 4}).flatten(-2);  // (B, N, 2, H d)
    const at::Tensor units = gate.unsqueeze(2) * at::linear(by_token, up);
    return at::linear(units, down).unflatten(-1, {heads_, head_dim_}).permute({0, 3, 1, 2, 4});
  }

  // (B, N, I) to (B, 1, N, 1, I).
  static at::Tensor gate_of_heads(const at::Tensor& gate) { return gate.unsqueeze(1).unsqueeze(3); }

  // A number for each channel in place of each plane.
  at::Tensor of_channels(const at::Tensor& z) const {
    return layout_ == RotationLayout::half ? at::cat({z, z}, -1) : z.repeat_interleave(2, -1);
  }

  // ---- The start from random Fourier features ----
  //
  // The paper's: features sqrt(2/R) [w cos(omega n), w sin(omega n)] of position n as the first
  // e_n. Our reading of the rest: R = 2, the width of a plane's block, so that each plane m has one
  // frequency omega_m and the factor is 1, and the block is the rotation by omega_m n times w_m:
  // z_n = w_m e^(i omega_m n), a complex number as RoPE's. omega (d/2), radians a token, is drawn
  // once from N(0, 1 / length_scale^2), as for a Gaussian kernel, and stays as drawn; w (H, d/2)
  // has no unit, starts at 1 and is learned. All heads share omega: the updates add heads, and what
  // turns by different angles under a shift of positions would not add up to what turns. e_i.e_j =
  // sum_m w_m^2 cos(omega_m (i - j)) then depends on i - j alone.

  bool random_features() const { return text("start") == "random_fourier"; }

  at::Tensor drawn_frequencies() const {
    const auto seed = static_cast<std::uint64_t>(integer("seed"));
    const at::Tensor normal =
        at::randn({head_dim_ / 2}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
    return normal / number("length_scale");
  }

  // z (B or 1, 1, N, 2, d/2) with the weights of each head: (B or 1, H, N, 2, d/2).
  static at::Tensor weighted(const at::Tensor& z, const StartContext& context) {
    return z * context.shared->at("weights").to(context.dtype).unsqueeze(1).unsqueeze(1);
  }

  at::Tensor plain_frequencies(const StartContext& context) const {
    if (random_features()) return context.shared->at("frequencies").to(context.angle_dtype);
    if (context.shared != nullptr) {
      const auto stored = context.shared->find("inv_freq");
      if (stored != context.shared->end()) return stored->second.to(context.angle_dtype);
    }
    return rope_frequencies(number("base"), head_dim_, context.angle_options());
  }

  // By how much yarn stretches a text.
  double stretch(std::int64_t length) const {
    if (text("scaling") == "yarn") return number("factor");
    if (text("scaling") != "adayarn" || length <= trained_) return 1.0;
    return static_cast<double>(length) / static_cast<double>(trained_);
  }

  // Texts that adayarn does not stretch have the magnitude of its factor (public code).
  double yarn_magnitude(std::int64_t length) const {
    const bool short_text = text("scaling") == "adayarn" && length <= trained_;
    const double factor = short_text ? number("factor") : stretch(length);
    return factor > 1 ? 0.1 * std::log(factor) + 1 : 1.0;
  }

  Form form_;
  RotationLayout layout_ = layout_of(options_);
  std::int64_t units_ = 0, trained_ = 0;
};

std::unique_ptr<Encoding> make_tape(const Json& options, const ModelConfig& model) {
  return std::make_unique<Tape>(options, model);
}

}  // namespace

EncodingEntry tape_entry() { return {&tape_info(), &make_tape}; }

}  // namespace phasescope::model
