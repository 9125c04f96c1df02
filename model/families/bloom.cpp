#include "model/families/bloom.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace bloom {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "bloom";
}

const Renaming kNames = {
    {"transformer."},
    "h.",
    {{"input_layernorm", "input_layernorm"},
     {"post_attention_layernorm", "post_attention_layernorm"},
     {"self_attention.dense", "self_attn.o_proj"},
     {"mlp.dense_h_to_4h", "mlp.up_proj"},
     {"mlp.dense_4h_to_h", "mlp.down_proj"}},
    {{"word_embeddings", "model.embed_tokens"},
     {"word_embeddings_layernorm", "model.embed_norm"},
     {"ln_f", "model.norm"},
     {"lm_head", "lm_head"}},
    {},
};

TensorPlace place(const ModelConfig& config, const std::string& name) {
  const NameParts parts = split_name(kNames, name);
  if (parts.module == "self_attention.query_key_value") return fused_heads(parts, config);
  return renamed(kNames, name);
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "bloom");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size", "n_embed"});
  config.layers = reader.required_integer({"n_layer", "num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"n_head", "num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = 4 * config.width;
  config.context = reader.integer_or({"seq_length"}, 2048, formats::kCountRange);
  config.embedding.norm = true;
  config.positions_skip_padding = true;
  reading.layer_norm({"layer_norm_epsilon"}, 1e-5);
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = true;
  config.mlp = {
      .gated = false, .activation = "gelu_tanh_short", .up_bias = true, .down_bias = true};
  config.encoding = {"alibi", Json::object()};
  reading.quirk(
      "the code adds slope * j to the score; ours is -slope * (i - j), which gives the "
      "same weights and other raw scores");
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  reading.refuse("apply_residual_connection_post_layernorm", "residuals taken after the norm");
  reading.read_head("lm_head.weight", true);
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace bloom

Family bloom_family() { return {"bloom", &bloom::claims, &bloom::translate}; }

}  // namespace phasescope::model
