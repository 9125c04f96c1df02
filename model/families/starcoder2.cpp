#include "model/families/starcoder2.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace starcoder2 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"starcoder2"}); }

bool every_layer(std::int64_t, std::int64_t) { return true; }

TensorPlace place(const std::string& name) {
  TensorPlace found = llama_place(name);
  for (const auto& [theirs, ours] :
       {std::pair{".mlp.c_fc.", ".mlp.up_proj."}, std::pair{".mlp.c_proj.", ".mlp.down_proj."}}) {
    const std::size_t at = found.name.find(theirs);
    if (at != std::string::npos) found.name.replace(at, std::string(theirs).size(), ours);
  }
  return found;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "starcoder2");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_sizes(reader, config, {.kv_heads = 2, .context = 4096});
  reading.layer_norm({"norm_epsilon"}, 1e-5);
  const bool bias = reading.switch_or("use_bias", true);
  AttentionConfig& attention = config.attention;
  attention.q_bias = attention.k_bias = attention.v_bias = attention.o_bias = bias;
  config.mlp = {.gated = false,
                .activation = reading.activation({"hidden_act"}, "gelu_pytorch_tanh"),
                .up_bias = bias,
                .down_bias = bias};
  attention.window = reader.integer_or({"sliding_window"}, 0, formats::kCountRange);
  if (attention.window > 0) reading.read_local_layers(&every_layer, 0);
  reading.read_head("lm_head.weight", true);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&place);
}

}  // namespace
}  // namespace starcoder2

Family starcoder2_family() { return {"starcoder2", &starcoder2::claims, &starcoder2::translate}; }

}  // namespace phasescope::model
