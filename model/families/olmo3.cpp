#include "model/families/olmo3.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"
#include "model/families/olmo2.h"

namespace phasescope::model {
namespace olmo3 {
namespace {

bool claims(const FamilyInput& input) { return names_trunk(input, {"olmo3"}); }

constexpr formats::RopeDefaults kDefaults{.theta = 5e5, .whole_when_default = true};

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
  // In older files what they say of rope is of the full layers alone.
  const bool nested = reader.has("rope_parameters");
  const formats::RawRope full =
      nested ? reading.rope_of_type("full_attention", kDefaults, config.head_dim)
             : formats::read_rope(reader, kDefaults, {}, config.head_dim);
  const formats::RawRope sliding =
      reading.rope_of_type("sliding_attention", kDefaults, config.head_dim);
  reading.set_rope(full, "half");
  reading.note_clashes(sliding);
  config.local_encoding = rope_encoding(sliding, "half", config.context);
  return reading.finish(&output_norm_place);
}

}  // namespace
}  // namespace olmo3

Family olmo3_family() { return {"olmo3", &olmo3::claims, &olmo3::translate}; }

}  // namespace phasescope::model
