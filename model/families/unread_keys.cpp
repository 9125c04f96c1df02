#include "model/families/unread_keys.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "formats/utf8.h"
#include "model/families/family_reader.h"

namespace phasescope::model {
namespace {

// As Python takes a value for true.
bool is_true(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return !value.empty();
}

bool is_rope(const ModelConfig& config) { return config.encoding.key == "rope"; }

bool has_other_pairs(const Json& value, const ModelConfig& config) {
  return is_rope(config) &&
         is_true(value) != (config.encoding.options.value("layout", "half") == "interleaved");
}

bool has_other_positions(const Json& value, const ModelConfig& config) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {
      {{"rope", "rope"},
       {"rope_gptj", "rope"},
       {"rotary", "rope"},
       {"absolute", "learned"},
       {"learned", "learned"},
       {"learned_absolute", "learned"},
       {"alibi", "alibi"},
       {"none", "none"},
       {"nope", "none"}}};
  if (!value.is_string()) return true;
  const std::string name = value.get<std::string>();
  return std::ranges::none_of(kNames, [&](const auto& known) {
    return known.first == name && known.second == config.encoding.key;
  });
}

bool has_other_norms(const Json& value, const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  return is_true(value) != (attention.qk_norm != "none" || attention.qk_norm_after);
}

// A base, or the part of a head that turns, of the layers that slide (`local`) or of the others.
bool is_other_setting(const Json& value, const ModelConfig& config, const char* option,
                      bool local = false) {
  if (!is_rope(config) || value.is_null()) return false;
  const bool own = local && config.local_encoding.has_value();
  const Json& options = own ? config.local_encoding->options : config.encoding.options;
  // A part of the heads may be a share of the planes (family_reader.cpp).
  return !value.is_number() ||
         value != options.value(option, options.value("turning_planes", Json(1.0)));
}

// One that is right for a kind of layers is about these.
bool is_other_part(const Json& value, const ModelConfig& config) {
  return is_other_setting(value, config, "partial_rotary_factor") &&
         is_other_setting(value, config, "partial_rotary_factor", true);
}

// Of models that do not turn, files have the plain rope of a class's defaults too.
bool has_other_rope(const Json& value, const ModelConfig& config) {
  if (is_rope(config) || !value.is_object()) return is_true(value);
  for (const char* key : {"rope_type", "type"}) {
    if (const auto found = value.find(key); found != value.end()) return *found != "default";
  }
  return false;
}

bool has_no_experts(const Json& value, const ModelConfig& config) {
  return is_true(value) && config.experts.layers.empty();
}

struct UnreadKey {
  const char* key;
  // Whether the value says something else than what the model has.
  bool (*tells)(const Json& value, const ModelConfig& config);
  const char* sentence;
};

constexpr UnreadKey kUnreadKeys[] = {
    {"rope_interleave", &has_other_pairs,
     "the channels of a pair lie as this family has them in every file"},
    {"rope_theta",
     [](const Json& value, const ModelConfig& config) {
       return is_other_setting(value, config, "base");
     },
     "the base is that of the layers' own ropes, or of the class"},
    {"swa_rope_theta",
     [](const Json& value, const ModelConfig& config) {
       return is_other_setting(value, config, "base", true);
     },
     "the base is that of the layers' own ropes, or of the class"},
    {"partial_rotary_factor", &is_other_part, "heads turn as far as the family has it"},
    {"rope_percent", &is_other_part, "heads turn as far as the family has it"},
    {"rotary_scaling_factor",
     [](const Json& value, const ModelConfig& config) {
       return is_rope(config) && value != Json(1.0);
     },
     "positions are not scaled by it"},
    {"use_rope",
     [](const Json& value, const ModelConfig& config) { return is_true(value) != is_rope(config); },
     "layers turn as this family has it"},
    {"use_mrope",
     [](const Json& value, const ModelConfig& config) {
       return is_true(value) && !config.encoding.options.contains("sections");
     },
     "a token has one position"},
    {"llama_4_scaling_beta", [](const Json& value, const ModelConfig&) { return is_true(value); },
     "queries are not scaled by their position"},
    {"attn_temperature_tuning",
     [](const Json& value, const ModelConfig&) { return is_true(value); },
     "queries are not scaled by their position"},
    {"alibi",
     [](const Json& value, const ModelConfig& config) {
       return is_true(value) != (config.encoding.key == "alibi");
     },
     "positions are as this family has them"},
    {"position_embedding_type", &has_other_positions, "positions are as this family has them"},
    {"attention_chunk_size", [](const Json& value, const ModelConfig&) { return is_true(value); },
     "this family has no such chunks"},
    {"use_sliding_window",
     [](const Json& value, const ModelConfig& config) {
       return is_true(value) != (config.attention.window > 0);
     },
     "windows are as this family has them"},
    {"sliding_window", [](const Json& value, const ModelConfig&) { return is_true(value); },
     "this family has no such window"},
    {"attn_logit_softcapping",
     [](const Json& value, const ModelConfig& config) {
       return is_true(value) && value != config.attention.soft_cap;
     },
     "scores are capped as this family has it"},
    {"attention_multiplier",
     [](const Json& value, const ModelConfig& config) {
       return is_true(value) && value != config.score_scale();
     },
     "scores are scaled as this family has it"},
    {"use_qk_norm", &has_other_norms, "q and k are normed as this family has it"},
    {"qk_layernorm", &has_other_norms, "q and k are normed as this family has it"},
    {"add_full_attention_sink_bias",
     [](const Json& value, const ModelConfig& config) {
       const AttentionConfig& attention = config.attention;
       const bool has = std::ranges::any_of(
           attention.sink_layers, [&](std::int64_t layer) { return !config.is_local(layer); });
       return is_true(value) != has;
     },
     "layers that see everything have sinks as this family has them"},
    {"add_swa_attention_sink_bias",
     [](const Json& value, const ModelConfig& config) {
       const AttentionConfig& attention = config.attention;
       const bool has = std::ranges::any_of(
           attention.sink_layers, [&](std::int64_t layer) { return config.is_local(layer); });
       return is_true(value) != has && !attention.local_layers.empty();
     },
     "layers that slide have sinks as this family has them"},
    {"per_layer_config", [](const Json& value, const ModelConfig&) { return is_true(value); },
     "layers have the sizes that the rest of the file gives"},
    {"rope_scaling", &has_other_rope, "it says nothing to this family"},
    {"rope_parameters", &has_other_rope, "it says nothing to this family"},
    {"num_experts", &has_no_experts, "layers have one MLP each"},
    {"num_local_experts", &has_no_experts, "layers have one MLP each"},
    {"n_routed_experts", &has_no_experts, "layers have one MLP each"},
};

bool is_other(const Json& value, double own) {
  return !value.is_number() || value.get<double>() != own;
}

bool is_other_choice(const Json& value, const ExpertsConfig& experts) {
  const char* own = experts.choice_bias  ? "noaux_tc"
                    : experts.groups > 1 ? "group_limited_greedy"
                                         : "greedy";
  return value != own;
}

struct RouterKey {
  const char* key;
  bool (*contradicts)(const Json& value, const ExpertsConfig& experts);
  const char* what;
};

constexpr RouterKey kRouterKeys[] = {
    {"scoring_func",
     [](const Json& value, const ExpertsConfig& experts) { return value != experts.router; },
     "the function that makes weights of a router's logits"},
    {"topk_method", &is_other_choice, "the way in which experts are chosen"},
    {"norm_topk_prob",
     [](const Json& value, const ExpertsConfig& experts) {
       return is_true(value) != experts.normalised;
     },
     "whether weights are divided by their sum"},
    {"routed_scaling_factor",
     [](const Json& value, const ExpertsConfig& experts) { return is_other(value, experts.scale); },
     "what weights are multiplied by"},
    {"n_group",
     [](const Json& value, const ExpertsConfig& experts) {
       return is_other(value, static_cast<double>(experts.groups));
     },
     "the number of groups that experts stand in"},
    {"topk_group",
     [](const Json& value, const ExpertsConfig& experts) {
       return experts.groups > 1 && is_other(value, static_cast<double>(experts.groups_per_token));
     },
     "the number of groups that a token has"},
};

// Of positions, of what layers see, of the scores' scale, of norms and of routers. A null base is
// read_rope's, a null window FamilyReader::require_window's.
constexpr std::string_view kNullSaysNothing[] = {"rope_parameters",
                                                 "partial_rotary_factor",
                                                 "rotary_pct",
                                                 "layer_types",
                                                 "mlp_layer_types",
                                                 "no_rope_layers",
                                                 "no_rope_layer_interval",
                                                 "sliding_window_pattern",
                                                 "full_attention_interval",
                                                 "attn_scale",
                                                 "floor_scale",
                                                 "query_pre_attn_scalar",
                                                 "attention_multiplier",
                                                 "embedding_multiplier",
                                                 "residual_multiplier",
                                                 "logits_scaling",
                                                 "global_head_dim",
                                                 "qk_rope_head_dim",
                                                 "qk_nope_head_dim",
                                                 "v_head_dim",
                                                 "kv_lora_rank",
                                                 "d_rel",
                                                 "rel_extent",
                                                 "log_scaling_alpha",
                                                 "rms_norm_eps",
                                                 "layer_norm_eps",
                                                 "layer_norm_epsilon",
                                                 "norm_epsilon",
                                                 "norm_eps",
                                                 "hidden_act",
                                                 "num_experts_per_tok",
                                                 "first_k_dense_replace",
                                                 "n_group",
                                                 "topk_group",
                                                 "num_kv_shared_layers"};

std::string shown(const std::string& key, const Json& value) {
  return key + " " + formats::shortened(value.dump(), 60) + " is not read";
}

// Every rope of the text that could be the same as one outside.
bool text_has(const Json& text, const std::string& key, const Json& value) {
  if (text.value(key, Json()) == value) return true;
  for (const char* inner : {"rope_parameters", "rope_scaling"}) {
    const Json rope = text.value(inner, Json());
    if (!rope.is_object()) continue;
    if (key == "rope_theta" ? rope.value(key, Json()) == value : rope == value) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> unread_key_warnings(const formats::ConfigReader& reader,
                                             const ModelConfig& config) {
  std::vector<std::string> list;
  for (const UnreadKey& one : kUnreadKeys) {
    const Json* value = reader.unasked(one.key);
    if (value == nullptr || !one.tells(*value, config)) continue;
    list.push_back(reader.prefix() + shown(one.key, *value) + ": " + one.sentence);
  }
  if (!is_rope(config)) return list;
  // A rope that stays unread is a wrong one without a word.
  for (const std::string& key : reader.unread({"rope", "rotary", "theta"})) {
    const bool declared =
        std::ranges::any_of(kUnreadKeys, [&](const UnreadKey& one) { return key == one.key; });
    if (!declared) list.push_back(reader.prefix() + shown(key, *reader.raw(key)));
  }
  return list;
}

std::vector<std::string> null_key_warnings(const formats::ConfigReader& reader,
                                           const ModelConfig& config) {
  std::vector<std::string> list;
  for (const std::string_view key : kNullSaysNothing) {
    // Where no layer slides it says as much.
    if (key == "sliding_window_pattern" && config.attention.window == 0) continue;
    if (!reader.has_or_null(key) || reader.has(key)) continue;
    list.push_back(reader.prefix() + std::string(key) +
                   " is null: it is read as if it were not there");
  }
  return list;
}

std::vector<std::pair<std::string, std::string>> unread_router_problems(
    const formats::ConfigReader& reader, const ModelConfig& config) {
  std::vector<std::pair<std::string, std::string>> list;
  if (config.experts.count == 0) return list;
  for (const RouterKey& one : kRouterKeys) {
    const Json* value = reader.unasked(one.key);
    if (value == nullptr || !one.contradicts(*value, config.experts)) continue;
    list.emplace_back(one.key, formats::shortened(value->dump(), 60) +
                                   " cannot be read: " + one.what + " is this family's own");
  }
  return list;
}

std::vector<std::string> unread_wrapper_ropes(const Json& whole) {
  std::vector<std::string> list;
  const Json& text = text_part(whole);
  if (&text == &whole) return list;
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) {
    const Json value = whole.value(key, Json());
    const bool says_nothing = value.is_null() || (value.is_structured() && value.empty());
    if (says_nothing || text_has(text, key, value)) continue;
    list.push_back(shown(key, value) + ": the language model's rope is that of text_config");
  }
  return list;
}

}  // namespace phasescope::model
