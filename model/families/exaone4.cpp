#include "model/families/exaone4.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/olmo2.h"

namespace phasescope::model {
namespace exaone4 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"exaone4"}); }

// The pattern is a number (every n-th layer sees all) or a word with L for a window in each place,
// of which the last layer sees all whatever the word has there.
bool has_window(const Json& pattern, std::int64_t layer, std::int64_t layers) {
  if (pattern.is_string() && !pattern.get<std::string>().empty()) {
    const std::string word = pattern.get<std::string>();
    return layer != layers - 1 && word[static_cast<std::size_t>(layer) % word.size()] == 'L';
  }
  const std::int64_t every = pattern.is_number_integer() ? pattern.get<std::int64_t>() : 4;
  return every > 0 && (layer + 1) % every != 0;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "exaone4");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  AttentionConfig& attention = config.attention;
  read_llama_part(reading, {.kv_heads = 32, .context = 2048}, 1e-5);
  config.norm.placement = "output";
  attention.qk_norm = "head";
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  const bool without = reading.has_key("sliding_window") && !reader.has("sliding_window");
  const auto types = reading.layer_types({"full_attention", "sliding_attention"});
  if (without) return reading.finish(&output_norm_place);
  attention.window = reader.integer_or({"sliding_window"}, 4096, formats::kCountRange);
  const Json* given = reader.raw("sliding_window_pattern");
  const Json pattern = given != nullptr ? *given : Json(4);
  std::vector<std::int64_t> still;
  for (const std::int64_t layer : all_layers(config)) {
    const bool local = types ? (*types)[static_cast<std::size_t>(layer)] == "sliding_attention"
                             : has_window(pattern, layer, config.layers);
    (local ? attention.local_layers : still).push_back(layer);
  }
  if (attention.local_layers.empty()) attention.window = 0;
  reading.take_rope_off(still);
  return reading.finish(&output_norm_place);
}

}  // namespace
}  // namespace exaone4

Family exaone4_family() { return {"exaone4", &exaone4::claims, &exaone4::translate}; }

}  // namespace phasescope::model
