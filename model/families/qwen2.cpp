#include "model/families/qwen2.h"

#include "model/families/llama.h"

namespace phasescope::model {
namespace qwen2 {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "qwen2";
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "qwen2");
  ModelConfig& config = reading.config();
  read_llama_sizes(reading.reader(), config, {.kv_heads = 32, .context = 32768});
  config.mlp.activation = reading.activation({"hidden_act"}, "silu");
  config.attention.q_bias = config.attention.k_bias = config.attention.v_bias = true;
  config.attention.o_bias = false;
  read_qwen_windows(reading);
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&llama_place);
}

bool from_layer(std::int64_t layer, std::int64_t first) { return layer >= first; }

}  // namespace
}  // namespace qwen2

void read_qwen_windows(FamilyReader& reading, std::int64_t first) {
  const formats::ConfigReader& reader = reading.reader();
  const std::int64_t window = reader.integer_or({"sliding_window"}, 4096, formats::kCountRange);
  if (!reader.boolean_or({"use_sliding_window"}, false)) {
    if (reader.has("sliding_window")) {
      reading.quirk("sliding_window " + std::to_string(window) +
                    " is not in force: use_sliding_window is false");
    }
    return;
  }
  if (reading.has_key("sliding_window") && !reader.has("sliding_window")) return;  // null is none
  reading.config().attention.window = window;
  reading.read_local_layers(&qwen2::from_layer, reader.integer_or({"max_window_layers"}, first));
}

Family qwen2_family() { return {"qwen2", &qwen2::claims, &qwen2::translate}; }

}  // namespace phasescope::model
