#include "model/families/gpt_oss.h"

#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace gpt_oss {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"gpt_oss"}); }

constexpr double kTheta = 150000;

bool even(std::int64_t layer, std::int64_t) { return layer % 2 == 0; }

// Experts lie as (E, in, out); gate and up stand in alternate columns.
TensorPlace alternate_experts(const NameParts& parts, const ModelConfig& config) {
  const std::int64_t count = config.experts.count, width = config.experts.width;
  const bool bias = parts.ending.ends_with("_bias");
  const char* ending = bias ? ".bias" : ".weight";
  if (parts.ending.starts_with(".down_proj")) {
    const std::vector<std::int64_t> stored =
        bias ? std::vector<std::int64_t>{count, config.width}
             : std::vector<std::int64_t>{count, width, config.width};
    return of_experts(
        parts, count, "down_proj", [bias](const at::Tensor& x) { return bias ? x : x.t(); }, stored,
        ending);
  }
  const std::vector<std::int64_t> stored =
      bias ? std::vector<std::int64_t>{count, 2 * width}
           : std::vector<std::int64_t>{count, config.width, 2 * width};
  const auto every_second = [bias](std::int64_t first) {
    return [bias, first](const at::Tensor& x) {
      return (bias ? x : x.t()).slice(0, first, x.size(-1), 2);
    };
  };
  return and_also(of_experts(parts, count, "gate_proj", every_second(0), stored, ending),
                  of_experts(parts, count, "up_proj", every_second(1), stored, ending));
}

TensorPlace place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  return parts.module == "mlp.experts" ? alternate_experts(parts, config) : llama_place(name);
}

formats::RawRope rope_of(FamilyReader& reading) {
  const formats::ConfigReader& reader = reading.reader();
  if (reading.says_rope()) {
    const formats::RawRope rope = formats::read_rope(
        reader, {.theta = kTheta, .whole_when_default = true}, {}, reading.config().head_dim);
    reading.require_whole_heads(rope);
    return rope;
  }
  formats::RawRope rope;  // the class's own, also beside a rope_theta
  rope.type = "yarn";
  if (reading.has_key("rope_theta") && !reader.has("rope_theta")) {
    reading.warning("rope_theta is null, on which transformers fails: the base is 150000");
  }
  rope.theta = reader.number_or({"rope_theta"}, kTheta, formats::kPositiveRange);
  rope.factor = 32, rope.original_max_position_embeddings = 4096;
  rope.beta_fast = 32, rope.beta_slow = 1;
  rope.truncate = false;
  reading.warn_of_own_rope(rope);
  return rope;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "gpt_oss");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_llama_part(reading, {.kv_heads = 8, .head_dim = 64, .context = 131072}, 1e-5);
  AttentionConfig& attention = config.attention;
  attention.q_bias = reading.switch_or("attention_bias", true);
  attention.k_bias = attention.v_bias = attention.o_bias = attention.q_bias;
  attention.window = reader.integer_or({"sliding_window"}, 128, formats::kCountRange);
  attention.sink_layers = all_layers(config);
  reading.read_local_layers(&even, 0);
  ExpertsConfig& experts = config.experts;
  experts.count =
      reader.integer_or({"num_local_experts", "num_experts"}, 128, formats::kCountRange);
  experts.per_token =
      reader.integer_or({"num_experts_per_tok", "experts_per_token"}, 4, formats::kCountRange);
  experts.width = config.ffn_width;
  experts.layers = all_layers(config);
  experts.normalised = experts.router_bias = experts.bias = true;
  experts.limit = reader.number_or({"swiglu_limit"}, 7.0, formats::kPositiveRange);
  experts.alpha = reader.number_or({"swiglu_alpha"}, 1.702, formats::kPositiveRange);
  reading.read_head("lm_head.weight", false);
  reading.set_rope(rope_of(reading), "half");
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return place(sizes, name); });
}

}  // namespace
}  // namespace gpt_oss

Family gpt_oss_family() { return {"gpt_oss", &gpt_oss::claims, &gpt_oss::translate}; }

}  // namespace phasescope::model
