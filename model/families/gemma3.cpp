#include "model/families/gemma3.h"

#include "model/families/gemma.h"

namespace phasescope::model {
namespace gemma3 {
namespace {

// The text part's configuration: the whole file, or its text_config.
const Json& text_config(const FamilyInput& input) {
  return input.config.contains("text_config") ? input.config["text_config"] : input.config;
}

bool claims(const FamilyInput& input) {
  const Json type = input.config.value("model_type", Json());
  return type == "gemma3_text" || (type == "gemma3" && input.config.contains("text_config"));
}

// Gemma 3's published files have a text_config of few keys.
const LlamaDefaults kDefaults = {.vocab_size = 262208,
                                 .width = 2304,
                                 .layers = 26,
                                 .heads = 8,
                                 .ffn_width = 9216,
                                 .kv_heads = 4,
                                 .head_dim = 256,
                                 .context = 131072};

// Every n-th layer sees everything.
bool but_every_nth(std::int64_t layer, std::int64_t n) { return (layer + 1) % n != 0; }

TensorPlace place(const std::string& given) {
  std::string name = given;
  for (const char* prefix : {"model.language_model.", "language_model."}) {
    if (!name.starts_with(prefix)) continue;
    name = name.substr(std::string(prefix).size());
    break;
  }
  if (name.find("vision_tower.") != std::string::npos ||
      name.find("multi_modal_projector.") != std::string::npos) {
    return {.name = given, .ignored = true, .why = "belongs to the image part, which is not read"};
  }
  return gemma2_place(name);
}

Translation translate(const FamilyInput& input) {
  const bool nested = input.config.contains("text_config");
  FamilyReader reading(input, "gemma3_text", text_config(input), nested ? "text_config." : "");
  read_gemma(reading, kDefaults);
  read_gemma2(reading, 0, 0);
  ModelConfig& config = reading.config();
  if (config.attention.soft_cap != 0) {
    reading.quirk("attn_logit_softcapping is not read by the library: scores have no cap");
    config.attention.soft_cap = 0;
  }
  config.attention.qk_norm = "head";
  reading.refuse("use_bidirectional_attention", "attention to both sides");
  const std::int64_t pattern = reading.reader().integer_or(
      {"sliding_window_pattern", "_sliding_window_pattern"}, 6, formats::kCountRange);
  reading.read_local_layers(&but_every_nth, pattern);
  read_gemma3_ropes(reading);
  return reading.finish(&place);
}

}  // namespace
}  // namespace gemma3

Family gemma3_family() { return {"gemma3_text", &gemma3::claims, &gemma3::translate}; }

}  // namespace phasescope::model
