#include "model/families/gemma.h"

#include <cmath>
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
  const std::string named = reading.reader().text_or({"hidden_activation", "hidden_act"}, "");
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

Family gemma_family() { return {"gemma", &gemma::claims, &gemma::translate}; }

}  // namespace phasescope::model
