#include "model/families/granite.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace granite {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"granite"}); }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "granite");
  read_llama_part(reading, {.context = 2048}, 1e-6);
  read_granite(reading);
  reading.read_head("lm_head.weight", false);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace granite

void read_granite(FamilyReader& reading) {
  ModelConfig& config = reading.config();
  const auto number = [&](const char* key) {
    return reading.reader().number_or({key}, 1.0, formats::kPositiveRange);
  };
  config.embedding.scale = number("embedding_multiplier");
  config.attention.scale = number("attention_multiplier");
  config.residual_scale = number("residual_multiplier");
  config.head.scale = 1 / number("logits_scaling");
}

Family granite_family() { return {"granite", &granite::claims, &granite::translate}; }

}  // namespace phasescope::model
