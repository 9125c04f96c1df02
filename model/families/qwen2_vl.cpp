#include "model/families/qwen2_vl.h"

#include "model/families/llama.h"
#include "model/families/qwen2.h"

namespace phasescope::model {
namespace qwen2_vl {
namespace {

// Qwen2.5-VL has the same language model.
bool claims(const FamilyInput& input) {
  return is_of_type(input.config, {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"});
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "qwen2_vl", text_part(input.config), text_prefix(input.config));
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .context = 32768}, 1e-5);
  config.attention.q_bias = config.attention.k_bias = config.attention.v_bias = true;
  config.attention.o_bias = false;
  read_qwen_windows(reading, 80);
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.theta = 1e6, .whole_when_default = true, .axes = formats::RopeAxes::blocks},
                    "half");
  return reading.finish(of_trunk(&llama_place));
}

}  // namespace
}  // namespace qwen2_vl

Family qwen2_vl_family() { return {"qwen2_vl", &qwen2_vl::claims, &qwen2_vl::translate}; }

}  // namespace phasescope::model
