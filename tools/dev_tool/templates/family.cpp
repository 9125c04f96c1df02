#include "model/families/NEW_NAME.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace NEW_NAME {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"NEW_NAME"}); }

const Renaming kNames = {
    {"model."},
    "layers.",
    {{"input_layernorm", "input_layernorm"},
     {"post_attention_layernorm", "post_attention_layernorm"},
     {"self_attn.q_proj", "self_attn.q_proj"},
     {"self_attn.k_proj", "self_attn.k_proj"},
     {"self_attn.v_proj", "self_attn.v_proj"},
     {"self_attn.o_proj", "self_attn.o_proj"},
     {"mlp.gate_proj", "mlp.gate_proj"},
     {"mlp.up_proj", "mlp.up_proj"},
     {"mlp.down_proj", "mlp.down_proj"}},
    {{"embed_tokens", "model.embed_tokens"}, {"norm", "model.norm"}, {"lm_head", "lm_head"}},
    {},
};

TensorPlace place(const std::string& name) { return renamed(kNames, name); }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "NEW_NAME");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size"});
  config.layers = reader.required_integer({"num_hidden_layers"}, formats::kLayerRange);
  config.heads = reader.required_integer({"num_attention_heads"});
  config.kv_heads = reader.integer_or({"num_key_value_heads"}, config.heads, formats::kCountRange);
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.required_integer({"intermediate_size"});
  config.context = reader.integer_or({"max_position_embeddings"}, 2048, formats::kCountRange);
  reading.read_rope(kWholeHeads, "half");
  reading.read_head("lm_head.weight", false);
  return reading.finish(&place);
}

}  // namespace
}  // namespace NEW_NAME

Family NEW_NAME_family() { return {"NEW_NAME", &NEW_NAME::claims, &NEW_NAME::translate}; }

}  // namespace phasescope::model
