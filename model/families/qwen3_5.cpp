#include "model/families/qwen3_5.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/qwen3_moe.h"
#include "model/families/qwen3_next.h"

namespace phasescope::model {
namespace qwen3_5 {
namespace {

bool claims(const FamilyInput& input) {
  return is_of_type(input.config, {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"});
}

Translation translate(const FamilyInput& input) {
  const Json& text = text_part(input.config);
  FamilyReader reading(input, "qwen3_5", text, text_prefix(input.config));
  ModelConfig& config = reading.config();
  const bool experts = is_of_type(text, {"qwen3_5_moe", "qwen3_5_moe_text"});
  read_llama_part(
      reading, {.ffn_width = 12288, .kv_heads = experts ? 2 : 4, .head_dim = 256, .context = 32768},
      1e-6);
  read_gated_attention(reading);
  if (experts) {
    read_qwen_experts(reading, 256, 8, 512, true);
    config.experts.shared_width =
        reading.reader().integer_or({"shared_expert_intermediate_size"}, 512, formats::kCountRange);
    config.experts.shared_gate = true;
  }
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.partial_rotary_factor = 0.25,
                     .axes = formats::RopeAxes::interleaved,
                     .mrope_section = {11, 11, 10}},
                    "half");
  const ModelConfig sizes = config;
  return reading.finish(
      of_trunk([sizes](const std::string& name) { return gated_attention_place(sizes, name); }));
}

}  // namespace
}  // namespace qwen3_5

Family qwen3_5_family() { return {"qwen3_5", &qwen3_5::claims, &qwen3_5::translate}; }

}  // namespace phasescope::model
