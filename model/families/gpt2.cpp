#include "model/families/gpt2.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace gpt2 {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "gpt2"; }

const Renaming kNames = {
    {"transformer."},
    "h.",
    {{"ln_1", "input_layernorm"},
     {"ln_2", "post_attention_layernorm"},
     {"attn.c_proj", "self_attn.o_proj"},
     {"mlp.c_fc", "mlp.up_proj"},
     {"mlp.c_proj", "mlp.down_proj"}},
    {{"wte", "model.embed_tokens"}, {"ln_f", "model.norm"}, {"lm_head", "lm_head"}},
    {{".attn.bias", "is the causal mask"}, {".attn.masked_bias", "is the causal mask"}},
};

TensorPlace place(const ModelConfig& config, const std::string& name) {
  const NameParts parts = split_name(kNames, name);
  if (parts.module == "wpe") return {"model.encoding.table"};
  const std::int64_t width = config.width;
  if (parts.module == "attn.c_attn") {
    return fused_rows(
        parts, width,
        {{"self_attn.q_proj", width}, {"self_attn.k_proj", width}, {"self_attn.v_proj", width}},
        true);
  }
  TensorPlace found = renamed(kNames, name);
  if (parts.ending != ".weight") return found;
  if (parts.module == "attn.c_proj") return transposed(found, width, width);
  if (parts.module == "mlp.c_fc") return transposed(found, config.ffn_width, width);
  if (parts.module == "mlp.c_proj") return transposed(found, width, config.ffn_width);
  return found;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gpt2");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"n_embd", "hidden_size"});
  config.layers = reader.required_integer({"n_layer", "num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"n_head", "num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.integer_or({"n_inner"}, 4 * config.width, formats::kCountRange);
  config.context = reader.integer_or({"n_positions", "n_ctx"}, 1024, formats::kCountRange);
  reading.layer_norm({"layer_norm_epsilon"}, 1e-5);
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = true;
  if (!reading.switch_or("scale_attn_weights", true)) attention.scale = 1;
  attention.scale_by_layer = reader.boolean_or({"scale_attn_by_inverse_layer_idx"}, false);
  config.mlp = {.gated = false,
                .activation = reading.activation({"activation_function"}, "gelu_new"),
                .up_bias = true,
                .down_bias = true};
  config.encoding = {"learned", {{"max_positions", config.context}}};
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  reading.refuse("add_cross_attention", "cross attention in a GPT-2");
  reading.read_head("lm_head.weight", true);
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace gpt2

Family gpt2_family() { return {"gpt2", &gpt2::claims, &gpt2::translate}; }

}  // namespace phasescope::model
