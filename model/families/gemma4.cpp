#include "model/families/gemma4.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "formats/utf8.h"
#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/gemma.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace gemma4 {
namespace {

bool claims(const FamilyInput& input) {
  return is_of_type(input.config, {"gemma4", "gemma4_text"});
}

// Sizes of the layers that see everything, by either name.
struct FullSizes {
  std::int64_t head_dim = 0, kv_heads = 0;
  const char* head_dim_key = "global_head_dim";
};

// A size that the file has under both names, and not alike.
void note_clash(FamilyReader& reading, const char* key, std::int64_t outside, const char* inner,
                std::int64_t taken) {
  if (!reading.reader().has(key) || outside == taken) return;
  reading.warning(std::string("per_layer_config ") + inner + " " + std::to_string(taken) +
                  " is taken over " + key + " " + std::to_string(outside));
}

// A rope, or anything else that a single layer has in the file, would be another one in the model.
void check_per_layer_keys(FamilyReader& reading, const Json& given) {
  const std::vector<std::int64_t> layers = all_layers(reading.config());
  for (const auto& [number, own] : given.items()) {
    const std::string at = "per_layer_config." + formats::shortened(number, 80);
    const bool there = std::ranges::any_of(
        layers, [&](std::int64_t layer) { return number == std::to_string(layer); });
    if (!there) {
      reading.problem(at, "is the number of no layer");
    } else if (own.is_object()) {
      for (const auto& [key, value] : own.items()) {
        if (value.is_null() || key == "head_dim" || key == "num_key_value_heads") continue;
        reading.problem(at + "." + formats::shortened(key, 80),
                        "cannot be read: a layer has head_dim and num_key_value_heads of its own");
      }
    }
  }
}

// {"5": {"head_dim": 512}, ...}: what the layers that see everything have, and all of them alike.
FullSizes per_layer_sizes(FamilyReader& reading, const Json& given, FullSizes sizes) {
  const ModelConfig& config = reading.config();
  std::map<std::int64_t, FullSizes> by_layer;
  check_per_layer_keys(reading, given);
  for (const std::int64_t layer : all_layers(config)) {
    const auto found = given.find(std::to_string(layer));
    if (found == given.end()) continue;
    const formats::ConfigReader one(*found, reading.reader().problems(),
                                    "per_layer_config." + std::to_string(layer) + ".");
    by_layer[layer] = {
        one.integer_or({"head_dim"}, config.head_dim, formats::kCountRange),
        one.integer_or({"num_key_value_heads"}, config.kv_heads, formats::kCountRange)};
  }
  bool alike = true;
  for (const std::int64_t layer : all_layers(config)) {
    alike = alike && by_layer.contains(layer) != config.is_local(layer);
  }
  for (const auto& [layer, own] : by_layer) {
    sizes = by_layer.begin()->second;
    alike = alike && own.head_dim == sizes.head_dim && own.kv_heads == sizes.kv_heads;
  }
  if (!alike) {
    reading.problem(
        "per_layer_config",
        "can be read where it gives the layers with full attention the same sizes alone");
  }
  return sizes;
}

// Layers that see everything have a number of key heads of their own where values are made of the
// keys; elsewhere the class does not look at it.
std::int64_t global_kv_heads(FamilyReader& reading) {
  constexpr const char* kKey = "num_global_key_value_heads";
  const formats::ConfigReader& reader = reading.reader();
  const std::int64_t own = reading.config().kv_heads;
  const std::int64_t given = reader.integer_or({kKey}, own, formats::kCountRange);
  if (given == own || reader.boolean_or({"attention_k_eq_v"}, false)) return given;
  reading.warning(std::string(kKey) + " " + std::to_string(given) +
                  " is not read: attention_k_eq_v is not true");
  return own;
}

// config's own sizes become those of the layers that see everything, the others stand in a group.
// Gives the key that their head size comes from.
const char* read_sizes(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  FullSizes full{reader.integer_or({"global_head_dim"}, 512, formats::kCountRange),
                 config.kv_heads};
  const Json* given = reader.raw("per_layer_config");
  if (given == nullptr ? reading.has_key("per_layer_config") : given->empty()) {
    full.head_dim = config.head_dim;  // said to be none: the class looks at global_head_dim no more
  } else if (given != nullptr && !given->is_object()) {
    reading.problem("per_layer_config", "must have an object with sizes for each layer's number");
  } else if (given != nullptr) {
    const std::int64_t head_dim = full.head_dim;
    const std::int64_t kv_heads =
        reader.integer_or({"num_global_key_value_heads"}, config.kv_heads, formats::kCountRange);
    full = per_layer_sizes(reading, *given, full);
    full.head_dim_key = "per_layer_config";
    note_clash(reading, "global_head_dim", head_dim, "head_dim", full.head_dim);
    note_clash(reading, "num_global_key_value_heads", kv_heads, "num_key_value_heads",
               full.kv_heads);
  } else {
    full.kv_heads = global_kv_heads(reading);
  }
  const std::vector<std::int64_t>& local = config.attention.local_layers;
  if (!local.empty()) {
    config.layer_groups.push_back(
        {.layers = local, .kv_heads = config.kv_heads, .head_dim = config.head_dim});
  }
  config.head_dim = full.head_dim, config.kv_heads = full.kv_heads;
  return full.head_dim_key;
}

// Full layers may have no values of their own, and layers without keys twice the MLP.
void read_values_of_keys(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  AttentionConfig& attention = config.attention;
  const bool from_key = reader.boolean_or({"attention_k_eq_v"}, false);
  for (const std::int64_t layer : all_layers(config)) {
    const bool own = !names_layer(attention.shared_layers, layer);
    if (from_key && own && !config.is_local(layer)) {
      attention.value_from_key_layers.push_back(layer);
    }
  }
  if (!attention.shared_layers.empty() && reader.boolean_or({"use_double_wide_mlp"}, false)) {
    config.layer_groups.push_back(
        {.layers = attention.shared_layers, .ffn_width = 2 * config.ffn_width});
  }
}

void read_experts(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  if (!reader.boolean_or({"enable_moe_block"}, false)) return;
  ExpertsConfig& experts = reading.config().experts;
  experts.count = reader.required_integer({"num_experts"});
  experts.per_token = reader.required_integer({"top_k_experts"});
  experts.width = reader.required_integer({"moe_intermediate_size"});
  experts.normalised = experts.beside = true;
  experts.layers = all_layers(reading.config());
}

const std::map<std::string, std::string>& other_names() {
  static const std::map<std::string, std::string> names = {
      {"post_feedforward_layernorm_1", "mlp.alone_output_layernorm"},
      {"pre_feedforward_layernorm_2", "mlp.experts_layernorm"},
      {"post_feedforward_layernorm_2", "mlp.experts_output_layernorm"},
      {"router.proj", "mlp.router"},
  };
  return names;
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (parts.module == "experts") return fused_experts(parts, config);
  constexpr std::string_view scalar = "layer_scalar";  // a buffer, whose name has no other part
  if (name.ends_with(scalar)) {
    return {llama_place(name.substr(0, name.size() - scalar.size()) + "layer_scale").name};
  }
  if (name.ends_with(".router.scale")) return {parts.layer + "mlp.router.scale"};
  if (name.ends_with(".router.per_expert_scale")) {
    return {parts.layer + "mlp.router.expert_scale"};
  }
  if (const auto found = other_names().find(parts.module); found != other_names().end()) {
    return {parts.layer + found->second + parts.ending};
  }
  return gemma_n_place(config, name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gemma4_text", text_part(input.config), text_prefix(input.config));
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_gemma_n(reading, {.sizes = {.kv_heads = 4, .head_dim = 256, .context = 131072}});
  config.layer_scale = true;
  // Tokens of images would see both sides; those of a text do not.
  const Json* both = reader.raw("use_bidirectional_attention");
  if (both != nullptr && *both != false && *both != "vision") {
    reading.problem("use_bidirectional_attention", "attention to both sides cannot be read");
  }
  AttentionConfig& attention = config.attention;
  reading.read_local_layers(
      [](std::int64_t layer, std::int64_t last) { return (layer + 1) % 6 != 0 && layer != last; },
      config.layers - 1);
  std::erase(attention.local_layers, config.layers - 1);  // the library has the last one see all
  const std::int64_t local_head_dim = config.head_dim;
  const char* full_head_dim = read_sizes(reading);
  read_values_of_keys(reading);
  read_experts(reading);
  reading.read_head("lm_head.weight", true);
  // Where nothing is said the ropes are the class's, in which all of a head makes pairs and a
  // quarter of them turns.
  const Json* said = reader.raw("rope_parameters");
  const bool unsaid = said == nullptr || said->empty();
  const formats::RopeDefaults full_rope{
      .theta = 1e6, .partial_rotary_factor = unsaid ? 1.0 : 0.25, .whole_when_default = true};
  formats::RawRope full = reading.rope_of_type(
      "full_attention", full_rope, reading.channels_in_pairs(full_head_dim, config.head_dim));
  if (unsaid) {
    full.type = "proportional";
    if (full.partial_rotary_factor == 1) full.partial_rotary_factor = 0.25;
  }
  const formats::RawRope sliding = reading.rope_of_type(
      "sliding_attention", {.theta = 1e4, .whole_when_default = true}, local_head_dim);
  reading.set_rope(full, "half");
  reading.note_clashes(sliding);
  config.local_encoding = rope_encoding(sliding, "half", config.context);
  const ModelConfig sizes = config;
  return reading.finish(of_trunk([sizes](const std::string& name) { return place(sizes, name); }));
}

}  // namespace
}  // namespace gemma4

Family gemma4_family() { return {"gemma4_text", &gemma4::claims, &gemma4::translate}; }

}  // namespace phasescope::model
