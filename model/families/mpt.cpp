#include "model/families/mpt.h"

#include <cmath>

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace mpt {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "mpt"; }

const Renaming kNames = {
    {"transformer."},
    "blocks.",
    {{"norm_1", "input_layernorm"},
     {"norm_2", "post_attention_layernorm"},
     {"attn.out_proj", "self_attn.o_proj"},
     {"attn.q_ln", "self_attn.q_norm"},
     {"attn.k_ln", "self_attn.k_norm"},
     {"ffn.up_proj", "mlp.up_proj"},
     {"ffn.down_proj", "mlp.down_proj"}},
    {{"wte", "model.embed_tokens"}, {"norm_f", "model.norm"}, {"lm_head", "lm_head"}},
    {},
};

TensorPlace place(const ModelConfig& config, const std::string& name) {
  const NameParts parts = split_name(kNames, name);
  if (parts.module == "wpe") return {"model.encoding.table"};
  if (parts.module != "attn.Wqkv") return renamed(kNames, name);
  const std::int64_t width = config.width;
  return fused_rows(
      parts, width,
      {{"self_attn.q_proj", width}, {"self_attn.k_proj", width}, {"self_attn.v_proj", width}});
}

void read_attention(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  const auto section = reading.reader().section("attn_config");
  bool alibi = true;
  if (section) {
    alibi = section->boolean_or({"alibi"}, true);
    config.attention.clip = section->number_or({"clip_qkv"}, 0, formats::kPositiveRange);
    config.attention.scale = section->number_or({"softmax_scale"}, 0, formats::kPositiveRange);
    if (section->boolean_or({"qk_ln"}, false)) config.attention.qk_norm = "full";
    if (section->boolean_or({"prefix_lm"}, false)) {
      section->problem("prefix_lm", "prefix masks cannot be read");
    }
    const double most = section->number_or({"alibi_bias_max"}, 8);
    if (most != 8) reading.quirk("alibi_bias_max is not read by the library: it is 8");
  }
  if (alibi) {
    config.encoding = {"alibi", {{"slopes", "next_power"}}};
  } else if (reading.has_tensor("wpe.weight", false)) {
    config.encoding = {"learned", {{"max_positions", config.context}}};
  } else {
    config.encoding = {"none", Json::object()};
  }
}

// A number, or "inv_sqrt_d_model".
void read_logit_scale(FamilyReader& reading) {
  const Json* scale = reading.reader().raw("logit_scale");
  if (scale == nullptr) return;
  if (*scale == "inv_sqrt_d_model") {
    reading.config().head.scale = 1 / std::sqrt(static_cast<double>(reading.config().width));
  } else {
    reading.config().head.scale =
        reading.reader().number_or({"logit_scale"}, 1, formats::kPositiveRange);
  }
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "mpt");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"d_model", "hidden_size"});
  config.layers = reader.required_integer({"n_layers", "num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"n_heads", "num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = 4 * config.width;
  if (reader.number_or({"expansion_ratio"}, 4) != 4) {
    reading.quirk("expansion_ratio is not read by the library: the MLP is 4 d_model wide");
  }
  config.context = reader.integer_or({"max_seq_len"}, 2048, formats::kCountRange);
  reading.layer_norm({"layer_norm_epsilon"}, 1e-5);
  const bool bias = !reader.boolean_or({"no_bias"}, true) && reading.has_tensor("Wqkv.bias");
  config.norm.bias = bias;
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = bias;
  config.mlp = {.gated = false, .activation = "gelu", .up_bias = bias, .down_bias = bias};
  read_attention(reading);
  read_logit_scale(reading);
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  reading.read_head("lm_head.weight", true);
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace mpt

Family mpt_family() { return {"mpt", &mpt::claims, &mpt::translate}; }

}  // namespace phasescope::model
