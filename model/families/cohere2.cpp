#include "model/families/cohere2.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace cohere2 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"cohere2"}); }

bool but_every_nth(std::int64_t layer, std::int64_t n) { return (layer + 1) % n != 0; }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "cohere2");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.context = 8192}, 1e-5);
  reading.layer_norm({"layer_norm_eps"}, 1e-5);
  config.norm.bias = false;
  config.residual = "parallel_shared";
  config.head.scale = reader.number_or({"logit_scale"}, 0.0625, formats::kPositiveRange);
  config.attention.window = reader.integer_or({"sliding_window"}, 4096, formats::kCountRange);
  const std::int64_t pattern = reader.integer_or(
      {"sliding_window_pattern", "_sliding_window_pattern"}, 4, formats::kCountRange);
  reading.read_local_layers(&but_every_nth, pattern);
  std::vector<std::int64_t> still;
  for (const std::int64_t layer : all_layers(config)) {
    if (!config.is_local(layer)) still.push_back(layer);
  }
  reading.read_head("lm_head.weight", true);
  reading.read_rope(kWholeHeads, "interleaved");
  reading.take_rope_off(still);
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace cohere2

Family cohere2_family() { return {"cohere2", &cohere2::claims, &cohere2::translate}; }

}  // namespace phasescope::model
