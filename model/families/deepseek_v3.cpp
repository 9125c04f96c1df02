#include "model/families/deepseek_v3.h"

#include "model/families/deepseek_v2.h"
#include "model/families/family_reader.h"

namespace phasescope::model {
namespace deepseek_v3 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"deepseek_v3"}); }

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "deepseek_v3");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  // The library writes turned pairs as halves, in q and k alike: the scores are the same.
  read_deepseek(reading, reading.switch_or("rope_interleave", true) ? "interleaved" : "half",
                {.context = 4096,
                 .experts = 256,
                 .shared_experts = 1,
                 .expert_width = 2048,
                 .dense_layers = 3,
                 .per_token = 8,
                 .routed_scale = 2.5});
  require_word(reading, "scoring_func", "sigmoid");
  require_word(reading, "topk_method", "noaux_tc");
  ExpertsConfig& experts = config.experts;
  experts.router = "sigmoid";
  experts.choice_bias = experts.groups_by_two = true;
  experts.normalised = reading.switch_or("norm_topk_prob", true);
  experts.groups = reader.integer_or({"n_group"}, 8, formats::kCountRange);
  experts.groups_per_token = reader.integer_or({"topk_group"}, 4, formats::kCountRange);
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return deepseek_place(sizes, name); });
}

}  // namespace
}  // namespace deepseek_v3

Family deepseek_v3_family() {
  return {"deepseek_v3", &deepseek_v3::claims, &deepseek_v3::translate};
}

}  // namespace phasescope::model
