#include "model/families/phi.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace phi {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"phi"}); }

const Renaming kNames = {
    {"model."},
    "layers.",
    {{"input_layernorm", "input_layernorm"},
     {"self_attn.q_proj", "self_attn.q_proj"},
     {"self_attn.k_proj", "self_attn.k_proj"},
     {"self_attn.v_proj", "self_attn.v_proj"},
     {"self_attn.dense", "self_attn.o_proj"},
     {"self_attn.q_layernorm", "self_attn.q_norm"},
     {"self_attn.k_layernorm", "self_attn.k_norm"},
     {"mlp.fc1", "mlp.up_proj"},
     {"mlp.fc2", "mlp.down_proj"}},
    {{"embed_tokens", "model.embed_tokens"},
     {"final_layernorm", "model.norm"},
     {"lm_head", "lm_head"}},
    {{"rotary_emb.inv_freq", ""}},
};

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "phi");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_sizes(reader, config, {.context = 2048});
  reading.layer_norm({"layer_norm_eps"}, 1e-5);
  config.residual = "parallel_shared";
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = true;
  if (reader.boolean_or({"qk_layernorm"}, false)) attention.qk_norm = "head";
  config.mlp = {.gated = false,
                .activation = reading.activation({"hidden_act"}, "gelu_new"),
                .up_bias = true,
                .down_bias = true};
  reading.read_head("lm_head.weight", false);
  config.head.bias = config.head.present;
  reading.read_rope({.partial_rotary_factor = 0.5}, "half");
  return reading.finish([](const std::string& name) { return renamed(kNames, name); });
}

}  // namespace
}  // namespace phi

Family phi_family() { return {"phi", &phi::claims, &phi::translate}; }

}  // namespace phasescope::model
