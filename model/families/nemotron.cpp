#include "model/families/nemotron.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace nemotron {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"nemotron"}); }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "nemotron");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_sizes(reader, config, {.context = 4096});
  reading.layer_norm({"norm_eps"}, 1e-5);
  config.norm.unit_offset = true;
  config.mlp.gated = false;
  config.mlp.activation = reading.activation({"hidden_act"}, "relu2");
  reading.read_head("lm_head.weight", false);
  reading.read_rope({.partial_rotary_factor = 0.5}, "half");
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace nemotron

Family nemotron_family() { return {"nemotron", &nemotron::claims, &nemotron::translate}; }

}  // namespace phasescope::model
