#include "model/families/laguna.h"

#include <map>

#include "formats/utf8.h"
#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace laguna {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"laguna"}); }

// config.heads is the largest number, so that whoever counts heads by the model has room for all.
void read_heads(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  const auto given =
      reading.reader().numbers({"num_attention_heads_per_layer"}, {.min = 1, .max = 1e5});
  if (!given) return;
  if (static_cast<std::int64_t>(given->size()) != config.layers) {
    return reading.problem("num_attention_heads_per_layer",
                           "has " + std::to_string(given->size()) + " entries, but there are " +
                               std::to_string(config.layers) + " layers");
  }
  std::map<std::int64_t, std::vector<std::int64_t>> by_heads;
  for (std::size_t layer = 0; layer < given->size(); ++layer) {
    by_heads[static_cast<std::int64_t>((*given)[layer])].push_back(
        static_cast<std::int64_t>(layer));
  }
  config.heads = by_heads.rbegin()->first;
  for (const auto& [heads, layers] : by_heads) {
    if (heads != config.heads) config.layer_groups.push_back({.layers = layers, .heads = heads});
  }
}

// true (which the class has) or "per-head": one gate a head; false and "per-element": one a
// channel.
void read_gate(FamilyReader& reading) {
  AttentionConfig& attention = reading.config().attention;
  const Json* gating = reading.reader().raw("gating");
  attention.gate = "softplus";
  attention.gate_by_head = gating == nullptr || *gating == true || *gating == "per-head";
  if (attention.gate_by_head || *gating == false || *gating == "per-element") return;
  reading.problem("gating", formats::shortened(gating->dump()) +
                                " is not known; known: true, false, per-head, per-element");
}

void read_experts(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  ExpertsConfig& experts = config.experts;
  experts.count = reader.integer_or({"num_experts"}, 256, formats::kCountRange);
  experts.per_token = reader.integer_or({"num_experts_per_tok"}, 8, formats::kCountRange);
  experts.width = reader.integer_or({"moe_intermediate_size"}, 512, formats::kCountRange);
  experts.shared_width = reader.integer_or({"shared_expert_intermediate_size"}, 512, {.min = 0});
  experts.scale = reader.number_or({"moe_routed_scaling_factor"}, 1.0, formats::kPositiveRange);
  experts.router_cap = reader.number_or({"moe_router_logit_softcapping"}, 0, {.min = 0});
  experts.router = "sigmoid";
  experts.choice_bias = experts.normalised = true;
  reading.refuse("moe_apply_router_weight_on_input", "experts whose inputs are weighted");
  const auto kinds = reading.layer_types({"dense", "sparse"}, "mlp_layer_types");
  for (const std::int64_t layer : all_layers(config)) {
    const bool sparse = kinds ? (*kinds)[static_cast<std::size_t>(layer)] == "sparse" : layer > 0;
    if (sparse) experts.layers.push_back(layer);
  }
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (is_fused_experts(parts)) return fused_experts(parts, config);
  if (parts.module == "mlp.experts") return {parts.layer + "mlp.router.choice_bias"};
  if (parts.module == "mlp.gate") return {parts.layer + "mlp.router" + parts.ending};
  if (parts.module == "self_attn.g_proj") {
    return {parts.layer + "self_attn.output_gate" + parts.ending};
  }
  return llama_place(name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "laguna");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .head_dim = 128, .context = 131072}, 1e-6);
  read_heads(reading);
  read_gate(reading);
  config.attention.qk_norm = "head";
  config.attention.window = reader.integer_or({"sliding_window"}, 512, formats::kCountRange);
  reading.read_local_layers([](std::int64_t, std::int64_t) { return false; }, 0);
  read_experts(reading);
  reading.read_head("lm_head.weight", false);
  const formats::RawRope full = reading.rope_of_type(
      "full_attention", {.theta = 5e5, .partial_rotary_factor = 0.5}, config.head_dim);
  const formats::RawRope sliding = reading.rope_of_type("sliding_attention", {}, config.head_dim);
  reading.set_rope(full, "half");
  reading.note_clashes(sliding);
  config.local_encoding = rope_encoding(sliding, "half", config.context);
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace laguna

Family laguna_family() { return {"laguna", &laguna::claims, &laguna::translate}; }

}  // namespace phasescope::model
