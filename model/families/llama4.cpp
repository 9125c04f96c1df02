#include "model/families/llama4.h"

#include <algorithm>
#include <cmath>

#include "formats/utf8.h"
#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace llama4 {
namespace {

bool claims(const FamilyInput& input) {
  return is_of_type(input.config, {"llama4", "llama4_text"});
}

// Layers that turn nothing; an empty list means the default.
std::vector<std::int64_t> still_layers(FamilyReader& reading) {
  auto turning = reading.switches("no_rope_layers");
  if (turning && turning->empty()) turning.reset();
  return reading.still_layers(turning);
}

// The class goes by the truth of the value: published files have 4 for yes. null is no.
bool tunes_temperature(FamilyReader& reading) {
  constexpr const char* key = "attn_temperature_tuning";
  const formats::ConfigReader& reader = reading.reader();
  const Json* given = reader.raw(key);
  if (given == nullptr) return !reader.has_or_null(key);
  if (given->is_boolean()) return given->get<bool>();
  if (given->is_number_integer()) return *given != Json(0);
  reading.problem(key, "must be true, false or an integer, of which 0 means false, but is " +
                           formats::shortened(given->dump(), 60));
  return false;
}

void read_attention(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  AttentionConfig& attention = config.attention;
  const std::vector<std::int64_t> still = still_layers(reading);
  const auto types = reading.layer_types({"full_attention", "chunked_attention"});
  attention.chunk = reader.integer_or({"attention_chunk_size"}, 8192, formats::kCountRange);
  for (const std::int64_t layer : all_layers(config)) {
    const bool chunked = types ? (*types)[static_cast<std::size_t>(layer)] == "chunked_attention"
                               : !names_layer(still, layer);
    if (chunked) attention.local_layers.push_back(layer);
  }
  reading.take_rope_off(still);
  attention.qk_norm_after = reading.switch_or("use_qk_norm", true);
  const bool tuned = tunes_temperature(reading);
  if (still.empty() || !tuned) return;
  attention.temperature = reader.number_or({"attn_scale"}, 0.1, {.min = 0});
  attention.temperature_length = reader.number_or({"floor_scale"}, 8192, formats::kPositiveRange);
  attention.temperature_from = 1;
  attention.temperature_layers = still;
}

// moe_layers, or every interleave_moe_layer_step-th.
void read_experts(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  ExpertsConfig& experts = config.experts;
  experts.count = reader.integer_or({"num_local_experts"}, 16, formats::kCountRange);
  experts.per_token = reader.integer_or({"num_experts_per_tok"}, 1, formats::kCountRange);
  experts.width = experts.shared_width = config.ffn_width;
  experts.router = "sigmoid";
  experts.weighted_inputs = true;
  config.ffn_width = reader.integer_or({"intermediate_size_mlp"}, 16384, formats::kCountRange);
  const std::int64_t step =
      reader.integer_or({"interleave_moe_layer_step"}, 1, formats::kCountRange);
  if (const auto listed = reader.numbers({"moe_layers"}, {.min = 0, .max = 1e6})) {
    for (const double layer : *listed) {
      if (layer != std::floor(layer)) reading.problem("moe_layers", "must be numbers of layers");
      experts.layers.push_back(static_cast<std::int64_t>(layer));
    }
    std::ranges::sort(experts.layers);  // the class asks whether a layer is among them
    return;
  }
  for (const std::int64_t layer : all_layers(config)) {
    if ((layer + 1) % step == 0) experts.layers.push_back(layer);
  }
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (parts.module == "feed_forward.experts") return fused_experts(parts, config, true);
  TensorPlace found = llama_place(name);
  constexpr std::string_view theirs = ".feed_forward.";
  const std::size_t at = found.name.find(theirs);
  if (at != std::string::npos) found.name.replace(at, theirs.size(), ".mlp.");
  return found;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "llama4", text_part(input.config), text_prefix(input.config));
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .head_dim = 128, .context = 131072}, 1e-5);
  read_experts(reading);
  read_attention(reading);
  reading.read_head("lm_head.weight", false);
  const formats::RawRope rope = formats::read_rope(
      reading.reader(), {.theta = 5e5, .whole_when_default = true}, {}, config.head_dim);
  reading.require_whole_heads(rope);
  reading.set_rope(rope, "interleaved");
  const ModelConfig sizes = config;
  return reading.finish(of_trunk([sizes](const std::string& name) { return place(sizes, name); }));
}

}  // namespace
}  // namespace llama4

Family llama4_family() { return {"llama4", &llama4::claims, &llama4::translate}; }

}  // namespace phasescope::model
