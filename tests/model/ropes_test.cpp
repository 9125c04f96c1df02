// Which of several rope settings of a configuration wins, and what that turns: against what the
// classes of transformers 5.23 make of the same files (tests/data/hf/make_ropes.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "golden.h"
#include "model/families/family.h"
#include "model/rope_plan.h"
#include "tests/model/translated.h"

namespace phasescope::model {
namespace {

// Shorter than every trained length, so that longrope has its short factors, as the reference.
constexpr std::int64_t kLength = 8;

// None where it is refused.
std::optional<Translation> read_alone(const Json& config) {
  try {
    return translated(config);
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input") << error.full_text();
    return std::nullopt;
  }
}

const RopePlanRow* row_of_layer(const std::vector<RopePlanRow>& plan, std::int64_t layer) {
  const auto found = std::ranges::find_if(plan, [layer](const RopePlanRow& row) {
    return std::ranges::binary_search(row.layers, layer);
  });
  return found == plan.end() ? nullptr : &*found;
}

void expect_same_rope(const RopePlanRow& ours, const Json& theirs) {
  const Json& frequencies = theirs.at("frequencies");
  ASSERT_EQ(ours.frequencies.size(), frequencies.size());
  // Both in float64, from powers and ramps that cancel by a digit or two.
  constexpr double kTolerance = 1e-12;
  for (std::size_t m = 0; m < frequencies.size(); ++m) {
    const double exact = frequencies.at(m).get<double>();
    EXPECT_NEAR(ours.frequencies[m], exact, kTolerance * std::abs(exact)) << "plane " << m;
  }
  EXPECT_NEAR(ours.magnitude, theirs.at("magnitude").get<double>(), kTolerance);
}

Json changed(const Json& data, const Json& one) {
  Json config = data.at("families").at(one.at("family").get<std::string>());
  const Json& change = data.at("changes").at(one.at("change").get<std::string>());
  for (const Json& key : change.at("remove")) config.erase(key.get<std::string>());
  config.update(change.at("set"));
  return config;
}

TEST(Ropes, AreThoseOfTheLibrarysClassesWhateverAFileSaysWhere) {
  const Json data = formats::json_from_file(golden("hf/ropes.json"));
  std::size_t turned = 0;
  for (const Json& one : data.at("cases")) {
    SCOPED_TRACE(one.at("family").get<std::string>() + ": " + one.at("change").get<std::string>());
    const auto read = read_alone(changed(data, one));
    ASSERT_EQ(read.has_value(), !one.contains("refused"));
    if (!read) continue;
    const std::vector<RopePlanRow> plan = rope_plan(read->config, kLength);
    for (const Json& theirs : one.at("ropes")) {
      for (const Json& layer : theirs.at("layers")) {
        const RopePlanRow* ours = row_of_layer(plan, layer.get<std::int64_t>());
        ASSERT_NE(ours, nullptr);
        if (ours->frequencies.empty()) continue;  // NoPE, a state
        expect_same_rope(*ours, theirs);
        ++turned;
      }
    }
  }
  EXPECT_GT(turned, 500u);
}

Json config_of(const char* family) {
  return formats::json_from_file(golden("hf/ropes.json")).at("families").at(family);
}

bool warns(const Translation& read, const std::string& part) {
  return std::ranges::any_of(read.warnings, [&](const std::string& warning) {
    return warning.find(part) != std::string::npos;
  });
}

// Keys of a rope that nobody reads stand in the load report, those that say nothing do not.
TEST(Ropes, NobodyReadsAreNamed) {
  Json config = config_of("mimo_v2_flash");
  config["swa_rope_theta"] = 20000.0;
  config["use_mrope"] = false;
  config["rope_ratio"] = nullptr;
  const auto read = read_alone(config);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(warns(*read, "swa_rope_theta 20000.0 is not read"));
  EXPECT_FALSE(warns(*read, "use_mrope"));
  EXPECT_FALSE(warns(*read, "rope_ratio"));
  // The hub's own file has the class's ropes under other names.
  config = config_of("mimo_v2_flash");
  config.erase("rope_parameters");
  config.update(
      {{"rope_theta", 5000000}, {"swa_rope_theta", 10000}, {"partial_rotary_factor", 0.334}});
  EXPECT_FALSE(warns(read_alone(config).value(), " is not read"));
  config["rope_theta"] = 1e6;
  EXPECT_TRUE(warns(read_alone(config).value(), "rope_theta 1000000.0 is not read"));
  config["partial_rotary_factor"] = 0.5;
  EXPECT_TRUE(warns(read_alone(config).value(), "partial_rotary_factor 0.5 is not read"));
  config = config_of("llama");
  config["rotary_scaling_factor"] = 1.0;
  EXPECT_FALSE(warns(read_alone(config).value(), " is not read"));
  config["rotary_scaling_factor"] = 2.0;
  EXPECT_TRUE(warns(read_alone(config).value(), "rotary_scaling_factor 2.0 is not read"));
  config = config_of("llama");
  config["rope_parameters"] = {
      {"rope_type", "dynamic"}, {"factor", 2.0}, {"rope_theta", 1e4}, {"alpha", 1000.0}};
  const auto hunyuan = read_alone(config);
  ASSERT_TRUE(hunyuan.has_value());
  EXPECT_TRUE(warns(*hunyuan, "rope_parameters.alpha is a setting of a rope that is not known"));
  config["rope_parameters"] = {{"factor", 8.0}, {"rope_theta", 1e4}};
  EXPECT_TRUE(warns(*read_alone(config), "factor 8.0 changes nothing"));
}

// Keys of other families that change positions or what a layer sees.
TEST(Ropes, OfOtherFamiliesAreNamedWhereTheyAreNotRead) {
  struct Case {
    const char *family, *key;
    Json value, own;  // what the family does anyway says nothing
  };
  for (const Case& c :
       {Case{"llama", "rope_interleave", true, false},
        Case{"llama", "use_rope", false, true},
        Case{"cohere2", "rope_interleave", false, true},
        Case{"llama", "llama_4_scaling_beta", 0.1, 0},
        Case{"llama", "alibi", true, false},
        Case{"llama", "position_embedding_type", "alibi", "rope"},
        Case{"llama", "attn_temperature_tuning", 4, 0},
        Case{"llama", "attention_chunk_size", 8192, nullptr},
        Case{"llama", "use_sliding_window", true, false},
        Case{"llama", "sliding_window", 4096, nullptr},
        Case{"llama", "per_layer_config", {{"1", {{"head_dim", 4}}}}, Json::object()},
        Case{"glm4", "sliding_window", 4096, nullptr},
        Case{"mimo_v2_flash", "add_full_attention_sink_bias", true, false},
        Case{"cohere2", "position_embedding_type", "alibi", "rope_gptj"},
        Case{"llama", "attn_logit_softcapping", 30.0, nullptr},
        Case{"llama", "attention_multiplier", 0.5, 0},
        Case{"llama", "use_qk_norm", true, false},
        Case{"qwen3_next", "use_qk_norm", false, true},
        Case{"llama", "qk_layernorm", true, false},
        Case{"mimo_v2_flash", "add_swa_attention_sink_bias", false, true},
        Case{"deepseek_v3", "use_mrope", true, false}}) {
    Json config = config_of(c.family);
    config[c.key] = c.value;
    const auto read = read_alone(config);
    ASSERT_TRUE(read.has_value()) << c.key;
    const std::string told = std::string(c.key) + " " + c.value.dump() + " is not read: ";
    EXPECT_TRUE(warns(*read, told)) << told;
    config[c.key] = c.own;
    EXPECT_FALSE(warns(read_alone(config).value(), c.key)) << c.key;
  }
  Json deepseek = config_of("deepseek_v3");
  deepseek.update({{"model_type", "deepseek_v2"}, {"rope_interleave", false}});
  EXPECT_TRUE(warns(read_alone(deepseek).value(), "rope_interleave false is not read: "));
  Json config = config_of("llama");
  config["rope_parameters"].update({{"llama_4_scaling_beta", 0.1}, {"mrope_section", {2, 1, 1}}});
  const auto read = read_alone(config);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(warns(*read, "rope_parameters.llama_4_scaling_beta 0.1 is not read"));
  EXPECT_TRUE(warns(*read, "rope_parameters.mrope_section [2,1,1] is not read"));
  EXPECT_FALSE(read->config.encoding.options.contains("sections"));
}

// A family that turns by several positions, with heads of 16 or of 128 that turn as a whole.
Json of_axes(const char* type, std::int64_t head_dim, const Json& rope) {
  Json config = config_of("llama");
  config.update({{"model_type", type}, {"head_dim", head_dim}, {"rope_parameters", rope}});
  return config;
}

TEST(Ropes, OfSeveralPositionsLieAsTheirClassesHaveThem) {
  Json rope = {{"rope_theta", 1e4}, {"mrope_section", {4, 2, 2}}};
  const auto order = [&](const char* type) {
    return read_alone(of_axes(type, 16, rope))
        .value()
        .config.encoding.options.value("section_order", "blocks");
  };
  rope["partial_rotary_factor"] = 1.0;  // Qwen3.5 has a quarter else
  for (const char* type : {"qwen3_vl", "qwen3_5"}) {
    rope.erase("mrope_interleaved");
    EXPECT_EQ(order(type), "interleaved") << type;
    rope["mrope_interleaved"] = false;
    EXPECT_EQ(order(type), "interleaved") << type;
    EXPECT_TRUE(warns(read_alone(of_axes(type, 16, rope)).value(), "its sections interleave"));
  }
  EXPECT_EQ(order("qwen2_vl"), "blocks");
  rope["mrope_interleaved"] = true;
  EXPECT_NE(refusal_of(of_axes("qwen2_vl", 16, rope)).find("lie side by side"), std::string::npos);
  rope["mrope_section"] = {4, 3, 2};
  EXPECT_NE(refusal_of(of_axes("qwen3_vl", 16, rope)).find("has 9 planes, not the 8 planes"),
            std::string::npos);
}

TEST(Ropes, OfSeveralPositionsHaveTheirClassesSections) {
  const Json rope = {{"rope_theta", 1e4}};
  const auto options = [](const Json& config) {
    return read_alone(config).value().config.encoding.options;
  };
  EXPECT_EQ(options(of_axes("qwen3_vl", 128, rope)).at("sections"), Json({24, 20, 20}));
  EXPECT_EQ(options(of_axes("qwen3_5", 256, rope)).at("sections"), Json({11, 11, 10}));
  EXPECT_NE(refusal_of(of_axes("qwen3_vl", 16, rope))
                .find("mrope_section: is missing, and the class's own [24,20,20] do not fit"),
            std::string::npos);
  EXPECT_TRUE(warns(read_alone(of_axes("qwen2_vl", 16, rope)).value(), "mrope_section is missing"));
}

TEST(Ropes, ByLayerTypeThatNoLayerTurnsByAreNamedOrRefused) {
  for (const char* family : {"gemma4_text", "olmo3", "gemma3_text", "laguna"}) {
    Json config = config_of(family);
    EXPECT_FALSE(warns(read_alone(config).value(), "no layer turns by it")) << family;
    config["rope_parameters"]["chunked_attention"] = {{"rope_type", "foo"}, {"rope_theta", 1e4}};
    EXPECT_NE(refusal_of(config).find("rope_parameters.chunked_attention.rope_type: \"foo\" "
                                      "is not a known kind of rope"),
              std::string::npos)
        << family;
    config["rope_parameters"]["chunked_attention"]["rope_type"] = "default";
    config["rope_parameters"]["factor"] = 2.0;
    const auto read = read_alone(config);
    ASSERT_TRUE(read.has_value()) << family;
    EXPECT_TRUE(warns(*read, "rope_parameters.chunked_attention is the rope of a kind of layer"));
    EXPECT_TRUE(warns(*read, "rope_parameters.factor stands outside the ropes by layer type"));
  }
  Json config = config_of("olmo3");
  config["layer_types"] = Json(config["num_hidden_layers"].get<std::size_t>(), "full_attention");
  EXPECT_TRUE(
      warns(read_alone(config).value(), "rope_parameters.sliding_attention is the rope of"));
}

TEST(Ropes, ByLayerTypeTellWhatAnOlderFieldReplaces) {
  Json config = config_of("gemma3_text");  // linear by 8 where all is seen
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 3.0}};
  EXPECT_TRUE(warns(read_alone(config).value(),
                    "factor 3.0 in rope_scaling is taken over 8.0 in "
                    "rope_parameters.full_attention"));
  config["rope_scaling"]["factor"] = 8.0;
  EXPECT_FALSE(warns(read_alone(config).value(), "is taken over"));
  config = config_of("llama");
  config["rope_parameters"] = {{"rope_type", nullptr}, {"rope_theta", nullptr}};
  EXPECT_EQ(read_alone(config).value().config.encoding.options.at("base"), 1e4);
}

// Every family's own case has nothing of the kind.
TEST(Ropes, AreAllReadOfEveryFamilyAsItIs) {
  const Json data = formats::json_from_file(golden("hf/ropes.json"));
  for (const auto& [family, config] : data.at("families").items()) {
    const auto read = read_alone(config);
    ASSERT_TRUE(read.has_value()) << family;
    EXPECT_FALSE(warns(*read, " is not read")) << family << ": " << config.dump();
    EXPECT_FALSE(warns(*read, "not known here")) << family;
  }
}

// Gemma4TextConfig looks at num_global_key_value_heads only where attention_k_eq_v is true.
TEST(ClassDefaults, GlobalKeyHeadsOfGemma4NeedValuesOfKeys) {
  Json config = config_of("gemma4_text");
  config.erase("per_layer_config");
  config.update({{"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"num_global_key_value_heads", 1},
                 {"attention_k_eq_v", true}});
  EXPECT_EQ(read_alone(config).value().config.kv_heads, 1);
  config["attention_k_eq_v"] = false;
  EXPECT_EQ(read_alone(config).value().config.kv_heads, 2);
  EXPECT_TRUE(warns(read_alone(config).value(), "num_global_key_value_heads 1 is not read"));
}

// Names that the classes' _keys_to_ignore_on_load_unexpected match.
TEST(ClassDefaults, LayersOfFurtherTokensAreKnownAndNotRead) {
  for (const auto& [family, name] :
       {std::pair{"qwen3_next", "mtp.layers.0.self_attn.q_proj.weight"},
        std::pair{"mimo_v2_flash", "model.mtp.layers.0.eh_proj.weight"}}) {
    const auto read = read_alone(config_of(family));
    ASSERT_TRUE(read.has_value()) << family;
    const TensorPlace place = read->place(name);
    EXPECT_TRUE(place.ignored) << name;
    EXPECT_EQ(place.why, "is a layer that predicts further tokens") << name;
  }
}

// What else those classes have where a file says nothing (transformers 5.23).
TEST(ClassDefaults, HoldForWindowsGatesAndExperts) {
  Json config = config_of("laguna");
  for (const char* key : {"gating", "sliding_window", "shared_expert_intermediate_size"}) {
    config.erase(key);
  }
  const ModelConfig laguna = read_alone(config).value().config;
  EXPECT_EQ(laguna.attention.gate, "softplus");
  EXPECT_TRUE(laguna.attention.gate_by_head);
  EXPECT_EQ(laguna.attention.window, 512);
  EXPECT_EQ(laguna.experts.shared_width, 512);

  config = config_of("mimo_v2_flash");
  for (const char* key : {"layer_types", "sliding_window", "attention_value_scale"}) {
    config.erase(key);
  }
  config["num_hidden_layers"] = 7;
  config.erase("mlp_layer_types");
  ModelConfig mimo = read_alone(config).value().config;
  EXPECT_EQ(mimo.attention.local_layers, (std::vector<std::int64_t>{1, 2, 3, 4, 6}));
  EXPECT_EQ(mimo.attention.window, 129);
  EXPECT_EQ(mimo.attention.value_scale, 0.707);
  config["hybrid_layer_pattern"] = {0, 1, 0, 1, 1, 1, 0};  // the hub's own files
  config["moe_layer_freq"] = {0, 0, 1, 1, 1, 1, 1};
  mimo = read_alone(config).value().config;
  EXPECT_EQ(mimo.attention.local_layers, (std::vector<std::int64_t>{1, 3, 4, 5}));
  EXPECT_EQ(mimo.experts.layers, (std::vector<std::int64_t>{2, 3, 4, 5, 6}));
  config["attention_value_scale"] = nullptr;
  mimo = read_alone(config).value().config;
  EXPECT_EQ(mimo.attention.value_scale, 1.0);

  config = config_of("granite_swa");
  config.erase("layer_types");
  config.erase("sliding_window");
  const ModelConfig granite = read_alone(config).value().config;
  EXPECT_EQ(granite.attention.window, 128);
  EXPECT_FALSE(granite.is_local(0));
  EXPECT_TRUE(granite.is_local(1) && granite.is_local(2) && granite.is_local(3));

  config = config_of("deepseek_v3");
  for (const char* key : {"q_lora_rank", "n_shared_experts", "routed_scaling_factor"}) {
    config.erase(key);
  }
  ModelConfig deepseek = read_alone(config).value().config;
  EXPECT_EQ(deepseek.attention.q_rank, 1536);
  EXPECT_EQ(deepseek.experts.shared_width, deepseek.experts.width);
  EXPECT_EQ(deepseek.experts.scale, 2.5);
  config["q_lora_rank"] = nullptr;
  config["n_shared_experts"] = nullptr;
  deepseek = read_alone(config).value().config;
  EXPECT_EQ(deepseek.attention.q_rank, 0);
  EXPECT_EQ(deepseek.experts.shared_width, 0);

  config = config_of("glm4");
  config.erase("attention_bias");
  EXPECT_TRUE(read_alone(config).value().config.attention.q_bias);
}

// A text's tokens see what is before them where only those of images see both sides.
TEST(ClassDefaults, AttentionToBothSidesIsRefusedAndNotComputedCausally) {
  Json config = config_of("gemma4_text");
  config["use_bidirectional_attention"] = "vision";
  EXPECT_TRUE(read_alone(config).has_value());
  config["use_bidirectional_attention"] = "all";
  EXPECT_FALSE(read_alone(config).has_value());
  config = config_of("gemma3_text");
  config["use_bidirectional_attention"] = true;  // EmbeddingGemma
  EXPECT_FALSE(read_alone(config).has_value());
}

}  // namespace
}  // namespace phasescope::model
