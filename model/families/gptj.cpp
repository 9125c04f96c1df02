#include "model/families/gptj.h"

#include "model/families/family_reader.h"

namespace phasescope::model {
namespace gptj {
namespace {

bool claims(const FamilyInput& input) { return input.config.value("model_type", Json()) == "gptj"; }

const Renaming kNames = {
    {"transformer."},
    "h.",
    {{"ln_1", "input_layernorm"},
     {"attn.q_proj", "self_attn.q_proj"},
     {"attn.k_proj", "self_attn.k_proj"},
     {"attn.v_proj", "self_attn.v_proj"},
     {"attn.out_proj", "self_attn.o_proj"},
     {"mlp.fc_in", "mlp.up_proj"},
     {"mlp.fc_out", "mlp.down_proj"}},
    {{"wte", "model.embed_tokens"}, {"ln_f", "model.norm"}, {"lm_head", "lm_head"}},
    {{".attn.bias", "is the causal mask"},
     {".attn.masked_bias", "is the causal mask"},
     {".attn.embed_positions", ""}},
};

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gptj");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"n_embd", "hidden_size"});
  config.layers = reader.required_integer({"n_layer", "num_hidden_layers"}, formats::kLayerRange);
  config.heads = config.kv_heads = reader.required_integer({"n_head", "num_attention_heads"});
  config.head_dim = config.width / config.heads;
  config.ffn_width = reader.integer_or({"n_inner"}, 4 * config.width, formats::kCountRange);
  config.context = reader.integer_or({"n_positions"}, 2048, formats::kCountRange);
  config.residual = "parallel_shared";
  reading.layer_norm({"layer_norm_epsilon"}, 1e-5);
  config.mlp = {.gated = false,
                .activation = reading.activation({"activation_function"}, "gelu_new"),
                .up_bias = true,
                .down_bias = true};
  formats::RawRope rope;  // theta is 10000 always
  const std::int64_t turned = reader.integer_or(
      {"rotary_dim"}, input.config.contains("rotary_dim") ? config.head_dim : 64, {.min = 2});
  if (turned > config.head_dim || turned % 2 != 0) {
    reading.problem("rotary_dim", std::to_string(turned) + " channels of a head of " +
                                      std::to_string(config.head_dim) + " cannot turn in pairs");
  }
  rope.partial_rotary_factor = static_cast<double>(turned) / static_cast<double>(config.head_dim);
  formats::check_heads(reader.problems(), config.width, config.heads, config.heads, {});
  reading.set_rope(rope, "interleaved");
  reading.read_head("lm_head.weight", false);
  config.head.bias = config.head.present && reading.has_tensor("lm_head.bias");
  return reading.finish([](const std::string& name) { return renamed(kNames, name); });
}

}  // namespace
}  // namespace gptj

Family gptj_family() { return {"gptj", &gptj::claims, &gptj::translate}; }

}  // namespace phasescope::model
