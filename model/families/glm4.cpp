#include "model/families/glm4.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace glm4 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"glm4"}); }

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (parts.module == "mlp.gate_up_proj") {
    return fused_rows(parts, config.width,
                      {{"mlp.gate_proj", config.ffn_width}, {"mlp.up_proj", config.ffn_width}});
  }
  if (parts.module == "post_self_attn_layernorm") {
    return {parts.layer + "self_attn.output_layernorm" + parts.ending};
  }
  if (parts.module == "post_mlp_layernorm") {
    return {parts.layer + "mlp.output_layernorm" + parts.ending};
  }
  return llama_place(name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "glm4");
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 2, .head_dim = 128, .context = 131072}, 1.5625e-7);
  AttentionConfig& attention = config.attention;
  attention.q_bias = reading.switch_or("attention_bias", true);
  attention.k_bias = attention.v_bias = attention.q_bias;
  attention.o_bias = false;
  config.norm.placement = "sandwich";
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.partial_rotary_factor = 0.5}, "interleaved");
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace glm4

Family glm4_family() { return {"glm4", &glm4::claims, &glm4::translate}; }

}  // namespace phasescope::model
