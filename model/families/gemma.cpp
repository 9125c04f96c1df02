#include "model/families/gemma.h"

#include <cmath>
#include <map>
#include <utility>

#include "formats/utf8.h"

namespace phasescope::model {
namespace gemma {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "gemma";
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gemma");
  read_gemma(reading, {.kv_heads = 16, .head_dim = 256, .context = 8192});
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace gemma

void read_gemma(FamilyReader& reading, const LlamaDefaults& defaults) {
  ModelConfig& config = reading.config();
  read_llama_sizes(reading.reader(), config, defaults);
  const std::string named = reading.reader().text_or({"hidden_act"}, "");
  if (!named.empty() && named != "gelu_pytorch_tanh") {
    reading.quirk("the activation is gelu_pytorch_tanh, whatever the file says (" +
                  formats::in_quotes(named) + ")");
  }
  config.mlp.activation = "gelu_tanh";
  config.norm.unit_offset = true;
  config.embedding.scale = std::sqrt(static_cast<double>(config.width));
  if (reading.reader().boolean_or({"use_bidirectional_attention"}, false)) {
    reading.problem("use_bidirectional_attention", "cannot be read yet");
  }
  reading.read_head("lm_head.weight", true);
}

void read_gemma2(FamilyReader& reading, double score_cap, double logit_cap) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  config.norm.placement = "sandwich";
  // These classes read hidden_activation, and no hidden_act.
  config.mlp.activation = reading.activation({"hidden_activation"}, "gelu_pytorch_tanh");
  config.attention.scale =
      1 / std::sqrt(reader.number_or({"query_pre_attn_scalar"}, 256, formats::kPositiveRange));
  // null says none.
  const auto cap = [&](const char* key, double fallback) {
    return reader.raw(key) == nullptr && reading.has_key(key)
               ? 0
               : reader.number_or({key}, fallback, formats::kPositiveRange);
  };
  config.attention.soft_cap = cap("attn_logit_softcapping", score_cap);
  config.head.soft_cap = cap("final_logit_softcapping", logit_cap);
  config.attention.window = reader.integer_or({"sliding_window"}, 4096, formats::kCountRange);
}

TensorPlace gemma2_place(const std::string& name) {
  TensorPlace place = llama_place(name);
  for (const auto& [theirs, ours] :
       {std::pair{".post_attention_layernorm.", ".self_attn.output_layernorm."},
        std::pair{".pre_feedforward_layernorm.", ".post_attention_layernorm."},
        std::pair{".post_feedforward_layernorm.", ".mlp.output_layernorm."}}) {
    const std::size_t at = place.name.find(theirs);
    if (at == std::string::npos) continue;
    place.name.replace(at, std::string(theirs).size(), ours);
    break;
  }
  return place;
}

void read_gemma3_ropes(FamilyReader& reading) {
  reading.read_ropes_by_type(1e6, 1e4, "rope_local_base_freq");
}

void read_gemma_n(FamilyReader& reading, const GemmaNDefaults& defaults) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, defaults.sizes, 1e-6);
  config.mlp.activation = reading.activation({"hidden_activation"}, "gelu_pytorch_tanh");
  config.norm.placement = "sandwich";
  EmbeddingConfig& embedding = config.embedding;
  embedding.scale = std::sqrt(static_cast<double>(config.width));
  embedding.layer_width = reader.integer_or({"hidden_size_per_layer_input"}, 256, {.min = 0});
  embedding.layer_rows =
      reader.integer_or({"vocab_size_per_layer_input"}, 262144, formats::kCountRange);
  if (embedding.layer_width == 0) embedding.layer_rows = 0;
  AttentionConfig& attention = config.attention;
  attention.qk_norm = "head";
  attention.value_norm = true;
  attention.scale = 1;
  attention.window = reader.integer_or({"sliding_window"}, 512, formats::kCountRange);
  const bool no_cap = reader.raw("final_logit_softcapping") == nullptr &&
                      reading.has_key("final_logit_softcapping");
  config.head.soft_cap = no_cap ? 0
                                : reader.number_or({"final_logit_softcapping"}, defaults.logit_cap,
                                                   formats::kPositiveRange);
  const std::int64_t shared =
      reader.integer_or({"num_kv_shared_layers"}, defaults.shared_layers, {.min = 0});
  if (shared >= config.layers && shared > 0) {
    reading.problem("num_kv_shared_layers",
                    "is " + std::to_string(shared) + " of " + std::to_string(config.layers) +
                        " layers, which leaves none that has keys of its own");
    return;
  }
  for (const std::int64_t layer : all_layers(config)) {
    if (layer >= config.layers - shared) attention.shared_layers.push_back(layer);
  }
}

TensorPlace gemma_n_place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  static const std::map<std::string, std::string> names = {
      {"per_layer_input_gate", "layer_input_gate"},
      {"per_layer_projection", "layer_input"},
      {"post_per_layer_input_norm", "layer_input_norm"},
      {"embed_tokens_per_layer", "model.layer_embedding"},
      {"per_layer_model_projection", "model.layer_projection"},
      {"per_layer_projection_norm", "model.layer_projection_norm"},
  };
  const NameParts parts = split_name(renaming, name);
  if (const auto found = names.find(parts.module); found != names.end()) {
    return {parts.layer + found->second + parts.ending};
  }
  const bool of_keys =
      parts.module.starts_with("self_attn.k_") || parts.module.starts_with("self_attn.v_");
  if (of_keys && names_layer(config.attention.shared_layers, layer_of(parts))) {
    return {.name = name,
            .ignored = true,
            .why = "is not used: the layer takes the keys and values of an earlier one"};
  }
  return gemma2_place(name);
}

Family gemma_family() { return {"gemma", &gemma::claims, &gemma::translate}; }

}  // namespace phasescope::model
