#include "model/families/olmo2.h"

#include <utility>

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace olmo2 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"olmo2"}); }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "olmo2");
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.context = 2048}, 1e-5);
  config.norm.placement = "output";
  config.attention.qk_norm = "full";
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&output_norm_place);
}

}  // namespace
}  // namespace olmo2

TensorPlace output_norm_place(const std::string& name) {
  TensorPlace place = llama_place(name);
  for (const auto& [theirs, ours] :
       {std::pair{".post_attention_layernorm.", ".self_attn.output_layernorm."},
        std::pair{".post_feedforward_layernorm.", ".mlp.output_layernorm."}}) {
    const std::size_t at = place.name.find(theirs);
    if (at != std::string::npos) place.name.replace(at, std::string(theirs).size(), ours);
  }
  return place;
}

Family olmo2_family() { return {"olmo2", &olmo2::claims, &olmo2::translate}; }

}  // namespace phasescope::model
