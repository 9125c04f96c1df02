#include "model/families/stablelm.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace stablelm {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"stablelm"}); }

// A norm of q and of k for each head: "self_attn.q_layernorm.norms.3.weight".
TensorPlace place(const std::string& name) {
  TensorPlace found = llama_place(name);
  for (const auto& [theirs, ours] : {std::pair{".q_layernorm.norms.", ".q_norm."},
                                     std::pair{".k_layernorm.norms.", ".k_norm."}}) {
    const std::size_t at = found.name.find(theirs);
    if (at != std::string::npos) found.name.replace(at, std::string(theirs).size(), ours);
  }
  return found;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "stablelm");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 32, .context = 4096}, 1e-5);
  reading.layer_norm({"layer_norm_eps"}, 1e-5);
  AttentionConfig& attention = config.attention;
  attention.q_bias = reader.boolean_or({"use_qkv_bias"}, false);
  attention.k_bias = attention.v_bias = attention.q_bias;
  attention.o_bias = false;
  if (reader.boolean_or({"qk_layernorm"}, false)) attention.qk_norm = "each";
  if (reader.boolean_or({"use_parallel_residual"}, false)) config.residual = "parallel_shared";
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.partial_rotary_factor = 0.25}, "half");
  return reading.finish(&place);
}

}  // namespace
}  // namespace stablelm

Family stablelm_family() { return {"stablelm", &stablelm::claims, &stablelm::translate}; }

}  // namespace phasescope::model
