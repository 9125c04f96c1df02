#include "model/families/mixtral.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace mixtral {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"mixtral"}); }

bool every_layer(std::int64_t, std::int64_t) { return true; }

// w1 is the gate, w3 goes up, w2 down.
TensorPlace place(const std::string& name) {
  TensorPlace found = llama_place(name);
  for (const auto& [theirs, ours] :
       {std::pair{".block_sparse_moe.gate.", ".mlp.router."},
        std::pair{".block_sparse_moe.experts.", ".mlp.experts."}, std::pair{".w1.", ".gate_proj."},
        std::pair{".w2.", ".down_proj."}, std::pair{".w3.", ".up_proj."}}) {
    const std::size_t at = found.name.find(theirs);
    if (at != std::string::npos) found.name.replace(at, std::string(theirs).size(), ours);
  }
  return found;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "mixtral");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .context = 131072}, 1e-5);
  config.experts.count =
      reader.integer_or({"num_local_experts", "num_experts"}, 8, formats::kCountRange);
  config.experts.per_token = reader.integer_or({"num_experts_per_tok"}, 2, formats::kCountRange);
  config.experts.width = config.ffn_width;
  config.experts.normalised = true;
  config.experts.layers = all_layers(config);
  config.attention.window = reader.integer_or({"sliding_window"}, 0, formats::kCountRange);
  if (config.attention.window > 0) reading.read_local_layers(&every_layer, 0);
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.theta = 1e6, .whole_when_default = true}, "half");
  return reading.finish(&place);
}

}  // namespace
}  // namespace mixtral

Family mixtral_family() { return {"mixtral", &mixtral::claims, &mixtral::translate}; }

}  // namespace phasescope::model
