#include "model/checkpoints/weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "formats/error.h"

namespace phasescope::model {
namespace {

using Init = ParameterSpec::Init;

template <typename Struct>
using Names = std::map<std::string, at::Tensor Struct::*>;

const Names<LayerWeights>& layer_names() {
  static const Names<LayerWeights> names = {
      {"input_layernorm.weight", &LayerWeights::attention_norm},
      {"input_layernorm.bias", &LayerWeights::attention_norm_bias},
      {"self_attn.q_proj.weight", &LayerWeights::wq},
      {"self_attn.k_proj.weight", &LayerWeights::wk},
      {"self_attn.v_proj.weight", &LayerWeights::wv},
      {"self_attn.o_proj.weight", &LayerWeights::wo},
      {"self_attn.q_proj.bias", &LayerWeights::bq},
      {"self_attn.k_proj.bias", &LayerWeights::bk},
      {"self_attn.v_proj.bias", &LayerWeights::bv},
      {"self_attn.o_proj.bias", &LayerWeights::bo},
      {"self_attn.q_norm.weight", &LayerWeights::q_norm},
      {"self_attn.q_norm.bias", &LayerWeights::q_norm_bias},
      {"self_attn.k_norm.weight", &LayerWeights::k_norm},
      {"self_attn.k_norm.bias", &LayerWeights::k_norm_bias},
      {"self_attn.output_layernorm.weight", &LayerWeights::attention_output_norm},
      {"self_attn.output_layernorm.bias", &LayerWeights::attention_output_norm_bias},
      {"cross_attn.input_layernorm.weight", &LayerWeights::cross_norm},
      {"cross_attn.input_layernorm.bias", &LayerWeights::cross_norm_bias},
      {"cross_attn.q_proj.weight", &LayerWeights::cross_wq},
      {"cross_attn.k_proj.weight", &LayerWeights::cross_wk},
      {"cross_attn.v_proj.weight", &LayerWeights::cross_wv},
      {"cross_attn.o_proj.weight", &LayerWeights::cross_wo},
      {"cross_attn.q_proj.bias", &LayerWeights::cross_bq},
      {"cross_attn.k_proj.bias", &LayerWeights::cross_bk},
      {"cross_attn.v_proj.bias", &LayerWeights::cross_bv},
      {"cross_attn.o_proj.bias", &LayerWeights::cross_bo},
      {"cross_attn.output_layernorm.weight", &LayerWeights::cross_output_norm},
      {"cross_attn.output_layernorm.bias", &LayerWeights::cross_output_norm_bias},
      {"post_attention_layernorm.weight", &LayerWeights::mlp_norm},
      {"post_attention_layernorm.bias", &LayerWeights::mlp_norm_bias},
      {"mlp.gate_proj.weight", &LayerWeights::gate},
      {"mlp.up_proj.weight", &LayerWeights::up},
      {"mlp.down_proj.weight", &LayerWeights::down},
      {"mlp.gate_proj.bias", &LayerWeights::gate_bias},
      {"mlp.up_proj.bias", &LayerWeights::up_bias},
      {"mlp.down_proj.bias", &LayerWeights::down_bias},
      {"mlp.output_layernorm.weight", &LayerWeights::mlp_output_norm},
      {"mlp.output_layernorm.bias", &LayerWeights::mlp_output_norm_bias},
  };
  return names;
}

const Names<StackWeights>& stack_names() {
  static const Names<StackWeights> names = {
      {"norm.weight", &StackWeights::final_norm},
      {"norm.bias", &StackWeights::final_norm_bias},
  };
  return names;
}

const Names<Weights>& model_names() {
  static const Names<Weights> names = {
      {"model.embed_tokens.weight", &Weights::embedding},
      {"model.embed_in.weight", &Weights::embedding_in},
      {"model.embed_out.weight", &Weights::embedding_out},
      {"model.embed_types.weight", &Weights::token_types},
      {"model.embed_norm.weight", &Weights::embedding_norm},
      {"model.embed_norm.bias", &Weights::embedding_norm_bias},
      {"lm_head.transform.weight", &Weights::head_transform},
      {"lm_head.transform.bias", &Weights::head_transform_bias},
      {"lm_head.norm.weight", &Weights::head_norm},
      {"lm_head.norm.bias", &Weights::head_norm_bias},
      {"lm_head.weight", &Weights::head},
      {"lm_head.bias", &Weights::head_bias},
  };
  return names;
}

// Collects the specs of a model in the order of the file.
class SpecList {
 public:
  explicit SpecList(const ModelConfig& config) : config_(config) {}

  void matrix(const std::string& name, std::int64_t out, std::int64_t in,
              Init init = Init::normal) {
    specs.push_back({.name = name, .shape = {out, in}, .init = init});
  }
  void vector(const std::string& name, std::int64_t size, Init init) {
    specs.push_back({.name = name, .shape = {size}, .decays = false, .init = init});
  }
  void bias(bool there, const std::string& name, std::int64_t size) {
    if (there) vector(name + ".bias", size, Init::zeros);
  }
  void norm(const std::string& name, std::int64_t size) {
    vector(name + ".weight", size, config_.norm.unit_offset ? Init::zeros : Init::ones);
    bias(config_.norm.bias, name, size);
  }
  void encoding(const std::string& prefix, const std::vector<ParameterSpec>& list) {
    for (const ParameterSpec& spec : list) {
      specs.push_back({prefix + spec.name, spec.shape, spec.optional, spec.trainable,
                       spec.decays && spec.shape.size() > 1, spec.init, spec.low, spec.high,
                       spec.start});
    }
  }

  std::vector<TensorSpec> specs;

 private:
  const ModelConfig& config_;
};

void add_attention(SpecList& list, const std::string& at, const ModelConfig& config) {
  const AttentionConfig& a = config.attention;
  const std::int64_t queries = config.heads * config.head_dim;
  const std::int64_t keys = config.kv_heads * config.head_dim;
  list.matrix(at + "q_proj.weight", queries, config.width);
  list.matrix(at + "k_proj.weight", keys, config.width);
  list.matrix(at + "v_proj.weight", keys, config.width);
  list.matrix(at + "o_proj.weight", config.width, queries, Init::residual_normal);
  list.bias(a.q_bias, at + "q_proj", queries);
  list.bias(a.k_bias, at + "k_proj", keys);
  list.bias(a.v_bias, at + "v_proj", keys);
  list.bias(a.o_bias, at + "o_proj", config.width);
}

void add_mlp(SpecList& list, const std::string& at, const ModelConfig& config) {
  const MlpConfig& mlp = config.mlp;
  if (mlp.gated) list.matrix(at + "gate_proj.weight", config.ffn_width, config.width);
  list.matrix(at + "up_proj.weight", config.ffn_width, config.width);
  list.matrix(at + "down_proj.weight", config.width, config.ffn_width, Init::residual_normal);
  list.bias(mlp.gated && mlp.up_bias, at + "gate_proj", config.ffn_width);
  list.bias(mlp.up_bias, at + "up_proj", config.ffn_width);
  list.bias(mlp.down_bias, at + "down_proj", config.width);
}

void add_layer(SpecList& list, const std::string& at, const ModelConfig& config,
               const Encoding& encoding, bool cross) {
  const bool sandwich = config.norm.placement == "sandwich";
  list.norm(at + "input_layernorm", config.width);
  add_attention(list, at + "self_attn.", config);
  if (config.attention.qk_norm != "none") {
    const bool full = config.attention.qk_norm == "full";
    list.norm(at + "self_attn.q_norm", config.head_dim * (full ? config.heads : 1));
    list.norm(at + "self_attn.k_norm", config.head_dim * (full ? config.kv_heads : 1));
  }
  if (sandwich) list.norm(at + "self_attn.output_layernorm", config.width);
  if (cross) {
    list.norm(at + "cross_attn.input_layernorm", config.width);
    add_attention(list, at + "cross_attn.", config);
    if (sandwich) list.norm(at + "cross_attn.output_layernorm", config.width);
  }
  if (config.residual != "parallel_shared") {
    list.norm(at + "post_attention_layernorm", config.width);
  }
  add_mlp(list, at + "mlp.", config);
  if (sandwich) list.norm(at + "mlp.output_layernorm", config.width);
  list.encoding(at + "encoding.", encoding.parameters());
}

// One stack of layers with its shared parameters, `at` "model." or "model.encoder.".
void add_stack(SpecList& list, const std::string& at, const ModelConfig& config,
               const Encoding& encoding, bool cross) {
  const std::unique_ptr<Encoding> local = make_local_encoding(config);
  list.encoding(at + "encoding.", encoding.shared_parameters());
  if (local) list.encoding(at + "local_encoding.", local->shared_parameters());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    add_layer(list, at + "layers." + std::to_string(layer) + ".", config,
              local && config.is_local(layer) ? *local : encoding, cross);
  }
  if (config.norm.at_end) list.norm(at + "norm", config.width);
}

// "layers.3.mlp.up_proj.weight" -> 3 and "mlp.up_proj.weight"; nullopt for other names.
struct LayerName {
  std::size_t layer;
  std::string rest;
};
std::optional<LayerName> split_layer_name(std::string_view name) {
  constexpr std::string_view prefix = "layers.";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::size_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return LayerName{layer, std::string(end + 1, name.data() + name.size())};
}

template <typename Struct>
at::Tensor* find_in(const Names<Struct>& names, Struct& weights, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? nullptr : &(weights.*found->second);
}

at::Tensor* find_in_stack(StackWeights& stack, const std::string& name) {
  constexpr std::string_view own = "encoding.", local = "local_encoding.";
  if (name.starts_with(own)) return &stack.encoding[name.substr(own.size())];
  if (name.starts_with(local)) return &stack.local_encoding[name.substr(local.size())];
  const auto split = split_layer_name(name);
  if (!split) return find_in(stack_names(), stack, name);
  if (split->layer >= stack.layers.size()) return nullptr;
  LayerWeights& layer = stack.layers[split->layer];
  if (split->rest.starts_with(own)) return &layer.encoding[split->rest.substr(own.size())];
  return find_in(layer_names(), layer, split->rest);
}

at::Tensor* find_place(Weights& weights, const std::string& name) {
  if (at::Tensor* place = find_in(model_names(), weights, name)) return place;
  constexpr std::string_view encoder = "model.encoder.", decoder = "model.";
  if (name.starts_with(encoder)) return find_in_stack(weights.encoder, name.substr(encoder.size()));
  if (!name.starts_with(decoder)) return nullptr;
  return find_in_stack(static_cast<StackWeights&>(weights), name.substr(decoder.size()));
}

at::Tensor drawn(const TensorSpec& spec, const ModelConfig& config, at::Generator& generator) {
  const at::TensorOptions options(at::kFloat);
  if (spec.start.defined())
    return spec.start.to(at::kFloat).expand(spec.shape).contiguous().clone();
  const double residual = config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
  switch (spec.init) {
    case Init::zeros:
      return at::zeros(spec.shape, options);
    case Init::ones:
      return at::ones(spec.shape, options);
    case Init::uniform:
      return at::empty(spec.shape, options).uniform_(spec.low, spec.high, generator);
    case Init::residual_normal:
      return at::empty(spec.shape, options).normal_(0, residual, generator);
    case Init::normal:
      return at::empty(spec.shape, options)
          .normal_(0, spec.low > 0 ? spec.low : config.init_std, generator);
  }
  return {};
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const ModelConfig& config, const Encoding& encoding) {
  SpecList list(config);
  const EmbeddingConfig& e = config.embedding;
  const std::int64_t embedding_width = e.width > 0 ? e.width : config.width;
  list.matrix("model.embed_tokens.weight", config.vocab_size, embedding_width);
  if (e.width > 0) list.matrix("model.embed_in.weight", config.width, e.width);
  if (e.token_types > 0) list.matrix("model.embed_types.weight", e.token_types, config.width);
  if (e.norm) list.norm("model.embed_norm", config.width);
  if (config.encoder_layers > 0) {
    const ModelConfig encoder = config.encoder();
    add_stack(list, "model.encoder.", encoder, *make_encoding(encoder), false);
  }
  add_stack(list, "model.", config, encoding, config.encoder_layers > 0);
  if (e.width > 0) list.matrix("model.embed_out.weight", e.width, config.width);
  if (!config.head.present) return list.specs;
  if (config.head.transform) {
    list.matrix("lm_head.transform.weight", embedding_width, embedding_width);
    list.bias(true, "lm_head.transform", embedding_width);
    list.norm("lm_head.norm", embedding_width);
  }
  if (!config.tie_embeddings) list.matrix("lm_head.weight", config.vocab_size, embedding_width);
  list.bias(config.head.bias, "lm_head", config.vocab_size);
  return list.specs;
}

Weights empty_weights(const ModelConfig& config) {
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(config.layers));
  weights.encoder.layers.resize(static_cast<std::size_t>(config.encoder_layers));
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

namespace {

void convert(StackWeights& stack, at::ScalarType dtype) {
  const auto to_dtype = [dtype](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(dtype);
  };
  for (const auto& [name, member] : stack_names()) to_dtype(stack.*member);
  for (Parameters* shared : {&stack.encoding, &stack.local_encoding}) {
    for (auto& [name, tensor] : *shared) to_dtype(tensor);
  }
  for (LayerWeights& layer : stack.layers) {
    for (const auto& [name, member] : layer_names()) to_dtype(layer.*member);
    for (auto& [name, tensor] : layer.encoding) to_dtype(tensor);
  }
}

}  // namespace

Weights converted(const Weights& weights, at::ScalarType dtype) {
  Weights result = weights;
  for (const auto& [name, member] : model_names()) {
    if ((result.*member).defined()) result.*member = (result.*member).to(dtype);
  }
  convert(result, dtype);
  convert(result.encoder, dtype);
  return result;
}

std::int64_t parameter_count(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

}  // namespace phasescope::model
