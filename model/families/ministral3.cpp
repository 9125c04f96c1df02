#include "model/families/ministral3.h"

#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace ministral3 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"ministral3"}); }

// What the class has where a file says nothing of rope.
formats::RawRope class_rope(FamilyReader& reading) {
  formats::RawRope rope;
  rope.type = "yarn";
  rope.theta = 1e6;
  rope.factor = 16, rope.original_max_position_embeddings = 16384;
  rope.beta_fast = 32, rope.beta_slow = 1;
  rope.mscale = rope.mscale_all_dim = 1;
  rope.llama_4_scaling_beta = 0.1;
  reading.warn_of_own_rope(rope);
  return rope;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "ministral3");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .head_dim = 128, .context = 262144}, 1e-5);
  const std::int64_t window = reader.integer_or({"sliding_window"}, 0, formats::kCountRange);
  if (window > 0) {
    config.attention.window = window;
    reading.read_local_layers([](std::int64_t, std::int64_t) { return true; }, 0);
  }
  reading.read_head("lm_head.weight", false);
  // A rope that says no base has the library's, not that of the class's own rope.
  const formats::RawRope rope =
      reading.says_rope()
          ? formats::read_rope(reader,
                               {.theta = 1e4, .whole_when_default = true, .scales_queries = true},
                               {}, config.head_dim)
          : class_rope(reading);
  reading.set_rope(rope, "half");
  config.attention.temperature = rope.llama_4_scaling_beta.value_or(0);
  config.attention.temperature_length =
      static_cast<double>(rope.original_max_position_embeddings.value_or(config.context));
  return reading.finish(&llama_place);
}

}  // namespace
}  // namespace ministral3

Family ministral3_family() { return {"ministral3", &ministral3::claims, &ministral3::translate}; }

}  // namespace phasescope::model
