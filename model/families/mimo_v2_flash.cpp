#include "model/families/mimo_v2_flash.h"

#include <string_view>

#include "formats/utf8.h"
#include "model/families/deepseek_v2.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace mimo_v2_flash {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"mimo_v2_flash"}); }

constexpr double kPart = 0.334;

// One number a layer, from a list of the hub's own files; empty where there is none.
std::vector<double> by_layer(FamilyReader& reading, const char* key) {
  const auto given = reading.reader().raw(key) != nullptr && reading.reader().raw(key)->is_array()
                         ? reading.reader().numbers({key}, {.min = 0, .max = 1})
                         : std::nullopt;
  if (!given) return {};
  if (static_cast<std::int64_t>(given->size()) == reading.config().layers) return *given;
  reading.problem(key, "has " + std::to_string(given->size()) + " entries, but there are " +
                           std::to_string(reading.config().layers) + " layers");
  return {};
}

// By layer_types, or the hub's own files' list, or their block whose last layer sees all; without
// any of them the first layer and every sixth see all.
void read_kinds(FamilyReader& reading) {
  std::vector<double> listed = by_layer(reading, "hybrid_layer_pattern");
  const auto block = reading.reader().integer({"hybrid_block_size"}, formats::kCountRange);
  if (block && !reading.reader().has("hybrid_layer_pattern")) {
    for (const std::int64_t layer : all_layers(reading.config())) {
      listed.push_back((layer + 1) % *block != 0 ? 1 : 0);
    }
  }
  if (listed.empty() || reading.reader().has("layer_types")) {
    return reading.read_local_layers(
        [](std::int64_t layer, std::int64_t) { return layer != 0 && (layer + 1) % 6 != 0; }, 0);
  }
  for (const std::int64_t layer : all_layers(reading.config())) {
    if (listed[static_cast<std::size_t>(layer)] != 0) {
      reading.config().attention.local_layers.push_back(layer);
    }
  }
}

void read_windows(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  AttentionConfig& attention = config.attention;
  // The older name counts the keys before the query's own, as SGLang, which the model came with,
  // has them; the published file has 128 under both names, and other programs see 128 keys.
  const auto before =
      reader.integer({"sliding_window_size"}, {.min = 0, .max = formats::kCountRange.max - 1});
  attention.window =
      before ? *before + 1 : reader.integer_or({"sliding_window"}, 129, formats::kCountRange);
  if (before && reader.has("sliding_window") &&
      *reader.raw("sliding_window") != Json(attention.window)) {
    reading.warning("sliding_window_size " + std::to_string(*before) +
                    ", of the keys before the query's own, is taken over sliding_window " +
                    formats::shortened(reader.raw("sliding_window")->dump(), 60) + ": layers see " +
                    std::to_string(attention.window) + " keys, as in transformers 5.23");
  }
  read_kinds(reading);
  attention.sink_layers = attention.local_layers;
  if (attention.local_layers.empty()) return;
  const std::int64_t keys =
      reader.integer_or({"swa_num_key_value_heads"}, 2 * config.kv_heads, formats::kCountRange);
  config.layer_groups.push_back({.layers = attention.local_layers, .kv_heads = keys});
}

void read_experts(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  ExpertsConfig& experts = config.experts;
  experts.count =
      reader.integer_or({"n_routed_experts", "num_local_experts"}, 256, formats::kCountRange);
  experts.per_token = reader.integer_or({"num_experts_per_tok"}, 8, formats::kCountRange);
  experts.width = reader.integer_or({"moe_intermediate_size"}, 2048, formats::kCountRange);
  experts.scale = reader.number_or({"routed_scaling_factor"}, 1.0, formats::kPositiveRange);
  experts.normalised = reading.switch_or("norm_topk_prob", true);
  experts.router = "sigmoid";
  experts.choice_bias = experts.groups_by_two = true;
  experts.groups = reader.integer_or({"n_group"}, 1, formats::kCountRange);
  experts.groups_per_token = reader.integer_or({"topk_group"}, 1, formats::kCountRange);
  const auto kinds = reading.layer_types({"dense", "sparse"}, "mlp_layer_types");
  const std::vector<double> listed = by_layer(reading, "moe_layer_freq");
  for (const std::int64_t layer : all_layers(config)) {
    const auto n = static_cast<std::size_t>(layer);
    const bool sparse = kinds            ? (*kinds)[n] == "sparse"
                        : listed.empty() ? layer > 0
                                         : listed[n] != 0;
    if (sparse) experts.layers.push_back(layer);
  }
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  if (name.starts_with("model.mtp.")) return of_further_tokens(name);
  TensorPlace found = deepseek_place(config, name);
  constexpr std::string_view theirs = ".attention_sink_bias";
  if (found.name.ends_with(theirs)) {
    found.name.replace(found.name.size() - theirs.size(), theirs.size(), ".sinks");
  }
  return found;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "mimo_v2_flash");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 4, .head_dim = 192, .context = 131072}, 1e-5);
  config.norm_eps =  // the hub's own files have the second name
      reader.number_or({"rms_norm_eps", "layernorm_epsilon"}, 1e-5, formats::kPositiveRange);
  config.attention.value_dim = reader.integer_or({"v_head_dim"}, 128, formats::kCountRange);
  config.attention.value_scale =
      reader.number_or({"attention_value_scale"},
                       reader.has_or_null("attention_value_scale") ? 1.0 : 0.707,  // null is none
                       formats::kPositiveRange);
  read_windows(reading);
  read_experts(reading);
  reading.read_head("lm_head.weight", false);
  const formats::RawRope full = reading.rope_of_type(
      "full_attention", {.theta = 5e6, .partial_rotary_factor = kPart}, config.head_dim, kPart);
  const formats::RawRope sliding = reading.rope_of_type(
      "sliding_attention", {.theta = 1e4, .partial_rotary_factor = kPart}, config.head_dim, kPart);
  reading.set_rope(full, "half");
  reading.note_clashes(sliding);
  config.local_encoding = rope_encoding(sliding, "half", config.context);
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace mimo_v2_flash

Family mimo_v2_flash_family() {
  return {"mimo_v2_flash", &mimo_v2_flash::claims, &mimo_v2_flash::translate};
}

}  // namespace phasescope::model
