#include "model/families/gpt_neox.h"

#include "model/families/dape.h"
#include "model/families/family_reader.h"

namespace phasescope::model {
namespace gpt_neox {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "gpt_neox";
}

const Renaming kNames = {
    {"gpt_neox."},
    "layers.",
    {{"input_layernorm", "input_layernorm"},
     {"post_attention_layernorm", "post_attention_layernorm"},
     {"attention.dense", "self_attn.o_proj"},
     {"mlp.dense_h_to_4h", "mlp.up_proj"},
     {"mlp.dense_4h_to_h", "mlp.down_proj"}},
    {{"embed_in", "model.embed_tokens"},
     {"final_layer_norm", "model.norm"},
     {"embed_out", "lm_head"}},
    {{".attention.bias", "is the causal mask"},
     {".attention.masked_bias", "is the causal mask"},
     {"rotary_emb.inv_freq", ""}},
};

TensorPlace place(const ModelConfig& config, const std::string& module, const std::string& name) {
  const NameParts parts = split_name(kNames, name);
  if (parts.module == "attention.query_key_value") return fused_heads(parts, config);
  const TensorPlace position = dape_place(parts, module);
  return position.name.empty() ? renamed(kNames, name) : position;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gpt_neox");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size"});
  config.layers = reader.required_integer({"num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.required_integer({"intermediate_size"});
  config.context = reader.integer_or({"max_position_embeddings"}, 2048, formats::kCountRange);
  config.residual = reading.switch_or("use_parallel_residual", true) ? "parallel" : "sequential";
  reading.layer_norm({"layer_norm_eps"}, 1e-5);
  AttentionConfig& attention = config.attention;
  attention.q_bias = reading.switch_or("attention_bias", true);
  attention.k_bias = attention.v_bias = attention.o_bias = attention.q_bias;
  config.mlp = {.gated = false,
                .activation = reading.activation({"hidden_act"}, "gelu"),
                .up_bias = true,
                .down_bias = true};
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  std::string module;
  if (const auto encoding = read_dape(reading, input, module)) {
    config.encoding = *encoding;
  } else {
    reading.read_rope({.theta = 10000, .partial_rotary_factor = 0.25, .neox_names = true}, "half");
  }
  reading.read_head("embed_out.weight", false);
  const ModelConfig sizes = config;
  Translation result = reading.finish(
      [sizes, module](const std::string& name) { return place(sizes, module, name); });
  if (sizes.encoding.key != "rope") {
    result.encoding_why += ", pos_emb is " + input.config.at("pos_emb").dump();
  }
  return result;
}

}  // namespace
}  // namespace gpt_neox

Family gpt_neox_family() { return {"gpt_neox", &gpt_neox::claims, &gpt_neox::translate}; }

}  // namespace phasescope::model
