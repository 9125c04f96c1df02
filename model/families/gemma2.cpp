#include "model/families/gemma2.h"

#include "model/families/gemma.h"

namespace phasescope::model {
namespace gemma2 {
namespace {

bool claims(const FamilyInput& input) {
  return input.config.value("model_type", Json()) == "gemma2";
}

bool even(std::int64_t layer, std::int64_t) { return layer % 2 == 0; }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gemma2");
  read_gemma(reading, {.kv_heads = 4, .head_dim = 256, .context = 8192});
  read_gemma2(reading, 50.0, 30.0);
  reading.read_local_layers(&even, 0);
  reading.read_rope(kWholeHeads, "half");
  return reading.finish(&gemma2_place);
}

}  // namespace
}  // namespace gemma2

Family gemma2_family() { return {"gemma2", &gemma2::claims, &gemma2::translate}; }

}  // namespace phasescope::model
