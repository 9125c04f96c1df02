#include "model/families/bert.h"

#include <utility>

#include "formats/utf8.h"

namespace phasescope::model {
namespace bert {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "bert"; }

const Renaming kNames = {
    {"bert.", "roformer."},
    "encoder.layer.",
    {{"attention.self.query", "self_attn.q_proj"},
     {"attention.self.key", "self_attn.k_proj"},
     {"attention.self.value", "self_attn.v_proj"},
     {"attention.output.dense", "self_attn.o_proj"},
     {"attention.output.LayerNorm", "input_layernorm"},
     {"intermediate.dense", "mlp.up_proj"},
     {"output.dense", "mlp.down_proj"},
     {"output.LayerNorm", "post_attention_layernorm"}},
    {{"embeddings.word_embeddings", "model.embed_tokens"},
     {"embeddings.token_type_embeddings", "model.embed_types"},
     {"embeddings.LayerNorm", "model.embed_norm"},
     {"cls.predictions.transform.dense", "lm_head.transform"},
     {"cls.predictions.transform.LayerNorm", "lm_head.norm"},
     {"cls.predictions.decoder", "lm_head"}},
    {{"pooler.dense.weight", "belongs to a head that is not read"},
     {"pooler.dense.bias", "belongs to a head that is not read"},
     {"seq_relationship.weight", "belongs to a head that is not read"},
     {"seq_relationship.bias", "belongs to a head that is not read"},
     {"embeddings.position_ids", "counts 0, 1, 2, ..."},
     {"cls.predictions.decoder.bias", "is cls.predictions.bias"}},
};

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "bert");
  read_bert(reading, 512);
  ModelConfig& config = reading.config();
  config.encoding = {"learned", {{"max_positions", config.context}}};
  const std::string type = reading.reader().text_or({"position_embedding_type"}, "absolute");
  if (type != "absolute") {
    reading.problem("position_embedding_type", formats::in_quotes(type) + " cannot be read yet");
  }
  const bool own_bias = has_own_head_bias(reading);
  return reading.finish([own_bias](const std::string& name) { return bert_place(own_bias, name); });
}

}  // namespace
}  // namespace bert

void read_bert(FamilyReader& reading, std::int64_t context) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size"});
  config.layers = reader.required_integer({"num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.required_integer({"intermediate_size"});
  config.context = reader.integer_or({"max_position_embeddings"}, context, formats::kCountRange);
  config.embedding.norm = true;
  config.embedding.token_types = reader.integer_or({"type_vocab_size"}, 2, formats::kCountRange);
  reading.layer_norm({"layer_norm_eps"}, 1e-12);
  config.norm.placement = "post";
  config.norm.at_end = false;
  AttentionConfig& attention = config.attention;
  attention.causal = reader.boolean_or({"is_decoder"}, false);
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = true;
  config.mlp = {.gated = false,
                .activation = reading.activation({"hidden_act"}, "gelu"),
                .up_bias = true,
                .down_bias = true};
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  reading.refuse("add_cross_attention", "cross attention in a BERT");
  reading.read_head("cls.predictions.decoder.weight", true);
  if (config.head.present && !reading.has_tensor("cls.predictions.transform.dense.weight")) {
    config.head.present = config.tie_embeddings = false;
    reading.warning("the file has no cls.predictions: the model has no head and no logits");
  }
  config.head.transform = config.head.bias = config.head.present;
}

bool has_own_head_bias(FamilyReader& reading) {
  return reading.config().head.present && !reading.config().tie_embeddings &&
         reading.has_tensor("cls.predictions.decoder.bias", false);
}

TensorPlace bert_place(bool own_bias, const std::string& given) {
  std::string name = given;
  for (const auto& [old, now] : {std::pair{"LayerNorm.gamma", "LayerNorm.weight"},
                                 std::pair{"LayerNorm.beta", "LayerNorm.bias"}}) {
    const std::string ending = old;
    if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), now);
  }
  if (name == "cls.predictions.bias") {
    return own_bias ? TensorPlace{.name = name,
                                  .ignored = true,
                                  .why =
                                      "is not used: nothing is tied, and the head's bias is "
                                      "cls.predictions.decoder.bias"}
                    : TensorPlace{"lm_head.bias"};
  }
  if (own_bias && name == "cls.predictions.decoder.bias") return {"lm_head.bias"};
  const std::string module = split_name(bert::kNames, name).module;
  if (module == "embeddings.position_embeddings") return {"model.encoding.table"};
  return renamed(bert::kNames, name);
}

Family bert_family() { return {"bert", &bert::claims, &bert::translate}; }

}  // namespace phasescope::model
