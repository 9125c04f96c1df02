#include "model/families/qwen3_vl.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace qwen3_vl {
namespace {

bool claims(const FamilyInput& input) { return names_trunk(input, {"qwen3_vl", "qwen3_vl_text"}); }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "qwen3_vl", text_part(input.config), text_prefix(input.config));
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 32, .head_dim = 128, .context = 128000}, 1e-6);
  config.attention.qk_norm = "head";
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.theta = 5e5, .whole_when_default = true}, "half");
  return reading.finish(of_trunk(&llama_place));
}

}  // namespace
}  // namespace qwen3_vl

Family qwen3_vl_family() { return {"qwen3_vl", &qwen3_vl::claims, &qwen3_vl::translate}; }

}  // namespace phasescope::model
