#include "model/families/llama.h"

namespace phasescope::model {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "llama";
}

// The scaling of a rope, in our options' words.
void translate_rope(const formats::RawRope& rope, formats::ConfigProblems& problems,
                    ModelConfig& config) {
  Json options = {{"base", rope.theta}, {"layout", "half"}};
  if (rope.type == "linear" || rope.type == "dynamic" || rope.type == "yarn") {
    options["scaling"] = rope.type;
    options["factor"] = rope.factor.value_or(1.0);
    options["trained_context"] = rope.original_max_position_embeddings.value_or(config.context);
  } else if (rope.type != "default") {
    problems.add("rope_type", "\"" + rope.type + "\" cannot be read yet");
  }
  if (rope.partial_rotary_factor != 1.0) {
    problems.add("partial_rotary_factor", "rotating a part of the head cannot be read yet");
  }
  if (rope.mscale || rope.mscale_all_dim) {
    problems.add("mscale", "yarn with mscale cannot be read yet");
  }
  if (rope.type == "yarn") {
    options["beta_fast"] = rope.beta_fast.value_or(32.0);
    options["beta_slow"] = rope.beta_slow.value_or(1.0);
    options["attention_factor"] = rope.attention_factor.value_or(0.0);
    options["truncate"] = rope.truncate.value_or(true);
  }
  config.encoding = {"rope", options};
}

Translation translate(const FamilyInput& input) {
  formats::ConfigProblems problems;
  const formats::ConfigReader reader(input.config, problems);
  Translation result;
  result.config.family = "llama";
  read_llama_sizes(reader, result.config);
  const formats::RawRope rope =
      formats::read_rope(reader, {}, {}, result.config.head_dim);
  translate_rope(rope, problems, result.config);
  if (problems.empty()) check_model_config(result.config, problems);
  problems.throw_if_any(input.where);
  result.encoding_why = "model_type is \"llama\"";
  result.warnings = rope.notes;
  for (const std::string& note : reader.notes()) result.warnings.push_back(note);
  if (const auto notice = formats::remote_code_notice(reader)) result.warnings.push_back(*notice);
  result.place = &llama_place;
  return result;
}

}  // namespace

void read_llama_sizes(const formats::ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.required_integer({"vocab_size"});
  config.width = reader.required_integer({"hidden_size"});
  config.layers = reader.required_integer({"num_hidden_layers"}, formats::kLayerRange);
  config.heads = reader.required_integer({"num_attention_heads"});
  config.ffn_width = reader.required_integer({"intermediate_size"});
  config.kv_heads =
      reader.integer_or({"num_key_value_heads"}, config.heads, formats::kCountRange);
  config.head_dim =
      reader.integer_or({"head_dim"}, config.width / config.heads, formats::kCountRange);
  config.context = reader.integer_or({"max_position_embeddings"}, 2048, formats::kCountRange);
  config.activation = reader.text_or({"hidden_act"}, "silu");
  if (config.activation == "gelu_pytorch_tanh" || config.activation == "gelu_new") {
    config.activation = "gelu_tanh";
  }
  config.norm_eps = reader.number_or({"rms_norm_eps"}, 1e-6, formats::kPositiveRange);
  config.tie_embeddings = reader.boolean_or({"tie_word_embeddings"}, false);
  config.attention_bias = reader.boolean_or({"attention_bias"}, false);
  config.mlp_bias = reader.boolean_or({"mlp_bias"}, false);
  config.init_std = reader.number_or({"initializer_range"}, 0.02, formats::kPositiveRange);
}

TensorPlace llama_place(const std::string& name) {
  // Older conversions store a table that is computed here.
  if (name.ends_with("rotary_emb.inv_freq")) return {.name = name, .ignored = true};
  const bool prefixed = name.starts_with("model.") || name.starts_with("lm_head.");
  return {prefixed ? name : "model." + name};
}

Family llama_family() { return {"llama", &claims, &translate}; }

}  // namespace phasescope::model
