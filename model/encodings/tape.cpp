#include "model/encodings/tape.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "formats/error.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& tape_info() {
  const double none = std::numeric_limits<double>::infinity();
  const double tiny = std::numeric_limits<double>::min();
  static const EncodingInfo info = {
      .key = "tape",
      .title = "TAPE (positions updated by the content)",
      .formula = "s_ij = sum_m Re(conj(z_i q_i)_m (z_j k_j)_m) / sqrt(d); z starts as RoPE's "
                 "rotation, then z += P sum_j a_ij z_j and z += W2 (act(W_x y) * W1 z) each layer",
      .source = "arXiv 2501.00712, Eq. 6-9",
      .departure = "",
      .options =
          {{"base", 10000.0, "base of the first rotation's frequencies", {}, tiny, none},
           {"hidden", 0, "I, units of the position MLP; 0: four times the heads", {}, 0, 1 << 20},
           {"post_attention_linear", "mix",
            "how P acts on the averaged state: across heads (paper), or each head by its row's sum "
            "(public code)",
            {"mix", "rowsum"}},
           {"gate_input", "mlp_output", "what the position MLP's gate reads",
            {"mlp_output", "attention_output"}},
           {"gate_activation", "silu", "of the gate", {"silu", "gelu", "gelu_tanh", "relu"}},
           {"contextualize", "both", "which updates of the state are made",
            {"both", "attention_only", "mlp_only", "none"}},
           {"layout", "half", "channels of plane m: (m, m + d/2) or (2m, 2m + 1)",
            {"half", "interleaved"}},
           {"scaling", "none", "of positions", {"none", "linear"}},
           {"factor", 1.0, "positions are divided by it (scaling linear)", {}, tiny, none},
           {"shift", 0, "position ids start here"},
           {"shift_limit", 0, "longer texts get no shift (public code); 0: no limit", {}, 0, none},
           {"train_shift", true, "training draws a shift in 0..2 context for each step"}},
      .shift_invariant = true,
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

class Tape final : public Encoding {
 public:
  Tape(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (head_dim_ % 2 != 0) {
      throw formats::bad_input("tape needs an even head size but got " +
                               std::to_string(head_dim_));
    }
    if (kv_heads_ != heads_) {
      throw formats::bad_input("tape needs a key head for every head, but there are " +
                               std::to_string(kv_heads_) + " for " + std::to_string(heads_));
    }
    layout_ = text("layout") == "half" ? RotationLayout::half : RotationLayout::interleaved;
    units_ = integer("hidden") > 0 ? integer("hidden") : 4 * heads_;
  }

  const EncodingInfo& info() const override { return tape_info(); }

  std::string departure() const override {
    std::string text_;
    if (text("post_attention_linear") == "rowsum") {
      text_ = "the post-attention linear multiplies each head by its row's sum, as the public code "
              "does; the paper mixes heads";
    }
    if (text("gate_input") == "mlp_output") {
      text_ += std::string(text_.empty() ? "" : "; ") +
               "the gate reads the MLP's output, as the public code does; the paper's reads the "
               "attention's";
    }
    return text_;
  }

  std::vector<ParameterSpec> parameters() const override {
    using Init = ParameterSpec::Init;
    return {{.name = "up_proj", .shape = {units_, heads_}, .init = Init::zeros},
            {.name = "x_proj", .shape = {units_, width_}},
            {.name = "down_proj", .shape = {heads_, units_}},
            {.name = "post_attention_linear", .shape = {heads_, heads_}, .init = Init::zeros}};
  }

  // Public checkpoints store theirs, sometimes rounded: it is used as stored.
  std::vector<ParameterSpec> shared_parameters() const override {
    return {{.name = "inv_freq", .shape = {head_dim_ / 2}, .trainable = false, .optional = true}};
  }

  at::Tensor frequencies(const StartContext& context) const override {
    if (context.shared != nullptr) {
      const auto stored = context.shared->find("inv_freq");
      if (stored != context.shared->end()) return stored->second.to(context.angle_dtype);
    }
    return rope_frequencies(number("base"), head_dim_, context.angle_dtype);
  }

  PositionState start(const StartContext& context) const override {
    const std::int64_t limit = integer("shift_limit");
    const bool shifted = limit == 0 || context.positions.length <= limit;
    at::Tensor positions = position_values(context, shifted ? integer("shift") : 0);
    if (text("scaling") == "linear") positions = positions / number("factor");
    return {context.positions,
            rotation_state(positions, frequencies(context), context.dtype)};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program;
    program.q_plain = q;
    program.k_plain = k;
    program.q = rotate(q, state.z, layout_);
    program.k = rotate(k, state.z, layout_);
    program.scale = scale_;
    program.positions = state.positions;
    if (updates_in_attention()) {
      program.kind = AttentionProgram::Kind::tape;
      program.tape.state = state.z.flatten(-2);
    }
    return program;
  }

  void after_attention(const Parameters& layer, const at::Tensor& averaged_state,
                       PositionState& state) const override {
    if (!updates_in_attention()) return;
    const at::Tensor& linear = layer.at("post_attention_linear");
    const at::Tensor matrix =
        text("post_attention_linear") == "rowsum" ? at::diag(linear.sum(1)) : linear;
    const at::Tensor change = across_heads(matrix, averaged_state.unflatten(-1, {2, -1}));
    state.z = state.z + change;
  }

  // W2 (g * (W1 z)) is linear in z for each token: the H x H matrix sum_i g_i W2[:, i] W1[i, :]
  // is formed from the gate first, which costs a fraction of going through all I units.
  void after_mlp(const Parameters& layer, const MlpContext& context,
                 PositionState& state) const override {
    if (!updates_in_mlp()) return;
    const at::Tensor& read = text("gate_input") == "mlp_output" ? context.mlp_output
                                                                : context.attention_output;
    const at::Tensor gate = activated(at::linear(read, layer.at("x_proj")), text("gate_activation"));
    const at::Tensor& up = layer.at("up_proj");
    const at::Tensor& down = layer.at("down_proj");
    const at::Tensor products = down.t().unsqueeze(2) * up.unsqueeze(1);  // (I, H, H)
    const at::Tensor matrices =
        at::matmul(gate, products.flatten(1)).unflatten(-1, {heads_, heads_});  // (B, N, H, H)
    state.z = state.z + across_heads(matrices, state.z);
  }

  std::int64_t train_shift() const override { return flag("train_shift") ? 2 * context_ : 0; }

 private:
  bool updates_in_attention() const {
    return text("contextualize") == "both" || text("contextualize") == "attention_only";
  }
  bool updates_in_mlp() const {
    return text("contextualize") == "both" || text("contextualize") == "mlp_only";
  }

  // matrix (..., H, H), for all tokens or (B, N, H, H); z (B or 1, H or 1, N, 2, d/2).
  at::Tensor across_heads(const at::Tensor& matrix, const at::Tensor& z) const {
    const at::Tensor by_token =
        z.expand({z.size(0), heads_, z.size(2), 2, z.size(4)}).flatten(-2).transpose(1, 2);
    return at::matmul(matrix, by_token).transpose(1, 2).unflatten(-1, {2, z.size(4)});
  }

  RotationLayout layout_ = RotationLayout::half;
  std::int64_t units_ = 0;
};

std::unique_ptr<Encoding> make_tape(const Json& options, const ModelConfig& model) {
  return std::make_unique<Tape>(options, model);
}

}  // namespace

EncodingEntry tape_entry() { return {&tape_info(), &make_tape}; }

}  // namespace phasescope::model
