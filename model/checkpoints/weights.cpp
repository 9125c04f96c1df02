#include "model/checkpoints/weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
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
      {"self_attn.sinks", &LayerWeights::sinks},
      {"self_attn.output_gate.weight", &LayerWeights::output_gate},
      {"self_attn.k_conv.weight", &LayerWeights::key_conv},
      {"self_attn.v_conv.weight", &LayerWeights::value_conv},
      {"self_attn.conv.weight", &LayerWeights::attention_conv},
      {"mlp.conv.weight", &LayerWeights::mlp_conv},
      {"mlp.scale", &LayerWeights::mlp_scale},
      {"mlp.router.total_scale", &LayerWeights::router_total},
      {"self_attn.kv_a_proj_with_mqa.weight", &LayerWeights::kv_a},
      {"self_attn.kv_a_layernorm.weight", &LayerWeights::kv_a_norm},
      {"self_attn.kv_b_proj.weight", &LayerWeights::kv_b},
      {"self_attn.q_a_proj.weight", &LayerWeights::q_a},
      {"self_attn.q_a_layernorm.weight", &LayerWeights::q_a_norm},
      {"self_attn.q_b_proj.weight", &LayerWeights::q_b},
      {"linear_attn.in_proj_qkv.weight", &LayerWeights::linear_qkv},
      {"linear_attn.in_proj_z.weight", &LayerWeights::linear_z},
      {"linear_attn.in_proj_a.weight", &LayerWeights::linear_a},
      {"linear_attn.in_proj_b.weight", &LayerWeights::linear_b},
      {"linear_attn.conv1d.weight", &LayerWeights::linear_conv},
      {"linear_attn.A_log", &LayerWeights::linear_log_decay},
      {"linear_attn.dt_bias", &LayerWeights::linear_dt_bias},
      {"linear_attn.norm.weight", &LayerWeights::linear_norm},
      {"linear_attn.out_proj.weight", &LayerWeights::linear_out},
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
      {"mlp.router.weight", &LayerWeights::router},
      {"mlp.router.bias", &LayerWeights::router_bias},
      {"mlp.router.choice_bias", &LayerWeights::choice_bias},
      {"mlp.shared_expert_gate.weight", &LayerWeights::shared_expert_gate},
      {"mlp.router.scale", &LayerWeights::router_scale},
      {"mlp.router.expert_scale", &LayerWeights::expert_scale},
      {"mlp.alone_output_layernorm.weight", &LayerWeights::mlp_alone_norm},
      {"mlp.experts_layernorm.weight", &LayerWeights::experts_norm},
      {"mlp.experts_output_layernorm.weight", &LayerWeights::experts_output_norm},
      {"layer_input_gate.weight", &LayerWeights::layer_input_gate},
      {"layer_input.weight", &LayerWeights::layer_input},
      {"layer_input_norm.weight", &LayerWeights::layer_input_norm},
      {"layer_scale", &LayerWeights::layer_scale},
      {"streams.router.weight", &LayerWeights::stream_router},
      {"streams.router_norm.weight", &LayerWeights::stream_router_norm},
      {"streams.prediction.weight", &LayerWeights::stream_prediction},
      {"streams.correction.weight", &LayerWeights::stream_correction},
      {"streams.scale", &LayerWeights::stream_scale},
      {"low_rank.in.weight", &LayerWeights::low_rank_in},
      {"low_rank.out.weight", &LayerWeights::low_rank_out},
      {"low_rank.norm.weight", &LayerWeights::low_rank_norm},
  };
  return names;
}

const Names<ExpertWeights>& expert_names() {
  static const Names<ExpertWeights> names = {
      {"gate_proj.weight", &ExpertWeights::gate}, {"up_proj.weight", &ExpertWeights::up},
      {"down_proj.weight", &ExpertWeights::down}, {"gate_proj.bias", &ExpertWeights::gate_bias},
      {"up_proj.bias", &ExpertWeights::up_bias},  {"down_proj.bias", &ExpertWeights::down_bias},
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
      {"model.embed_patches.weight", &Weights::patches},
      {"model.embed_types.weight", &Weights::token_types},
      {"model.embed_norm.weight", &Weights::embedding_norm},
      {"model.embed_norm.bias", &Weights::embedding_norm_bias},
      {"model.layer_embedding.weight", &Weights::layer_embedding},
      {"model.layer_projection.weight", &Weights::layer_projection},
      {"model.layer_projection_norm.weight", &Weights::layer_projection_norm},
      {"lm_head.transform.weight", &Weights::head_transform},
      {"lm_head.transform.bias", &Weights::head_transform_bias},
      {"lm_head.norm.weight", &Weights::head_norm},
      {"lm_head.norm.bias", &Weights::head_norm_bias},
      {"lm_head.pool.weight", &Weights::pool},
      {"lm_head.weight", &Weights::head},
      {"lm_head.bias", &Weights::head_bias},
  };
  return names;
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

// "3.up_proj.weight" -> 3 and "up_proj.weight"; nullopt for other names, and for numbers that no
// model has, which are no reason to allocate without end.
struct NumberedName {
  std::size_t number;
  std::string rest;
};
std::optional<NumberedName> split_number(std::string_view name) {
  constexpr std::size_t kMost = 100'000;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.' || number >= kMost) {
    return std::nullopt;
  }
  return NumberedName{number, std::string(end + 1, name.data() + name.size())};
}

// Lists of tensors by what stands before their number: "self_attn.q_norm." of
// "self_attn.q_norm.3.weight".
using NumberedTensors =
    std::initializer_list<std::pair<std::string_view, std::vector<at::Tensor>*>>;

// Made where it is not there yet; null for other names.
at::Tensor* find_numbered(NumberedTensors lists, std::string_view name) {
  for (const auto& [prefix, tensors] : lists) {
    if (!name.starts_with(prefix)) continue;
    const auto split = split_number(name.substr(prefix.size()));
    if (!split || split->rest != "weight") return nullptr;
    if (tensors->size() <= split->number) tensors->resize(split->number + 1);
    return &(*tensors)[split->number];
  }
  return nullptr;
}

// The norm of one head.
at::Tensor* find_in_head_norms(LayerWeights& layer, std::string_view name) {
  return find_numbered(
      {{"self_attn.q_norm.", &layer.q_norms}, {"self_attn.k_norm.", &layer.k_norms}}, name);
}

// "experts.3.up_proj.weight", "shared_experts.3.up_proj.weight" and "shared_expert.up_proj.weight"
// of a layer's MLP, made where they are not there yet; null for other names.
at::Tensor* find_in_experts(LayerWeights& layer, std::string_view name) {
  constexpr std::string_view shared = "mlp.shared_expert.";
  if (name.starts_with(shared)) {
    return find_in(expert_names(), layer.shared_expert, std::string(name.substr(shared.size())));
  }
  for (const auto& [prefix, list] :
       {std::pair{std::string_view("mlp.experts."), &layer.experts},
        std::pair{std::string_view("mlp.shared_experts."), &layer.shared_experts}}) {
    if (!name.starts_with(prefix)) continue;
    const auto split = split_number(name.substr(prefix.size()));
    if (!split || !expert_names().contains(split->rest)) return nullptr;
    if (list->size() <= split->number) list->resize(split->number + 1);
    return find_in(expert_names(), (*list)[split->number], split->rest);
  }
  return nullptr;
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
  if (at::Tensor* place = find_in(layer_names(), layer, split->rest)) return place;
  if (at::Tensor* place = find_in_head_norms(layer, split->rest)) return place;
  return find_in_experts(layer, split->rest);
}

at::Tensor* find_place(Weights& weights, const std::string& name) {
  if (at::Tensor* place = find_in(model_names(), weights, name)) return place;
  if (at::Tensor* place = find_numbered({{"model.streams_in.", &weights.streams_in},
                                         {"model.streams_out.", &weights.streams_out}},
                                        name)) {
    return place;
  }
  constexpr std::string_view encoder = "model.encoder.", decoder = "model.";
  if (name.starts_with(encoder)) return find_in_stack(weights.encoder, name.substr(encoder.size()));
  if (!name.starts_with(decoder)) return nullptr;
  return find_in_stack(static_cast<StackWeights&>(weights), name.substr(decoder.size()));
}

at::Tensor drawn(const TensorSpec& spec, const ModelConfig& config, at::Generator& generator) {
  const at::TensorOptions options(at::kFloat);
  if (spec.start.defined()) {
    return spec.start.to(at::kFloat).expand(spec.shape).contiguous().clone();
  }
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

void convert(at::Tensor& tensor, at::ScalarType dtype) {
  if (tensor.defined()) tensor = tensor.to(dtype);
}

void convert(LayerWeights& layer, at::ScalarType dtype) {
  for (const auto& [name, member] : layer_names()) convert(layer.*member, dtype);
  for (at::Tensor& norm : layer.q_norms) convert(norm, dtype);
  for (at::Tensor& norm : layer.k_norms) convert(norm, dtype);
  for (const auto& [name, member] : expert_names()) {
    for (ExpertWeights& expert : layer.experts) convert(expert.*member, dtype);
    for (ExpertWeights& expert : layer.shared_experts) convert(expert.*member, dtype);
    convert(layer.shared_expert.*member, dtype);
  }
  for (auto& [name, tensor] : layer.encoding) convert(tensor, dtype);
  layer.as_stored = false;
}

void convert(StackWeights& stack, at::ScalarType dtype) {
  for (const auto& [name, member] : stack_names()) convert(stack.*member, dtype);
  for (Parameters* shared : {&stack.encoding, &stack.local_encoding}) {
    for (auto& [name, tensor] : *shared) convert(tensor, dtype);
  }
  for (LayerWeights& layer : stack.layers) convert(layer, dtype);
}

}  // namespace

LayerWeights converted(const LayerWeights& layer, at::ScalarType dtype) {
  LayerWeights result = layer;
  convert(result, dtype);
  return result;
}

Weights converted(const Weights& weights, at::ScalarType dtype) {
  Weights result = weights;
  for (const auto& [name, member] : model_names()) {
    if ((result.*member).defined()) result.*member = (result.*member).to(dtype);
  }
  for (std::vector<at::Tensor>* list : {&result.streams_in, &result.streams_out}) {
    for (at::Tensor& tensor : *list) tensor = tensor.to(dtype);
  }
  convert(static_cast<StackWeights&>(result), dtype);
  convert(result.encoder, dtype);
  return result;
}

Weights on_device(const ModelConfig& config, const Encoding& encoding, const Weights& weights,
                  const at::Device& device) {
  std::set<std::string> stay;
  for (const TensorSpec& spec : tensor_specs(config, encoding)) {
    if (spec.of_host) stay.insert(spec.name);
  }
  Weights result = weights;
  for (const auto& [name, tensor] : named_tensors(config, encoding, weights)) {
    if (!stay.contains(name)) tensor_at(result, name) = tensor.to(device);
  }
  if (!device.is_cpu()) result.files.clear();  // nothing is a view of them any more
  return result;
}

void check_unchanged(const Weights& weights) {
  for (const auto& file : weights.files) file->check_unchanged();
}

std::int64_t parameter_count(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

}  // namespace phasescope::model
