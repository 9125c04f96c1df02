#include "analysis/theory/general_tape.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "analysis/text_pass.h"
#include "analysis/theory/equality.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

at::Tensor masked_softmax(const at::Tensor& scores, const at::Tensor& mask) {
  return at::softmax(
      scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity()), -1);
}

// The two channels of each plane, (N, H, M, 2).
at::Tensor planes_of(const GeneralTape& tape, const at::Tensor& x) {
  if (tape.half_layout) return x.view({x.size(0), tape.heads, 2, tape.planes}).transpose(2, 3);
  return x.view({x.size(0), tape.heads, tape.planes, 2});
}

// W2 (gate * (W1 e)) on what the update mixes: e (N, H, M, L, R) as (N, mixed, rest).
at::Tensor mixed_update(const GeneralTape& tape, const GeneralLayer& layer, const at::Tensor& e,
                        const at::Tensor& gate) {
  const auto mlp = [&](const at::Tensor& rows) {  // (N, mixed, rest)
    return at::matmul(layer.w2, gate.unsqueeze(2) * at::matmul(layer.w1, rows));
  };
  switch (tape.update) {
    case GeneralUpdate::heads:
      return mlp(e.flatten(2)).view(e.sizes());
    case GeneralUpdate::heads_and_planes:
      return mlp(e.flatten(1, 2).flatten(2)).view(e.sizes());
    case GeneralUpdate::heads_and_columns: {
      const at::Tensor rows = e.permute({0, 1, 4, 2, 3}).contiguous();  // (N, H, R, M, L)
      return mlp(rows.flatten(1, 2).flatten(2)).view(rows.sizes()).permute({0, 1, 3, 4, 2});
    }
  }
  return {};
}

}  // namespace

GeneralLayerRun run_layer(const GeneralTape& tape, std::size_t index, const GeneralState& state,
                          const at::Tensor& mask) {
  const GeneralLayer& p = tape.layers[index];
  const double scale = 1 / std::sqrt(2 * static_cast<double>(tape.planes));
  const at::Tensor read = rms(state.x, p.attention_norm, tape.norm_eps);
  const auto placed = [&](const at::Tensor& w) {
    return at::einsum("nhml,nhmlr->hmnr", {planes_of(tape, at::matmul(read, w.t())), state.e});
  };
  GeneralLayerRun out;
  out.plane_scores = at::matmul(placed(p.q), placed(p.k).transpose(2, 3)) * scale;
  out.attention = masked_softmax(out.plane_scores.sum(1), mask);
  const double other = tape.plane_scale > 0 ? tape.plane_scale / scale : 1;
  out.plane_maps = masked_softmax(out.plane_scores * other, mask);
  const at::Tensor values = at::matmul(read, p.v.t()).view({read.size(0), tape.heads, -1});
  at::Tensor x =
      state.x + at::matmul(at::einsum("hij,jhc->ihc", {out.attention, values}).flatten(1), p.o.t());
  out.averaged = tape.softmax_per_plane ? at::einsum("hmij,jhmlr->ihmlr", {out.plane_maps, state.e})
                                        : at::einsum("hij,jhmlr->ihmlr", {out.attention, state.e});
  const at::Tensor linear = tape.rowsum ? at::diag(p.post_linear.sum(1)) : p.post_linear;
  const at::Tensor e = state.e + at::einsum("gh,ihmlr->igmlr", {linear, out.averaged});
  const at::Tensor hidden = rms(x, p.mlp_norm, tape.norm_eps);
  const at::Tensor y = at::matmul(
      at::silu(at::matmul(hidden, p.gate.t())) * at::matmul(hidden, p.up.t()), p.down.t());
  const at::Tensor gate = at::silu(at::matmul(y, p.wx.t()));
  out.after = {x + y, e + mixed_update(tape, p, e.contiguous(), gate)};
  return out;
}

GeneralState run_general(const GeneralTape& tape, const GeneralInput& input,
                         std::vector<GeneralLayerRun>* runs) {
  GeneralState state{input.x, input.e};
  for (std::size_t l = 0; l < tape.layers.size(); ++l) {
    GeneralLayerRun run = run_layer(tape, l, state, input.mask);
    state = run.after;
    if (runs != nullptr) runs->push_back(std::move(run));
  }
  return state;
}

at::Tensor tensors_of_state(const at::Tensor& z, std::int64_t heads) {
  const at::Tensor by_token = z.expand({heads, -1, -1, -1}).permute({1, 0, 3, 2});  // (N, H, M, 2)
  const at::Tensor c = by_token.select(3, 0), s = by_token.select(3, 1);
  return at::stack({at::stack({c, s}, -1), at::stack({-s, c}, -1)}, -2).contiguous();
}

std::string general_form_missing(const model::Model& model) {
  const model::ModelConfig& c = model.config();
  const model::Json& o = model.encoding().options();
  if (c.encoding.key != "tape") {
    return "premise: positions that layers update; this model's encoding is " + c.encoding.key;
  }
  const bool tensors = o.value("tensor_form", "LR22") == std::string("LR22") &&
                       o.value("equivariance", true) &&
                       o.value("contextualize", "both") == std::string("both") &&
                       o.value("gate_input", "mlp_output") == std::string("mlp_output") &&
                       o.value("gate_activation", "silu") == std::string("silu");
  if (!tensors) {
    return "premise: one orthogonal matrix for all columns of e: the tensor form LR22, "
           "equivariant, "
           "both updates, a silu gate that reads the MLP's output; this model has another one";
  }
  const bool plain =
      c.norm.kind == "rms" && !c.norm.bias && !c.norm.unit_offset && c.norm.placement == "pre" &&
      c.mlp.gated && c.mlp.activation == "silu" && !c.mlp.up_bias && !c.mlp.down_bias &&
      c.residual == "sequential" && !c.attention.q_bias && !c.attention.k_bias &&
      !c.attention.v_bias && !c.attention.o_bias && c.attention.qk_norm == "none" &&
      c.attention.scale == 0 && !c.attention.scale_by_width && c.attention.convolution == 0 &&
      !c.mlp.scaled && c.attention.soft_cap == 0 && c.attention.clip == 0 &&
      c.attention.window == 0 && c.attention.log_scale == 0 && c.attention.causal &&
      c.embedding.width == 0 && !c.embedding.norm && c.encoder_layers == 0;
  return plain ? std::string()
               : "premise: layers as the paper's (RMSNorm before each branch, a gated silu MLP, no "
                 "biases); the general form knows no others";
}

GeneralTape general_tape(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  GeneralTape tape;
  tape.heads = config.heads, tape.planes = config.head_dim / 2;
  tape.half_layout = model.encoding().options().value("layout", "half") == std::string("half");
  tape.rowsum =
      model.encoding().options().value("post_attention_linear", "mix") == std::string("rowsum");
  tape.norm_eps = config.norm_eps;
  // It runs on the host, wherever the model lives.
  const auto here = &model::on_host;
  for (const model::LayerWeights& layer : model.decoder.weights().layers) {
    const auto own = [&](const char* name) { return here(layer.encoding.at(name)); };
    tape.layers.push_back({here(layer.attention_norm), here(layer.mlp_norm), here(layer.wq),
                           here(layer.wk), here(layer.wv), here(layer.wo), here(layer.gate),
                           here(layer.up), here(layer.down), own("post_attention_linear"),
                           own("up_proj"), own("down_proj"), own("x_proj")});
  }
  return tape;
}

GeneralInput general_input(const model::Model& model, const at::Tensor& ids) {
  const model::Decoder& decoder = model.decoder;
  const std::int64_t n = ids.size(1);
  GeneralInput input;
  input.x = model::on_host(decoder.weights().embedding).index_select(0, ids[0]) *
            model.config().embedding.scale;
  const at::Tensor z =
      model::on_host(model.encoding().start(start_context(decoder, n, decoder.dtype())).z[0]);
  input.e = tensors_of_state(z, model.config().heads);
  input.mask = at::ones({n, n}, at::kBool).tril();
  return input;
}

namespace {

class LastHidden final : public model::Observer {
 public:
  void on_hidden(std::int64_t, const at::Tensor& value) override { hidden = value; }
  at::Tensor hidden;
};

}  // namespace

double general_difference(const model::Model& model, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  LastHidden last;
  model::ForwardOptions plain;
  plain.backend = model::Backend::plain;
  model.decoder.hidden(ids, plain, &last);
  return relative_difference(run_general(general_tape(model), general_input(model, ids)).x,
                             model::on_host(last.hidden[0]));
}

}  // namespace phasescope::analysis
