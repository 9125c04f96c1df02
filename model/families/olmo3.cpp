#include "model/families/olmo3.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/olmo2.h"

namespace phasescope::model {
namespace olmo3 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"olmo3"}); }

constexpr double kTheta = 5e5;

bool but_every_fourth(std::int64_t layer, std::int64_t) { return (layer + 1) % 4 != 0; }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "olmo3");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.context = 2048}, 1e-5);
  config.norm.placement = "output";
  config.attention.qk_norm = "full";
  config.attention.window = reader.integer_or({"sliding_window"}, 4096, formats::kCountRange);
  reading.read_local_layers(&but_every_fourth, 0);
  reading.read_head("lm_head.weight", false);
  reading.read_ropes_by_type(kTheta, kTheta, "");
  return reading.finish(&output_norm_place);
}

}  // namespace
}  // namespace olmo3

Family olmo3_family() { return {"olmo3", &olmo3::claims, &olmo3::translate}; }

}  // namespace phasescope::model
