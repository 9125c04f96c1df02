#include "model/families/qwen3_moe.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/qwen2.h"

namespace phasescope::model {
namespace qwen3_moe {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"qwen3_moe"}); }

// All layers slide, or none: the class asks for no max_window_layers, and looks at no layer_types.
void read_window(FamilyReader& reading) {
  read_qwen_windows(reading, 0);
  ModelConfig& config = reading.config();
  if (config.attention.window == 0) return;
  std::vector<std::int64_t>& local = config.attention.local_layers;
  if (local.size() == all_layers(config).size()) return;
  reading.warning(
      "max_window_layers and layer_types are not read by the class: every layer slides");
  local = all_layers(config);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "qwen3_moe");
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 4, .context = 32768}, 1e-6);
  config.attention.qk_norm = "head";
  read_qwen_experts(reading, 128, 8, 768, false);
  read_window(reading);
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  const ModelConfig sizes = config;
  return reading.finish(
      [sizes](const std::string& name) { return qwen_experts_place(sizes, name); });
}

}  // namespace
}  // namespace qwen3_moe

void read_qwen_experts(FamilyReader& reading, std::int64_t count, std::int64_t per_token,
                       std::int64_t width, bool normalised) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  ExpertsConfig& experts = config.experts;
  experts.count = reader.integer_or({"num_experts", "num_local_experts"}, count, {.min = 0});
  experts.per_token = reader.integer_or({"num_experts_per_tok"}, per_token, formats::kCountRange);
  experts.width = reader.integer_or({"moe_intermediate_size"}, width, formats::kCountRange);
  experts.normalised = reading.switch_or("norm_topk_prob", normalised);
  const std::int64_t step = reader.integer_or({"decoder_sparse_step"}, 1, formats::kCountRange);
  const auto dense = reader.numbers({"mlp_only_layers"}, {.min = 0});
  if (experts.count == 0) return;
  for (const std::int64_t layer : all_layers(config)) {
    const bool plain = dense && std::find(dense->begin(), dense->end(),
                                          static_cast<double>(layer)) != dense->end();
    if (!plain && (layer + 1) % step == 0) experts.layers.push_back(layer);
  }
}

TensorPlace qwen_experts_place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (is_fused_experts(parts)) return fused_experts(parts, config);
  TensorPlace found = llama_place(name);
  constexpr std::string_view router = ".mlp.gate.";
  const std::size_t at = found.name.find(router);
  if (at != std::string::npos) found.name.replace(at, router.size(), ".mlp.router.");
  return found;
}

Family qwen3_moe_family() { return {"qwen3_moe", &qwen3_moe::claims, &qwen3_moe::translate}; }

}  // namespace phasescope::model
