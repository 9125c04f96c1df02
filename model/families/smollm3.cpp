#include "model/families/smollm3.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace smollm3 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"smollm3"}); }

constexpr double kTheta = 2e6;

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "smollm3");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 4, .context = 32768}, 1e-6);
  reading.read_head("lm_head.weight", true);
  reading.read_rope({.theta = kTheta, .whole_when_default = true}, "half");
  const std::vector<std::int64_t> still = reading.still_layers(reading.switches("no_rope_layers"));
  reading.take_rope_off(still);
  const std::int64_t window = reader.integer_or({"sliding_window"}, 0, formats::kCountRange);
  const bool slides = reader.boolean_or({"use_sliding_window"}, false);
  if (window > 0 && slides) {
    config.attention.window = window;
    if (reader.has("layer_types")) {
      reading.read_local_layers([](std::int64_t, std::int64_t) { return false; }, 0);
    } else {
      config.attention.local_layers = still;
    }
  }
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace smollm3

Family smollm3_family() { return {"smollm3", &smollm3::claims, &smollm3::translate}; }

}  // namespace phasescope::model
