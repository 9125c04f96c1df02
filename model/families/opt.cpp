#include "model/families/opt.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace opt {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "opt"; }

const Renaming kNames = {
    {"model.decoder.", "decoder."},
    "layers.",
    {{"self_attn_layer_norm", "input_layernorm"},
     {"final_layer_norm", "post_attention_layernorm"},
     {"self_attn.q_proj", "self_attn.q_proj"},
     {"self_attn.k_proj", "self_attn.k_proj"},
     {"self_attn.v_proj", "self_attn.v_proj"},
     {"self_attn.out_proj", "self_attn.o_proj"},
     {"fc1", "mlp.up_proj"},
     {"fc2", "mlp.down_proj"}},
    {{"embed_tokens", "model.embed_tokens"},
     {"project_in", "model.embed_in"},
     {"project_out", "model.embed_out"},
     {"final_layer_norm", "model.norm"},
     {"lm_head", "lm_head"}},
    {},
};

TensorPlace place(const std::string& name) {
  if (split_name(kNames, name).module == "embed_positions") return {"model.encoding.table"};
  return renamed(kNames, name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "opt");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size"});
  config.layers = reader.required_integer({"num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.required_integer({"ffn_dim"});
  config.context = reader.integer_or({"max_position_embeddings"}, 2048, formats::kCountRange);
  const std::int64_t embedded =
      reader.integer_or({"word_embed_proj_dim"}, config.width, formats::kCountRange);
  if (embedded != config.width) config.embedding.width = embedded;
  config.positions_skip_padding = true;
  reading.layer_norm({}, 1e-5);
  const bool before = reading.switch_or("do_layer_norm_before", true);
  config.norm.placement = before ? "pre" : "post";
  config.norm.at_end = before && !reader.boolean_or({"_remove_final_layer_norm"}, false);
  if (!reading.switch_or("layer_norm_elementwise_affine", true)) {
    reading.problem("layer_norm_elementwise_affine", "norms without weights cannot be read");
  }
  const bool bias = reading.switch_or("enable_bias", true);
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = bias;
  config.mlp = {.gated = false,
                .activation = reading.activation({"activation_function"}, "relu"),
                .up_bias = bias,
                .down_bias = bias};
  config.encoding = {"learned", {{"max_positions", config.context}, {"offset", 2}}};
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  reading.read_head("lm_head.weight", true);
  return reading.finish(&place);
}

}  // namespace
}  // namespace opt

Family opt_family() { return {"opt", &opt::claims, &opt::translate}; }

}  // namespace phasescope::model
