// Keys of files that people have on disk, and what is left out of them, by the classes' own
// configuration_*.py and modeling_*.py of transformers 5.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/families/family.h"
#include "tests/model/translated.h"

namespace phasescope::model {
namespace {

// The smallest configuration of a class with what `own` says.
Json hub_config(const char* type, const Json& own = Json::object()) {
  Json config = {{"model_type", type},     {"vocab_size", 100},        {"hidden_size", 64},
                 {"num_hidden_layers", 6}, {"num_attention_heads", 4}, {"intermediate_size", 32}};
  config.update(own);
  return config;
}

bool warned(const Translation& read, const std::string& part) {
  return std::ranges::any_of(
      read.warnings, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

using Layers = std::vector<std::int64_t>;

// check_is_sliding of EXAONE 4: the last layer sees all, whatever the word has in its place.
TEST(HubKeys, TheLastLayerOfAnExaoneSeesAll) {
  Json config = hub_config("exaone4", {{"num_key_value_heads", 2}, {"num_hidden_layers", 7}});
  config["sliding_window_pattern"] = "LLLG";
  EXPECT_EQ(translated(config).config.attention.local_layers, (Layers{0, 1, 2, 4, 5}));
  config["sliding_window_pattern"] = 4;
  EXPECT_EQ(translated(config).config.attention.local_layers, (Layers{0, 1, 2, 4, 5, 6}));
  config.update({{"sliding_window_pattern", "LLLG"}, {"num_hidden_layers", 8}});
  EXPECT_EQ(translated(config).config.attention.local_layers, (Layers{0, 1, 2, 4, 5, 6}));
}

// XiaomiMiMo/MiMo-V2-Flash's keys, at a small size.
TEST(HubKeys, AMimoIsReadAsItsOwnFileHasIt) {
  const Json published = {{"attention_chunk_size", 128},
                          {"attention_value_scale", 0.707},
                          {"head_dim", 24},
                          {"v_head_dim", 8},
                          {"hybrid_block_size", nullptr},
                          {"hybrid_layer_pattern", {0, 1, 1, 1, 1, 0}},
                          {"layernorm_epsilon", 1e-6},
                          {"moe_intermediate_size", 8},
                          {"moe_layer_freq", {0, 1, 1, 1, 1, 1}},
                          {"n_routed_experts", 8},
                          {"num_experts_per_tok", 2},
                          {"num_key_value_heads", 2},
                          {"partial_rotary_factor", 0.334},
                          {"rope_theta", 5000000},
                          {"routed_scaling_factor", nullptr},
                          {"sliding_window", 128},
                          {"sliding_window_size", 128},
                          {"swa_rope_theta", 10000},
                          {"topk_method", "noaux_tc"}};
  const Translation read = translated(hub_config("mimo_v2_flash", published));
  EXPECT_EQ(read.config.attention.window, 129);  // MiMoV2FlashConfig.__post_init__
  EXPECT_TRUE(warned(read, "is taken over sliding_window 128: layers see 129 keys"));
  EXPECT_EQ(read.config.norm_eps, 1e-6);
  EXPECT_EQ(read.config.attention.local_layers, (Layers{1, 2, 3, 4}));
  EXPECT_EQ(read.config.experts.layers, (Layers{1, 2, 3, 4, 5}));
  EXPECT_EQ(read.config.experts.scale, 1.0);
  EXPECT_FALSE(warned(read, "theta"));

  Json block = published;
  block.erase("hybrid_layer_pattern");
  block["hybrid_block_size"] = 3;
  EXPECT_EQ(translated(hub_config("mimo_v2_flash", block)).config.attention.local_layers,
            (Layers{0, 1, 3, 4}));
}

// Qwen3MoeModel asks for the window alone; Qwen2-VL's class lets layers slide from the 80th on.
TEST(HubKeys, WindowsOfQwensAreThoseOfTheirClasses) {
  const Json windows = {{"use_sliding_window", true},
                        {"sliding_window", 7},
                        {"head_dim", 16},
                        {"num_key_value_heads", 2}};
  Json experts = hub_config("qwen3_moe", windows);
  const Translation all = translated(experts);
  EXPECT_EQ(all.config.attention.window, 7);
  EXPECT_EQ(all.config.attention.local_layers, (Layers{0, 1, 2, 3, 4, 5}));
  EXPECT_FALSE(warned(all, "max_window_layers"));
  experts["max_window_layers"] = 4;
  EXPECT_EQ(translated(experts).config.attention.local_layers, (Layers{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(warned(translated(experts), "max_window_layers and layer_types are not read"));

  for (const auto& [type, first] : {std::pair{"qwen2_vl", 80}, std::pair{"qwen2", 28}}) {
    Json config = hub_config(type, windows);
    config["num_hidden_layers"] = 90;
    const Layers local = translated(config).config.attention.local_layers;
    ASSERT_EQ(local.size(), static_cast<std::size_t>(90 - first)) << type;
    EXPECT_EQ(local.front(), first) << type;
  }
}

// What DeepSeek V2's class has no number for is asked of the file.
TEST(HubKeys, ADeepseekSaysHowManyExpertsATokenHas) {
  const Json lite = {{"n_routed_experts", 16},
                     {"num_experts_per_tok", 6},
                     {"q_lora_rank", nullptr},
                     {"moe_intermediate_size", 8}};
  Json config = hub_config("deepseek_v2", lite);
  EXPECT_EQ(translated(config).config.experts.per_token, 6);
  config.erase("num_experts_per_tok");
  EXPECT_NE(refusal_of(config).find("num_experts_per_tok"), std::string::npos);
  config = hub_config("deepseek_v2", lite);
  config["topk_method"] = "group_limited_greedy";
  EXPECT_NE(refusal_of(config).find("n_group: is missing"), std::string::npos)
      << refusal_of(config);
  config.update({{"n_group", 4}, {"topk_group", 2}});
  EXPECT_EQ(translated(config).config.experts.groups, 4);
  Json third = lite;
  third.erase("num_experts_per_tok");
  third["n_group"] = 4;
  EXPECT_EQ(translated(hub_config("deepseek_v3", third)).config.experts.per_token, 8);
}

// attribute_map of the classes: the number of experts under its other names.
TEST(HubKeys, NumbersOfExpertsHaveOtherNames) {
  for (const auto& [type, key] :
       {std::pair{"mixtral", "num_experts"}, std::pair{"deepseek_v2", "num_experts"},
        std::pair{"deepseek_v3", "num_local_experts"},
        std::pair{"mimo_v2_flash", "num_local_experts"},
        std::pair{"qwen3_moe", "num_local_experts"}, std::pair{"gpt_oss", "num_experts"}}) {
    const Json own = {{key, 16},
                      {"num_experts_per_tok", 2},
                      {"num_key_value_heads", 2},
                      {"qk_nope_head_dim", 8},
                      {"qk_rope_head_dim", 8}};
    const Translation read = translated(hub_config(type, own));
    EXPECT_EQ(read.config.experts.count, 16) << type;
    EXPECT_FALSE(warned(read, key)) << type;
  }
}

// Gemma4TextConfig: an empty per_layer_config and a null one leave global_head_dim out of play.
TEST(HubKeys, AGemma4WithoutSizesOfItsLayersHasOneSize) {
  Json config = hub_config("gemma4_text", {{"head_dim", 16},
                                           {"num_key_value_heads", 2},
                                           {"global_head_dim", 32},
                                           {"hidden_size_per_layer_input", 0}});
  EXPECT_EQ(translated(config).config.head_dim, 32);
  for (const Json& none : {Json(nullptr), Json::object()}) {
    config["per_layer_config"] = none;
    EXPECT_EQ(translated(config).config.head_dim, 16) << none.dump();
  }
  config["per_layer_config"] = 16;
  EXPECT_NE(refusal_of(config).find("per_layer_config: must have an object"), std::string::npos);
}

// A number of experts in a class that has none is never dropped in silence.
TEST(HubKeys, ExpertsOfAClassWithoutAreToldOf) {
  for (const char* type : {"cohere2", "llama", "olmo2", "qwen3", "granite"}) {
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      Json config = hub_config(type, {{"num_key_value_heads", 2}, {"head_dim", 16}});
      EXPECT_FALSE(warned(translated(config), key)) << type << key;
      config[key] = 8;
      EXPECT_TRUE(
          warned(translated(config), std::string(key) + " 8 is not read: layers have one MLP each"))
          << type << key;
      for (const Json& nothing : {Json(0), Json(nullptr)}) {
        config[key] = nothing;
        EXPECT_FALSE(warned(translated(config), key)) << type << key;
      }
    }
  }
}

// A rope that a class without one would drop.
TEST(HubKeys, ARopeOfAFamilyThatDoesNotTurnIsToldOf) {
  Json config = hub_config("inkling_text", {{"n_routed_experts", 8},
                                            {"moe_intermediate_size", 8},
                                            {"num_key_value_heads", 2},
                                            {"swa_num_attention_heads", 4},
                                            {"swa_num_key_value_heads", 2},
                                            {"head_dim", 16},
                                            {"swa_head_dim", 16}});
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    for (const Json& plain : {Json(nullptr), Json{{"rope_type", "default"}, {"rope_theta", 1e4}}}) {
      config[key] = plain;
      EXPECT_FALSE(warned(translated(config), "is not read")) << key << plain.dump();
    }
    config[key] = {{"type", "yarn"}, {"factor", 4.0}};
    EXPECT_TRUE(warned(translated(config), std::string(key) + " {")) << key;
    config.erase(key);
  }
  EXPECT_EQ(translated(config).config.attention.window, 512);
  config["sliding_window"] = 9;  // attribute_map of InklingTextConfig
  EXPECT_EQ(translated(config).config.attention.window, 9);
  config["sliding_window"] = -4;
  EXPECT_NE(refusal_of(config).find("sliding_window"), std::string::npos);
}

// `rope_parameters.get("truncate", True)`: a missing one is yes, null is no.
TEST(HubKeys, ANullTruncateIsNo) {
  Json yarn = {{"rope_type", "yarn"},
               {"rope_theta", 1e4},
               {"factor", 4.0},
               {"original_max_position_embeddings", 32}};
  const auto truncates = [&](const Json& rope) {
    return translated(hub_config("gpt_oss", {{"head_dim", 16},
                                             {"num_key_value_heads", 2},
                                             {"num_local_experts", 8},
                                             {"rope_parameters", rope}}));
  };
  EXPECT_EQ(truncates(yarn).config.encoding.options.at("truncate"), true);
  EXPECT_FALSE(warned(truncates(yarn), "truncate"));
  yarn["truncate"] = nullptr;
  EXPECT_EQ(truncates(yarn).config.encoding.options.at("truncate"), false);
  EXPECT_TRUE(warned(truncates(yarn), "rope_parameters.truncate is null, which is no"));
}

// `setdefault("original_max_position_embeddings", self.max_position_embeddings)`: a missing one is
// the whole length, null is a number that the class cannot divide.
TEST(HubKeys, ALlama3WithoutATrainedLengthTakesTheWhole) {
  Json rope = {{"rope_type", "llama3"},
               {"rope_theta", 1e4},
               {"factor", 4.0},
               {"low_freq_factor", 1.0},
               {"high_freq_factor", 4.0}};
  const auto config = [&] {
    return hub_config("llama", {{"max_position_embeddings", 512}, {"rope_parameters", rope}});
  };
  const Translation missing = translated(config());
  EXPECT_TRUE(warned(missing, "original_max_position_embeddings is missing: llama3 counts"));
  rope["original_max_position_embeddings"] = 512;
  const Translation given = translated(config());
  EXPECT_EQ(write_model_config(missing.config), write_model_config(given.config));
  EXPECT_FALSE(warned(given, "original_max_position_embeddings"));
  rope["original_max_position_embeddings"] = nullptr;
  EXPECT_NE(refusal_of(config()).find("rope_parameters.original_max_position_embeddings: is null"),
            std::string::npos);
}

// Gemma4TextRotaryEmbedding's default rope turns whole heads, whatever share the file has.
TEST(HubKeys, AGemma4WithThePlainRopeTurnsWholeHeads) {
  const Json sliding = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  Json full = {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}};
  const auto read = [&] {
    return translated(hub_config(
        "gemma4_text",
        {{"head_dim", 16},
         {"num_key_value_heads", 2},
         {"hidden_size_per_layer_input", 0},
         {"rope_parameters", {{"full_attention", full}, {"sliding_attention", sliding}}}}));
  };
  EXPECT_EQ(read().config.encoding.options.value("turning_planes", 1.0), 0.25);
  for (const char* type : {"default", ""}) {
    full.erase("rope_type");
    if (*type != '\0') full["rope_type"] = type;
    const Translation plain = read();
    EXPECT_EQ(plain.config.encoding.options.value("partial_rotary_factor", 1.0), 1.0) << type;
    EXPECT_EQ(plain.config.encoding.options.value("turning_planes", 1.0), 1.0) << type;
    EXPECT_TRUE(warned(plain, "partial_rotary_factor 0.25 is not read by the class")) << type;
  }
}

// A share of the heads that no class reads is told of where it is of neither kind of layers.
TEST(HubKeys, AShareThatIsOfOneKindOfLayersIsNoOtherSetting) {
  Json own = {
      {"head_dim", 16},
      {"num_key_value_heads", 2},
      {"hidden_size_per_layer_input", 0},
      {"rope_parameters",
       {{"full_attention",
         {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}};
  const auto warns_of = [&](const Json& share) {
    own["partial_rotary_factor"] = share;
    return warned(translated(hub_config("gemma4_text", own)), "partial_rotary_factor");
  };
  EXPECT_FALSE(warns_of(0.25));
  EXPECT_FALSE(warns_of(1.0));
  EXPECT_TRUE(warns_of(0.5));
}

// num_key_value_heads of each class where the file has none, of a model with 64 heads.
TEST(HubKeys, KeyHeadsAreTheClassesWhereAFileHasNone) {
  for (const auto& [type, heads] :
       {std::pair{"exaone4", 32}, std::pair{"stablelm", 32}, std::pair{"glm4", 2},
        std::pair{"starcoder2", 2}, std::pair{"mixtral", 8}, std::pair{"qwen3_moe", 4},
        std::pair{"olmo2", 64}, std::pair{"olmo3", 64}, std::pair{"cohere2", 64},
        std::pair{"phi", 64}, std::pair{"granite", 64}, std::pair{"nemotron", 64},
        std::pair{"smollm3", 4}, std::pair{"qwen3_next", 2}, std::pair{"qwen3_5_text", 4},
        std::pair{"qwen3_5_moe_text", 2}, std::pair{"granite_swa", 4}, std::pair{"laguna", 8},
        std::pair{"qwen2_vl", 8}}) {
    const Json config = hub_config(type, {{"hidden_size", 1024}, {"num_attention_heads", 64}});
    EXPECT_EQ(translated(config).config.kv_heads, heads) << type;
  }
}

}  // namespace
}  // namespace phasescope::model
