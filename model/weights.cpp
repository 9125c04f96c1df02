#include "model/weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "formats/error.h"

namespace phasescope::model {
namespace {

using Init = ParameterSpec::Init;

const std::map<std::string, at::Tensor LayerWeights::*>& layer_names() {
  static const std::map<std::string, at::Tensor LayerWeights::*> names = {
      {"input_layernorm.weight", &LayerWeights::attention_norm},
      {"self_attn.q_proj.weight", &LayerWeights::wq},
      {"self_attn.k_proj.weight", &LayerWeights::wk},
      {"self_attn.v_proj.weight", &LayerWeights::wv},
      {"self_attn.o_proj.weight", &LayerWeights::wo},
      {"self_attn.q_proj.bias", &LayerWeights::bq},
      {"self_attn.k_proj.bias", &LayerWeights::bk},
      {"self_attn.v_proj.bias", &LayerWeights::bv},
      {"self_attn.o_proj.bias", &LayerWeights::bo},
      {"post_attention_layernorm.weight", &LayerWeights::mlp_norm},
      {"mlp.gate_proj.weight", &LayerWeights::gate},
      {"mlp.up_proj.weight", &LayerWeights::up},
      {"mlp.down_proj.weight", &LayerWeights::down},
      {"mlp.gate_proj.bias", &LayerWeights::gate_bias},
      {"mlp.up_proj.bias", &LayerWeights::up_bias},
      {"mlp.down_proj.bias", &LayerWeights::down_bias},
  };
  return names;
}

// Collects the specs of a model in the order of the file.
class SpecList {
 public:
  void matrix(const std::string& name, std::int64_t out, std::int64_t in, Init init = Init::normal) {
    specs.push_back({.name = name, .shape = {out, in}, .init = init});
  }
  void vector(const std::string& name, std::int64_t size, Init init) {
    specs.push_back({.name = name, .shape = {size}, .decays = false, .init = init});
  }
  void encoding(const std::string& prefix, const ParameterSpec& spec) {
    specs.push_back({prefix + spec.name, spec.shape, spec.optional, spec.trainable,
                     spec.decays && spec.shape.size() > 1, spec.init, spec.low, spec.high});
  }

  std::vector<TensorSpec> specs;
};

void add_layer(SpecList& list, const std::string& at, const ModelConfig& config,
               const Encoding& encoding) {
  const std::int64_t attention = config.heads * config.head_dim;
  const std::int64_t keys = config.kv_heads * config.head_dim;
  list.vector(at + "input_layernorm.weight", config.width, Init::ones);
  list.matrix(at + "self_attn.q_proj.weight", attention, config.width);
  list.matrix(at + "self_attn.k_proj.weight", keys, config.width);
  list.matrix(at + "self_attn.v_proj.weight", keys, config.width);
  list.matrix(at + "self_attn.o_proj.weight", config.width, attention, Init::residual_normal);
  if (config.attention_bias) {
    list.vector(at + "self_attn.q_proj.bias", attention, Init::zeros);
    list.vector(at + "self_attn.k_proj.bias", keys, Init::zeros);
    list.vector(at + "self_attn.v_proj.bias", keys, Init::zeros);
    list.vector(at + "self_attn.o_proj.bias", config.width, Init::zeros);
  }
  list.vector(at + "post_attention_layernorm.weight", config.width, Init::ones);
  list.matrix(at + "mlp.gate_proj.weight", config.ffn_width, config.width);
  list.matrix(at + "mlp.up_proj.weight", config.ffn_width, config.width);
  list.matrix(at + "mlp.down_proj.weight", config.width, config.ffn_width, Init::residual_normal);
  if (config.mlp_bias) {
    list.vector(at + "mlp.gate_proj.bias", config.ffn_width, Init::zeros);
    list.vector(at + "mlp.up_proj.bias", config.ffn_width, Init::zeros);
    list.vector(at + "mlp.down_proj.bias", config.width, Init::zeros);
  }
  for (const ParameterSpec& spec : encoding.parameters()) {
    list.encoding(at + "encoding.", spec);
  }
}

// "model.layers.3.mlp.up_proj.weight" -> 3 and "mlp.up_proj.weight"; nullopt for other names.
struct LayerName {
  std::size_t layer;
  std::string rest;
};
std::optional<LayerName> split_layer_name(std::string_view name) {
  constexpr std::string_view prefix = "model.layers.";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::size_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return LayerName{layer, std::string(end + 1, name.data() + name.size())};
}

at::Tensor* find_place(Weights& weights, const std::string& name) {
  if (name == "model.embed_tokens.weight") return &weights.embedding;
  if (name == "model.norm.weight") return &weights.final_norm;
  if (name == "lm_head.weight") return &weights.head;
  constexpr std::string_view shared = "model.encoding.";
  if (name.starts_with(shared)) return &weights.encoding[name.substr(shared.size())];
  const auto split = split_layer_name(name);
  if (!split || split->layer >= weights.layers.size()) return nullptr;
  LayerWeights& layer = weights.layers[split->layer];
  constexpr std::string_view own = "encoding.";
  if (split->rest.starts_with(own)) return &layer.encoding[split->rest.substr(own.size())];
  const auto found = layer_names().find(split->rest);
  return found == layer_names().end() ? nullptr : &(layer.*found->second);
}

at::Tensor drawn(const TensorSpec& spec, const ModelConfig& config, at::Generator& generator) {
  const at::TensorOptions options(at::kFloat);
  const double residual = config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
  switch (spec.init) {
    case Init::zeros: return at::zeros(spec.shape, options);
    case Init::ones: return at::ones(spec.shape, options);
    case Init::uniform: return at::empty(spec.shape, options).uniform_(spec.low, spec.high, generator);
    case Init::residual_normal: return at::empty(spec.shape, options).normal_(0, residual, generator);
    case Init::normal: return at::empty(spec.shape, options).normal_(0, config.init_std, generator);
  }
  return {};
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const ModelConfig& config, const Encoding& encoding) {
  SpecList list;
  list.matrix("model.embed_tokens.weight", config.vocab_size, config.width);
  for (const ParameterSpec& spec : encoding.shared_parameters()) {
    list.encoding("model.encoding.", spec);
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    add_layer(list, "model.layers." + std::to_string(layer) + ".", config, encoding);
  }
  list.vector("model.norm.weight", config.width, Init::ones);
  if (!config.tie_embeddings) list.matrix("lm_head.weight", config.vocab_size, config.width);
  return list.specs;
}

Weights empty_weights(const ModelConfig& config) {
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(config.layers));
  return weights;
}

at::Tensor& tensor_at(Weights& weights, const std::string& name) {
  at::Tensor* place = find_place(weights, name);
  if (place == nullptr) throw formats::internal_error("no tensor has the name " + name);
  return *place;
}

NamedTensors named_tensors(const ModelConfig& config, const Encoding& encoding,
                           const Weights& weights) {
  Weights view = weights;  // shares the tensors
  NamedTensors tensors;
  for (const TensorSpec& spec : tensor_specs(config, encoding)) {
    const at::Tensor& tensor = tensor_at(view, spec.name);
    if (tensor.defined()) tensors.emplace_back(spec.name, tensor);
  }
  return tensors;
}

Weights init_weights(const ModelConfig& config, const Encoding& encoding, std::uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Weights weights = empty_weights(config);
  for (const TensorSpec& spec : tensor_specs(config, encoding)) {
    if (!spec.optional) tensor_at(weights, spec.name) = drawn(spec, config, generator);
  }
  return weights;
}

Weights converted(const Weights& weights, at::ScalarType dtype) {
  Weights result = weights;
  const auto convert = [dtype](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(dtype);
  };
  convert(result.embedding);
  convert(result.final_norm);
  convert(result.head);
  for (auto& [name, tensor] : result.encoding) convert(tensor);
  for (LayerWeights& layer : result.layers) {
    for (const auto& [name, member] : layer_names()) convert(layer.*member);
    for (auto& [name, tensor] : layer.encoding) convert(tensor);
  }
  return result;
}

std::int64_t parameter_count(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

}  // namespace phasescope::model
