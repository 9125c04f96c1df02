#include "model/families/qwen3_vl.h"

#include <ATen/ATen.h>

#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/qwen3_moe.h"

namespace phasescope::model {
namespace qwen3_vl {
namespace {

bool claims(const FamilyInput& input) {
  return is_of_type(input.config,
                    {"qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text"});
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  return parts.module == "mlp.experts" ? fused_experts(parts, config, true)
                                       : qwen_experts_place(config, name);
}

Translation translate(const FamilyInput& input) {
  const Json& text = text_part(input.config);
  FamilyReader reading(input, "qwen3_vl", text, text_prefix(input.config));
  ModelConfig& config = reading.config();
  const bool experts = is_of_type(text, {"qwen3_vl_moe", "qwen3_vl_moe_text"});
  if (experts) {
    read_llama_part(reading, {.kv_heads = 16, .context = 128000}, 1e-6);
    read_qwen_experts(reading, 60, 4, 1408, true);
    if (!config.experts.normalised) {
      reading.warning("norm_topk_prob is not read by the class: weights are divided by their sum");
    }
    config.experts.normalised = true;
  } else {
    read_llama_part(reading, {.kv_heads = 32, .head_dim = 128, .context = 128000}, 1e-6);
  }
  config.attention.qk_norm = "head";
  // The class with experts ties by itself, the one of pictures and text around it does not.
  reading.read_head("lm_head.weight", experts && &text == &input.config);
  reading.read_rope({.theta = 5e5,
                     .whole_when_default = true,
                     .axes = formats::RopeAxes::interleaved,
                     .mrope_section = {24, 20, 20}},
                    "half");
  const ModelConfig sizes = config;
  return reading.finish(of_trunk([sizes](const std::string& name) { return place(sizes, name); }));
}

}  // namespace
}  // namespace qwen3_vl

Family qwen3_vl_family() { return {"qwen3_vl", &qwen3_vl::claims, &qwen3_vl::translate}; }

}  // namespace phasescope::model
