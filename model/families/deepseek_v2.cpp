#include "model/families/deepseek_v2.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "formats/utf8.h"
#include "model/families/expert_places.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {
namespace deepseek_v2 {
namespace {

bool claims(const FamilyInput& input) { return is_of_type(input.config, {"deepseek_v2"}); }

constexpr double kEps = 1e-6;

// The score's scale, with the square of yarn's magnitude where mscale_all_dim asks for it.
double score_scale(const formats::RawRope& rope, std::int64_t head_dim) {
  const double plain = 1 / std::sqrt(static_cast<double>(head_dim));
  const double all = rope.mscale_all_dim.value_or(0), factor = rope.factor.value_or(1);
  if (rope.type != "yarn" || all == 0 || factor <= 1) return plain;
  const double magnitude = 0.1 * all * std::log(factor) + 1;
  return plain * magnitude * magnitude;
}

// null is none, in place of what the class has.
std::int64_t count_of(const FamilyReader& reading, const char* key, std::int64_t by_class) {
  const formats::ConfigReader& reader = reading.reader();
  return reader.has_or_null(key) ? reader.integer_or({key}, 0, {.min = 0}) : by_class;
}

// Of a size that follows from others and that the file says otherwise.
void warn_of_other_size(FamilyReader& reading, const char* key, std::int64_t own,
                        const char* what) {
  const Json* said = reading.reader().raw(key);
  if (said == nullptr || *said == Json(own)) return;
  reading.warning(reading.reader().prefix() + key + " " + formats::shortened(said->dump(), 60) +
                  " is not read: " + std::to_string(own) + " channels of a head " + what);
}

void read_experts(FamilyReader& reading, const DeepseekDefaults& defaults) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  ExpertsConfig& experts = config.experts;
  const bool none = reader.has_or_null("n_routed_experts") && !reader.has("n_routed_experts");
  experts.count = none ? 0
                       : reader.integer_or({"n_routed_experts", "num_local_experts", "num_experts"},
                                           defaults.experts, {.min = 0});
  if (experts.count == 0) return;
  experts.per_token =
      defaults.per_token == 0
          ? reader.required_integer({"num_experts_per_tok"})
          : reader.integer_or({"num_experts_per_tok"}, defaults.per_token, formats::kCountRange);
  experts.width =
      reader.integer_or({"moe_intermediate_size"}, defaults.expert_width, formats::kCountRange);
  experts.shared_width =
      experts.width * count_of(reading, "n_shared_experts", defaults.shared_experts);
  experts.scale =
      reader.number_or({"routed_scaling_factor"}, defaults.routed_scale, formats::kPositiveRange);
  const std::int64_t dense =
      reader.integer_or({"first_k_dense_replace"}, defaults.dense_layers, {.min = 0});
  const std::int64_t step = reader.integer_or({"moe_layer_freq"}, 1, formats::kCountRange);
  if (step != 1) reading.problem("moe_layer_freq", "only 1 can be read");
  for (const std::int64_t layer : all_layers(config)) {
    if (layer >= dense) experts.layers.push_back(layer);
  }
}

// A head's rows [without position | position], which we have the other way round.
TensorPlace turned_heads(TensorPlace place, const ModelConfig& config, std::int64_t in) {
  const std::int64_t heads = config.heads, head_dim = config.head_dim,
                     position = config.attention.position_dim;
  place.convert = [=](const at::Tensor& x) {
    const at::Tensor rows = x.unflatten(0, {heads, head_dim});
    return at::cat({rows.narrow(1, head_dim - position, position),
                    rows.narrow(1, 0, head_dim - position)},
                   1)
        .flatten(0, 1);
  };
  place.stored = {heads * head_dim, in};
  return place;
}

Translation translate(const FamilyInput& input) {
  FamilyReader reading(input, "deepseek_v2");
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  read_deepseek(reading, "interleaved",
                {.context = 2048,
                 .experts = 64,
                 .shared_experts = 2,
                 .expert_width = 1407,
                 .dense_layers = 0,
                 .per_token = 0,
                 .routed_scale = 1.0});
  require_word(reading, "scoring_func", "softmax");
  const std::int64_t groups = reader.integer_or({"n_group"}, 1, formats::kCountRange);
  const std::int64_t best = reader.integer_or({"topk_group"}, 1, formats::kCountRange);
  if (reader.text_or({"topk_method"}, "greedy") == "group_limited_greedy") {
    for (const char* key : {"n_group", "topk_group"}) {
      if (!reader.has(key)) reading.problem(key, "is missing, and experts are chosen by groups");
    }
    config.experts.groups = groups, config.experts.groups_per_token = best;
  } else if (reader.text_or({"topk_method"}, "greedy") != "greedy") {
    reading.problem("topk_method", formats::in_quotes(reader.text_or({"topk_method"}, "")) +
                                       " is not known; known: greedy, group_limited_greedy");
  }
  if (reader.boolean_or({"norm_topk_prob"}, false)) {
    reading.quirk(
        "norm_topk_prob is not read by the library: experts' weights are not divided "
        "by their sum");
  }
  const ModelConfig sizes = config;
  return reading.finish([sizes](const std::string& name) { return deepseek_place(sizes, name); });
}

}  // namespace
}  // namespace deepseek_v2

void require_word(FamilyReader& reading, const char* key, const char* own) {
  const std::string named = reading.reader().text_or({key}, own);
  if (named == own) return;
  reading.problem(key, formats::in_quotes(named) + " is not known; known: " + own);
}

void read_deepseek(FamilyReader& reading, const char* layout, const DeepseekDefaults& defaults) {
  const formats::ConfigReader& reader = reading.reader();
  ModelConfig& config = reading.config();
  AttentionConfig& attention = config.attention;
  read_llama_part(reading, {.context = defaults.context}, deepseek_v2::kEps);
  reading.refuse("attention_bias", "latent attention with biases");
  reading.refuse("mlp_bias", "experts with biases");
  config.kv_heads = config.heads;
  attention.kv_rank = reader.integer_or({"kv_lora_rank"}, 512, formats::kCountRange);
  attention.q_rank = deepseek_v2::count_of(reading, "q_lora_rank", 1536);
  attention.position_dim = reader.integer_or({"qk_rope_head_dim"}, 64, formats::kCountRange);
  attention.value_dim = reader.integer_or({"v_head_dim"}, 128, formats::kCountRange);
  const std::int64_t content = reader.integer_or({"qk_nope_head_dim"}, 128, formats::kCountRange);
  config.head_dim = content + attention.position_dim;
  // Files have both beside what they are made of; the library's own value of them comes from there.
  deepseek_v2::warn_of_other_size(reading, "head_dim", attention.position_dim, "turn");
  deepseek_v2::warn_of_other_size(reading, "qk_head_dim", config.head_dim, "make a query");
  formats::RawRope rope =
      formats::read_rope(reader, kWholeHeads, {},
                         reading.channels_in_pairs("qk_rope_head_dim", attention.position_dim));
  if (rope.partial_rotary_factor != 1 || rope.type == "proportional") {
    reading.problem(rope.type == "proportional" ? "rope_type" : "partial_rotary_factor",
                    "latent attention turns all of a head's qk_rope_head_dim channels");
  }
  rope.partial_rotary_factor =
      static_cast<double>(attention.position_dim) / static_cast<double>(config.head_dim);
  reading.set_rope(rope, layout);
  attention.scale = deepseek_v2::score_scale(rope, config.head_dim);
  deepseek_v2::read_experts(reading, defaults);
  reading.read_head("lm_head.weight", false);
}

TensorPlace deepseek_place(const ModelConfig& config, const std::string& name) {
  static const Renaming renaming = {{"model."}, "layers.", {}, {}, {}};
  const NameParts parts = split_name(renaming, name);
  if (layer_of(parts) >= config.layers) return of_further_tokens(name);
  if (is_fused_experts(parts)) return fused_experts(parts, config);
  TensorPlace found = llama_place(name);
  const std::size_t shared = found.name.find(".mlp.shared_experts.");
  if (shared != std::string::npos) found.name.replace(shared, 20, ".mlp.shared_expert.");
  if (parts.module == "mlp.gate") {
    found.name =
        parts.layer + (parts.ending == ".e_score_correction_bias" ? "mlp.router.choice_bias"
                                                                  : "mlp.router" + parts.ending);
  }
  if (parts.module == "self_attn.q_proj") {
    return deepseek_v2::turned_heads(std::move(found), config, config.width);
  }
  if (parts.module == "self_attn.q_b_proj") {
    return deepseek_v2::turned_heads(std::move(found), config, config.attention.q_rank);
  }
  return found;
}

Family deepseek_v2_family() {
  return {"deepseek_v2", &deepseek_v2::claims, &deepseek_v2::translate};
}

}  // namespace phasescope::model
