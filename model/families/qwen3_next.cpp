#include "model/families/qwen3_next.h"

#include <ATen/ATen.h>

#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/qwen3_moe.h"

namespace phasescope::model {
namespace qwen3_next {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"qwen3_next"}); }

// Rows [q | gate] of each head.
TensorPlace gated_queries(const NameParts& parts, const ModelConfig& config) {
  const std::int64_t heads = config.heads, dim = config.head_dim;
  std::vector<std::int64_t> stored = {2 * heads * dim};
  if (parts.ending == ".weight") stored.push_back(config.width);
  const auto half = [&](const char* module, std::int64_t first) {
    return TensorPlace{
        .name = parts.layer + module + parts.ending,
        .convert =
            [=](const at::Tensor& x) {
              return x.unflatten(0, {heads, 2 * dim}).narrow(1, first, dim).flatten(0, 1);
            },
        .stored = stored};
  };
  TensorPlace place;
  place.parts = {half("self_attn.q_proj", 0), half("self_attn.output_gate", dim)};
  return place;
}

// Rows of each key head [q | k | v.. | z..], a v and a z for each of its value heads.
TensorPlace grouped_projections(const NameParts& parts, const ModelConfig& config) {
  const LinearConfig l = config.linear;
  const std::int64_t values = l.value_heads / l.key_heads * l.value_dim;
  const std::int64_t group = 2 * l.key_dim + 2 * values;
  const std::vector<std::int64_t> stored = {l.key_heads * group, config.width};
  const auto rows = [=](const at::Tensor& x, std::int64_t first, std::int64_t count) {
    return x.unflatten(0, {l.key_heads, group}).narrow(1, first, count).flatten(0, 1);
  };
  TensorPlace place;
  place.parts = {
      {.name = parts.layer + "linear_attn.in_proj_qkv.weight",
       .convert =
           [=](const at::Tensor& x) {
             return at::cat({rows(x, 0, l.key_dim), rows(x, l.key_dim, l.key_dim),
                             rows(x, 2 * l.key_dim, values)});
           },
       .stored = stored},
      {.name = parts.layer + "linear_attn.in_proj_z.weight",
       .convert = [=](const at::Tensor& x) { return rows(x, 2 * l.key_dim + values, values); },
       .stored = stored}};
  return place;
}

// Rows of each key head [b.. | a..].
TensorPlace grouped_rates(const NameParts& parts, const ModelConfig& config) {
  const LinearConfig l = config.linear;
  const std::int64_t each = l.value_heads / l.key_heads;
  const std::vector<std::int64_t> stored = {2 * l.value_heads, config.width};
  const auto part = [&](const char* module, std::int64_t first) {
    return TensorPlace{
        .name = parts.layer + module,
        .convert =
            [=](const at::Tensor& x) {
              return x.unflatten(0, {l.key_heads, 2 * each}).narrow(1, first, each).flatten(0, 1);
            },
        .stored = stored};
  };
  TensorPlace place;
  place.parts = {part("linear_attn.in_proj_b.weight", 0),
                 part("linear_attn.in_proj_a.weight", each)};
  return place;
}

void read_linear(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  LinearConfig& linear = config.linear;
  linear.key_heads = reader.integer_or({"linear_num_key_heads"}, 16, formats::kCountRange);
  linear.value_heads = reader.integer_or({"linear_num_value_heads"}, 32, formats::kCountRange);
  linear.key_dim = reader.integer_or({"linear_key_head_dim"}, 128, formats::kCountRange);
  linear.value_dim = reader.integer_or({"linear_value_head_dim"}, 128, formats::kCountRange);
  linear.kernel = reader.integer_or({"linear_conv_kernel_dim"}, 4, formats::kCountRange);
  const auto types = reading.layer_types({"full_attention", "linear_attention"});
  const std::int64_t interval =
      reader.integer_or({"full_attention_interval"}, 4, formats::kCountRange);
  for (const std::int64_t layer : all_layers(config)) {
    const bool of_rule = types ? (*types)[static_cast<std::size_t>(layer)] == "linear_attention"
                               : (layer + 1) % interval != 0;
    if (of_rule) linear.layers.push_back(layer);
  }
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "qwen3_next");
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 2, .head_dim = 256, .context = 32768}, 1e-6);
  read_gated_attention(reading);
  read_qwen_experts(reading, 512, 10, 512, true);
  config.experts.shared_width =
      reading.reader().integer_or({"shared_expert_intermediate_size"}, 512, formats::kCountRange);
  config.experts.shared_gate = true;
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.partial_rotary_factor = 0.25}, "half");
  const ModelConfig sizes = config;
  return reading.finish(
      [sizes](const std::string& name) { return gated_attention_place(sizes, name); });
}

}  // namespace
}  // namespace qwen3_next

void read_gated_attention(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  config.norm.unit_offset = true;
  config.attention.qk_norm = "head";
  config.attention.gate = "sigmoid";
  qwen3_next::read_linear(reading);
}

TensorPlace gated_attention_place(const ModelConfig& config, const std::string& name) {
  if (name.starts_with("mtp.")) return of_further_tokens(name);
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (parts.module == "self_attn.q_proj") return qwen3_next::gated_queries(parts, config);
  if (parts.module == "linear_attn.in_proj_qkvz") {
    return qwen3_next::grouped_projections(parts, config);
  }
  if (parts.module == "linear_attn.in_proj_ba") return qwen3_next::grouped_rates(parts, config);
  TensorPlace found = qwen_experts_place(config, name);
  if (parts.module == "linear_attn.conv1d") {
    const LinearConfig& l = config.linear;
    found.convert = [](const at::Tensor& x) { return x.squeeze(1); };
    found.stored = {2 * l.key_heads * l.key_dim + l.value_heads * l.value_dim, 1, l.kernel};
  }
  return found;
}

Family qwen3_next_family() { return {"qwen3_next", &qwen3_next::claims, &qwen3_next::translate}; }

}  // namespace phasescope::model
