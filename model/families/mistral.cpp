#include "model/families/mistral.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace mistral {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "mistral";
}

constexpr std::int64_t kDefaultWindow = 4096;  // where the file does not say; null says none

bool every_layer(std::int64_t, std::int64_t) { return true; }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "mistral");
  read_llama_sizes(reading.reader(), reading.config(), {.kv_heads = 8, .context = 131072});
  reading.config().mlp.activation = reading.activation({"hidden_act"}, "silu");
  const std::int64_t fallback = input.config.contains("sliding_window") ? 0 : kDefaultWindow;
  reading.config().attention.window =
      reading.reader().integer_or({"sliding_window"}, fallback, formats::kCountRange);
  if (reading.config().attention.window > 0) reading.read_local_layers(&every_layer, 0);
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace mistral

Family mistral_family() { return {"mistral", &mistral::claims, &mistral::translate}; }

}  // namespace phasescope::model
