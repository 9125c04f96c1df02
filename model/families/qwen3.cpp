#include "model/families/qwen3.h"

#include "model/families/llama.h"
#include "model/families/qwen2.h"

namespace phasescope::model {
namespace qwen3 {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "qwen3";
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "qwen3");
  ModelConfig& config = reading.config();
  read_llama_sizes(reading.reader(), config, {.kv_heads = 32, .head_dim = 128, .context = 32768});
  config.mlp.activation = reading.activation({"hidden_act"}, "silu");
  config.attention.qk_norm = "head";
  read_qwen_windows(reading);
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace qwen3

Family qwen3_family() { return {"qwen3", &qwen3::claims, &qwen3::translate}; }

}  // namespace phasescope::model
