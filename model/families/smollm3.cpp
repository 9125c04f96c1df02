#include "model/families/smollm3.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace smollm3 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"smollm3"}); }

constexpr double kTheta = 2e6;

// no_rope_layers has 1 for a layer that turns; without it every n-th turns nothing.
std::vector<std::int64_t> still_layers(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  const std::int64_t layers = reading.config().layers;
  const auto given = reader.numbers({"no_rope_layers"}, {.min = 0, .max = 1});
  const std::int64_t interval =
      reader.integer_or({"no_rope_layer_interval"}, 4, formats::kCountRange);
  if (given && static_cast<std::int64_t>(given->size()) != layers) {
    reading.problem("no_rope_layers", "has " + std::to_string(given->size()) +
                                          " entries, but there are " + std::to_string(layers) +
                                          " layers");
    return {};
  }
  std::vector<std::int64_t> still;
  for (const std::int64_t layer : all_layers(reading.config())) {
    const bool turns =
        given ? (*given)[static_cast<std::size_t>(layer)] != 0 : (layer + 1) % interval != 0;
    if (!turns) still.push_back(layer);
  }
  return still;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "smollm3");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 4, .context = 32768}, 1e-6);
  reading.read_head("lm_head.weight", true);
  reading.read_rope({.theta = kTheta, .whole_when_default = true}, "half");
  const std::vector<std::int64_t> still = still_layers(reading);
  reading.take_rope_off(still);
  const std::int64_t window = reader.integer_or({"sliding_window"}, 0, formats::kCountRange);
  if (window > 0 && reader.boolean_or({"use_sliding_window"}, false)) {
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
