#include "model/families/t5.h"

#include <cmath>

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace t5 {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "t5"; }

// A layer has three places in a decoder and two in an encoder, where "layer.1." is the MLP.
const Renaming& names(bool decoder) {
  const auto make = [](const std::string& stack, const std::string& mlp) {
    Renaming r = {{stack + "."},
                  "block.",
                  {{"layer.0.layer_norm", "input_layernorm"},
                   {mlp + ".layer_norm", "post_attention_layernorm"},
                   {mlp + ".DenseReluDense.wi", "mlp.up_proj"},
                   {mlp + ".DenseReluDense.wi_0", "mlp.gate_proj"},
                   {mlp + ".DenseReluDense.wi_1", "mlp.up_proj"},
                   {mlp + ".DenseReluDense.wo", "mlp.down_proj"}},
                  {{"final_layer_norm", "model.norm"}},
                  {}};
    for (const std::string letter : {"q", "k", "v", "o"}) {
      r.in_layer["layer.0.SelfAttention." + letter] = "self_attn." + letter + "_proj";
      r.in_layer["layer.1.EncDecAttention." + letter] = "cross_attn." + letter + "_proj";
    }
    if (stack == "decoder") r.in_layer["layer.1.layer_norm"] = "cross_attn.input_layernorm";
    return r;
  };
  static const Renaming of_decoder = make("decoder", "layer.2"),
                        of_encoder = make("encoder", "layer.1");
  return decoder ? of_decoder : of_encoder;
}

// `alone`: the encoder is the whole model.
TensorPlace place(bool alone, const std::string& name) {
  if (name == "shared.weight") return {"model.embed_tokens.weight"};
  if (name == "lm_head.weight") return {name};
  if (name.ends_with("coder.embed_tokens.weight")) {
    return {.name = name, .ignored = true, .why = "is shared.weight"};
  }
  const bool decoder = name.starts_with("decoder.");
  if (!decoder && !name.starts_with("encoder.")) return {};
  const std::string stack = decoder || alone ? "model." : "model.encoder.";
  const NameParts parts = split_name(names(decoder), name);
  if (parts.module == "layer.0.SelfAttention.relative_attention_bias") {
    return parts.layer == "model.layers.0." ? TensorPlace{stack + "encoding.table"} : TensorPlace{};
  }
  if (parts.module.starts_with("layer.1.EncDecAttention.relative_attention_bias")) {
    return {.name = name, .ignored = true, .why = "is never used"};
  }
  TensorPlace found = renamed(names(decoder), name);
  if (!found.name.empty()) found.name.replace(0, std::string("model.").size(), stack);
  return found;
}

// "gated-gelu" and the like; a gated gelu is the tanh one.
void read_mlp(FamilyReader& reading) {
  MlpConfig& mlp = reading.config().mlp;
  std::string kind = reading.reader().text_or({"feed_forward_proj"}, "relu");
  mlp.gated = kind.starts_with("gated-");
  if (mlp.gated) kind = kind.substr(std::string("gated-").size());
  mlp.activation = reading.activation({"dense_act_fn"}, kind);
  if (mlp.gated && kind == "gelu") mlp.activation = "gelu_tanh";
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "t5");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"d_model"});
  config.heads = config.kv_heads = reader.required_integer({"num_heads"});
  config.head_dim = reader.required_integer({"d_kv"});
  config.ffn_width = reader.required_integer({"d_ff"});
  const std::int64_t layers = reader.required_integer({"num_layers"}, formats::kLayerRange);
  const bool encoder_class =
      input.config.value("architectures", Json()) == Json::array({"T5EncoderModel"});
  const bool alone = !reading.has_tensor("decoder.final_layer_norm.weight", !encoder_class);
  config.layers =
      alone ? layers : reader.integer_or({"num_decoder_layers"}, layers, formats::kLayerRange);
  config.encoder_layers = alone ? 0 : layers;
  config.context = reader.integer_or({"n_positions"}, 512, formats::kCountRange);
  config.norm_eps = reader.number_or({"layer_norm_epsilon"}, 1e-6, formats::kPositiveRange);
  config.attention.causal = !alone;
  config.attention.scale = 1;
  config.decoder_start = reader.integer_or({"decoder_start_token_id"}, 0);
  read_mlp(reading);
  config.encoding = {
      "t5",
      {{"buckets", reader.integer_or({"relative_attention_num_buckets"}, 32, formats::kCountRange)},
       {"max_distance",
        reader.integer_or({"relative_attention_max_distance"}, 128, formats::kCountRange)}}};
  reading.read_head("lm_head.weight", true);
  if (alone && config.head.present) {
    config.head.present = config.tie_embeddings = false;
    reading.warning("the file has no decoder: its encoder is read, and there are no logits");
  }
  // Older files say it by tying alone.
  if (config.head.present && reader.boolean_or({"scale_decoder_outputs"}, config.tie_embeddings)) {
    config.head.scale = 1 / std::sqrt(static_cast<double>(config.width));
  }
  return reading.finish([alone](const std::string& name) { return place(alone, name); });
}

}  // namespace
}  // namespace t5

Family t5_family() { return {"t5", &t5::claims, &t5::translate}; }

}  // namespace phasescope::model
