#include "model/families/llama.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace llama {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "llama";
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "llama");
  read_llama_sizes(reading.reader(), reading.config());
  reading.config().mlp.activation = reading.activation({"hidden_act"}, "silu");
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace llama

void read_llama_sizes(const formats::ConfigReader& reader, ModelConfig& config,
                      const LlamaDefaults& defaults) {
  const auto size = [&](const char* key, const std::optional<std::int64_t>& by_class,
                        formats::IntegerRange range = formats::kCountRange) {
    return by_class ? reader.integer_of_class(key, *by_class, range)
                    : reader.required_integer({key}, range);
  };
  config.vocab_size = size("vocab_size", defaults.vocab_size);
  config.width = size("hidden_size", defaults.width);
  config.layers = size("num_hidden_layers", defaults.layers, formats::kLayerRange);
  config.heads = size("num_attention_heads", defaults.heads);
  config.ffn_width = size("intermediate_size", defaults.ffn_width);
  config.kv_heads =
      defaults.kv_heads && !reader.has_or_null("num_key_value_heads")
          ? size("num_key_value_heads", defaults.kv_heads)
          : reader.integer_or({"num_key_value_heads"}, config.heads, formats::kCountRange);
  config.head_dim = defaults.head_dim ? size("head_dim", defaults.head_dim)
                                      : reader.integer_or({"head_dim"}, config.width / config.heads,
                                                          formats::kCountRange);
  config.context = size("max_position_embeddings", defaults.context);
  config.mlp.activation = reader.text_or({"hidden_act"}, "silu");
  if (config.mlp.activation == "gelu_pytorch_tanh" || config.mlp.activation == "gelu_new") {
    config.mlp.activation = "gelu_tanh";
  }
  config.norm_eps = reader.number_or({"rms_norm_eps"}, 1e-6, formats::kPositiveRange);
  config.tie_embeddings = reader.boolean_or({"tie_word_embeddings"}, false);
  AttentionConfig& attention = config.attention;
  attention.q_bias = reader.boolean_or({"attention_bias"}, false);
  attention.k_bias = attention.v_bias = attention.o_bias = attention.q_bias;
  config.mlp.up_bias = config.mlp.down_bias = reader.boolean_or({"mlp_bias"}, false);
  config.init_std = reader.number_or({"initializer_range"}, 0.02, formats::kPositiveRange);
}

void read_llama_part(FamilyReader& reading, const LlamaDefaults& defaults, double eps) {
  read_llama_sizes(reading.reader(), reading.config(), defaults);
  reading.config().mlp.activation = reading.activation({"hidden_act", "hidden_activation"}, "silu");
  reading.config().norm_eps =
      reading.reader().number_or({"rms_norm_eps"}, eps, formats::kPositiveRange);
}

TensorPlace llama_place(const std::string& name) {
  // Older conversions store a table that is computed here.
  if (name.ends_with("rotary_emb.inv_freq")) return {.name = name, .ignored = true};
  const bool prefixed = name.starts_with("model.") || name.starts_with("lm_head.");
  return {prefixed ? name : "model." + name};
}

Family llama_family() { return {"llama", &llama::claims, &llama::translate}; }

}  // namespace phasescope::model
