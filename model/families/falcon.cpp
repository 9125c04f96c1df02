#include "model/families/falcon.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace falcon {
namespace {

bool claims(const FamilyInput& input) {
  const Json type = input.config.value("model_type", Json());
  return type == "falcon" || type == "RefinedWeb" || type == "RefinedWebModel";
}

const Renaming kNames = {
    {"transformer."},
    "h.",
    {{"input_layernorm", "input_layernorm"},
     {"ln_attn", "input_layernorm"},
     {"post_attention_layernorm", "post_attention_layernorm"},
     {"ln_mlp", "post_attention_layernorm"},
     {"self_attention.dense", "self_attn.o_proj"},
     {"mlp.dense_h_to_4h", "mlp.up_proj"},
     {"mlp.dense_4h_to_h", "mlp.down_proj"}},
    {{"word_embeddings", "model.embed_tokens"}, {"ln_f", "model.norm"}, {"lm_head", "lm_head"}},
    {{"rotary.inv_freq", ""}, {"rotary_emb.inv_freq", ""}},
};

// `by_group`: groups of query heads with their key and value; otherwise one key and value after all
// queries.
TensorPlace place(const ModelConfig& config, bool by_group, const std::string& name) {
  const NameParts parts = split_name(kNames, name);
  if (parts.module != "self_attention.query_key_value") return renamed(kNames, name);
  if (by_group) return fused_heads(parts, config);
  return fused_rows(parts, config.width,
                    {{"self_attn.q_proj", config.heads * config.head_dim},
                     {"self_attn.k_proj", config.head_dim},
                     {"self_attn.v_proj", config.head_dim}});
}

// How attention and MLP lie in a layer, and their keys.
bool read_structure(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  const bool grouped = reader.boolean_or({"new_decoder_architecture"}, false);
  const bool one_key = reading.switch_or("multi_query", true);
  const bool parallel = reading.switch_or("parallel_attn", true);
  const std::int64_t norms =
      reader.integer_or({"num_ln_in_parallel_attn"}, grouped ? 2 : 1, {.min = 1, .max = 2});
  if (grouped) {
    config.kv_heads =
        reader.integer_or({"num_kv_heads", "n_head_kv"}, config.heads, formats::kCountRange);
  } else {
    config.kv_heads = one_key ? 1 : config.heads;
  }
  if (grouped && norms == 2) {
    config.residual = "parallel";
  } else {
    config.residual = grouped || parallel ? "parallel_shared" : "sequential";
  }
  return grouped || !one_key;
}

void read_positions(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  if (!reading.reader().boolean_or({"alibi"}, false)) return reading.read_rope(kWholeHeads, "half");
  config.positions_skip_padding = true;
  config.encoding = {"alibi", {{"scaled", true}, {"rounding", "bfloat16"}}};
  reading.quirk(
      "slopes and slopes times positions are rounded to bfloat16, and divided by sqrt(d)");
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "falcon");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size"});
  config.layers = reader.required_integer({"num_hidden_layers", "n_layer"}, formats::kLayerRange);
  config.heads = reader.required_integer({"num_attention_heads", "n_head"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.integer_or({"ffn_hidden_size"}, 4 * config.width, formats::kCountRange);
  config.context = reader.integer_or({"max_position_embeddings"}, 2048, formats::kCountRange);
  const bool by_group = read_structure(reading);
  reading.layer_norm({"layer_norm_epsilon"}, 1e-5);
  const bool bias = reader.boolean_or({"bias"}, false);
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = bias;
  config.mlp = {.gated = false,
                .activation = reading.activation({"activation"}, "gelu"),
                .up_bias = bias,
                .down_bias = bias};
  formats::check_heads(reader.problems(), config.width, config.heads, config.kv_heads, {});
  read_positions(reading);
  reading.read_head("lm_head.weight", true);
  const ModelConfig sizes = config;
  return reading.finish(
      [sizes, by_group](const std::string& name) { return place(sizes, by_group, name); });
}

}  // namespace
}  // namespace falcon

Family falcon_family() { return {"falcon", &falcon::claims, &falcon::translate}; }

}  // namespace phasescope::model
