#include "worker/bench/step_rival.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>

#include <cmath>
#include <map>

#include "model/encodings/rotation.h"

namespace phasescope::worker {
namespace {

using model::ModelConfig;

model::Weights copied(const model::Decoder& decoder) {
  const at::NoGradGuard no_gradients;
  model::Weights weights = decoder.weights();
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    model::tensor_at(weights, name) = tensor.detach().clone();
  }
  return weights;
}

// Those that steps change, with what decays.
std::vector<training::AdamW::Parameter> loop_parameters(const model::Decoder& decoder,
                                                        model::Weights& weights) {
  std::vector<training::AdamW::Parameter> parameters;
  for (const model::TensorSpec& spec : model::tensor_specs(decoder.config(), decoder.encoding())) {
    at::Tensor& tensor = model::tensor_at(weights, spec.name);
    if (!tensor.defined() || !spec.trainable) continue;
    tensor.set_requires_grad(true);
    parameters.push_back({spec.name, tensor, spec.decays});
  }
  return parameters;
}

training::AdamWSettings loop_settings(const training::TrainSection& train) {
  return {train.beta1, train.beta2, train.epsilon, train.weight_decay};
}

bool turns_in_halves(const nlohmann::json& options) {
  static const std::map<std::string, nlohmann::json> plain = {
      {"base", nullptr}, {"layout", "half"}, {"scaling", "none"}};
  for (const auto& [key, value] : options.items()) {
    const auto known = plain.find(key);
    if (known == plain.end() || (!known->second.is_null() && value != known->second)) return false;
  }
  return true;
}

// (B, N, C) as (B, H, N, d).
at::Tensor in_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

}  // namespace

std::string PlainLoop::obstacle(const ModelConfig& config) {
  const std::string& key = config.encoding.key;
  if (key != "none" && (key != "rope" || !turns_in_halves(config.encoding.options))) {
    return "the encoding " + key + " with its options";
  }
  const bool plain_norms = config.norm.kind == "rms" && !config.norm.bias &&
                           !config.norm.unit_offset && config.norm.placement == "pre" &&
                           config.attention.qk_norm == "none";
  if (!plain_norms) return "its norms";
  if (config.mlp.activation != "silu" && config.mlp.activation != "gelu") return "its activation";
  const bool decoder = config.attention.causal && config.encoder_layers == 0 &&
                       config.patches.side == 0 && config.head.pool == "none";
  if (!decoder || config.positions.map != "identity") return "what is no causal decoder of ids";
  if (config.kv_heads != config.heads || config.embedding.scale != 1) return "its sizes";
  return "";
}

PlainLoop::PlainLoop(const model::Decoder& decoder, const training::TrainSection& train)
    : config_(decoder.config()),
      weights_(copied(decoder)),
      optimiser_(loop_parameters(decoder, weights_), loop_settings(train)),
      clip_(train.clip),
      dtype_(train.dtype == "bf16" ? at::kBFloat16 : at::kFloat) {
  if (config_.encoding.key != "rope") return;
  const double base = config_.encoding.options.value("base", 10000.0);
  const at::Tensor angles = at::outer(at::arange(config_.context, at::kFloat),
                                      model::rope_frequencies(base, config_.head_dim, at::kFloat));
  const at::Device device = weights_.embedding.device();
  cosines_ = angles.cos().to(device), sines_ = angles.sin().to(device);
}

at::Tensor PlainLoop::product(const at::Tensor& x, const at::Tensor& weight) const {
  return at::linear(x.to(dtype_), weight.to(dtype_));
}

// Float32, since the angles are.
at::Tensor PlainLoop::rotated(const at::Tensor& x) const {
  if (!cosines_.defined()) return x;
  const auto halves = x.chunk(2, -1);
  const at::Tensor c = cosines_.slice(0, 0, x.size(2)), s = sines_.slice(0, 0, x.size(2));
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

at::Tensor PlainLoop::mlp(const model::LayerWeights& layer, const at::Tensor& x) const {
  const auto activated = [this](const at::Tensor& y) {
    return config_.mlp.activation == "silu" ? at::silu(y) : at::gelu(y);
  };
  const at::Tensor up = product(x, layer.up);
  return product(config_.mlp.gated ? activated(product(x, layer.gate)) * up : activated(up),
                 layer.down);
}

at::Tensor PlainLoop::loss_of(const at::Tensor& ids, const at::Tensor& targets) const {
  const auto norm = [this](const at::Tensor& x, const at::Tensor& weight) {
    return at::rms_norm(x, {config_.width}, weight, config_.norm_eps);
  };
  at::Tensor x = at::embedding(weights_.embedding, ids);
  for (const model::LayerWeights& layer : weights_.layers) {
    const at::Tensor h = norm(x, layer.attention_norm);
    const at::Tensor q = rotated(in_heads(product(h, layer.wq), config_.heads));
    const at::Tensor k = rotated(in_heads(product(h, layer.wk), config_.heads));
    const at::Tensor v = in_heads(product(h, layer.wv), config_.heads);
    const at::Tensor o = at::scaled_dot_product_attention(q.to(dtype_), k.to(dtype_), v, {}, 0.0,
                                                          /*is_causal=*/true);
    x = x + product(o.transpose(1, 2).reshape(x.sizes()), layer.wo);
    x = x + mlp(layer, norm(x, layer.mlp_norm));
  }
  const at::Tensor& head = weights_.head.defined() ? weights_.head : weights_.embedding;
  const at::Tensor logits = product(norm(x, weights_.final_norm), head).to(at::kFloat);
  return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), targets.view(-1));
}

double PlainLoop::step(const training::Batch& batch, double rate) {
  optimiser_.clear_gradients();
  auto ids = batch.inputs, answers = batch.targets;  // from_blob() takes what may be written to
  const auto there = [&](std::vector<std::int64_t>& tokens) {
    return at::from_blob(tokens.data(), {batch.windows, batch.length}, at::kLong)
        .to(weights_.embedding.device());
  };
  const at::Tensor loss = loss_of(there(ids), there(answers));
  loss.backward();
  optimiser_.clip_gradients(clip_);
  optimiser_.step(rate);
  return loss.item<double>();
}

}  // namespace phasescope::worker
