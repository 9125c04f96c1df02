#include "model/families/phi3.h"

#include "formats/utf8.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace phi3 {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "phi3"; }

bool every_layer(std::int64_t, std::int64_t) { return true; }

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (parts.module == "self_attn.qkv_proj") {
    const std::int64_t keys = config.kv_heads * config.head_dim;
    return fused_rows(parts, config.width,
                      {{"self_attn.q_proj", config.heads * config.head_dim},
                       {"self_attn.k_proj", keys},
                       {"self_attn.v_proj", keys}});
  }
  if (parts.module == "mlp.gate_up_proj") {
    return fused_rows(parts, config.width,
                      {{"mlp.gate_proj", config.ffn_width}, {"mlp.up_proj", config.ffn_width}});
  }
  return llama_place(name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "phi3");
  ModelConfig& config = reading.config();
  read_llama_sizes(reading.reader(), config, {.context = 4096});
  config.mlp.activation = reading.activation({"hidden_act"}, "silu");
  config.norm_eps = reading.reader().number_or({"rms_norm_eps"}, 1e-5, formats::kPositiveRange);
  config.attention.window =
      reading.reader().integer_or({"sliding_window"}, 0, formats::kCountRange);
  if (config.attention.window > 0) reading.read_local_layers(&every_layer, 0);
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.original_max_position_embeddings = 4096}, "half");
  // The class knows no other kinds; yarn without lists is none of them either.
  const std::string kind = config.encoding.options.value("scaling", "longrope");
  if (kind != "longrope") {
    reading.problem("rope_scaling", "the rope " + formats::in_quotes(kind) +
                                        " is not one of this class (default, longrope)");
  }
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace phi3

Family phi3_family() { return {"phi3", &phi3::claims, &phi3::translate}; }

}  // namespace phasescope::model
