// What transformers' classes make of configurations that leave keys out, or have keys that the
// classes do not read. Values and behaviour are those of transformers 5.23.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/file_system.h"
#include "golden.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/family.h"
#include "tests/model/case_copy.h"
#include "tests/model/translated.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

bool any_tells(const std::vector<std::string>& list, const std::string& part) {
  return std::ranges::any_of(
      list, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

// As the hub has google/gemma-3-4b-it, less the keys of the image part.
Json gemma_3_4b() {
  return {{"architectures", {"Gemma3ForConditionalGeneration"}},
          {"model_type", "gemma3"},
          {"text_config",
           {{"hidden_size", 2560},
            {"intermediate_size", 10240},
            {"model_type", "gemma3_text"},
            {"num_hidden_layers", 34},
            {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
            {"sliding_window", 1024}}}};
}

TEST(ClassDefaults, FillTheTextPartOfAGemma3) {
  const Translation read = translated(gemma_3_4b());
  const ModelConfig& config = read.config;
  EXPECT_EQ(config.width, 2560);
  EXPECT_EQ(config.layers, 34);
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.context, 131072);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.attention.scale, 1.0 / 16);
  EXPECT_EQ(config.attention.window, 1024);
  EXPECT_EQ(config.attention.local_layers.size(), 29u);  // all but every sixth of 34
  EXPECT_TRUE(config.tie_embeddings && config.head.present);
  EXPECT_EQ(config.encoding.options.at("base"), 1e6);
  EXPECT_EQ(config.encoding.options.at("factor"), 8.0);
  EXPECT_EQ(config.local_encoding->options.at("base"), 1e4);
  EXPECT_TRUE(any_tells(read.quirks,
                        "text_config.vocab_size 262208, text_config.num_attention_heads 8, "
                        "text_config.num_key_value_heads 4, text_config.head_dim 256, "
                        "text_config.max_position_embeddings 131072"));
  Json whole = gemma_3_4b();
  whole["text_config"].update({{"vocab_size", 262208},
                               {"num_attention_heads", 8},
                               {"num_key_value_heads", 4},
                               {"head_dim", 256},
                               {"max_position_embeddings", 131072}});
  const Translation full = translated(whole);
  EXPECT_EQ(write_model_config(full.config), write_model_config(config));
  EXPECT_FALSE(any_tells(full.quirks, "leaves out"));
}

// Key heads and the trained length, where the file has neither; null key heads are as many as
// heads.
TEST(ClassDefaults, HoldForKeyHeadsHeadSizesAndTheTrainedLength) {
  struct Case {
    const char* type;
    std::int64_t kv_heads, head_dim, context;
  };
  for (const Case& c :
       {Case{"llama", 32, 8, 2048}, Case{"mistral", 8, 8, 131072}, Case{"qwen2", 32, 8, 32768},
        Case{"qwen3", 32, 128, 32768}, Case{"phi3", 32, 8, 4096}, Case{"gemma", 16, 256, 8192},
        Case{"gemma2", 4, 256, 8192}, Case{"gemma3_text", 4, 256, 131072}}) {
    Json config = {{"model_type", c.type},    {"vocab_size", 100},      {"hidden_size", 256},
                   {"intermediate_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 32},
                   {"pad_token_id", nullptr}};
    const Translation read = translated(config);
    EXPECT_EQ(read.config.kv_heads, c.kv_heads) << c.type;
    EXPECT_EQ(read.config.head_dim, c.head_dim) << c.type;
    EXPECT_EQ(read.config.context, c.context) << c.type;
    EXPECT_TRUE(any_tells(read.quirks, "max_position_embeddings " + std::to_string(c.context)));
    config["num_key_value_heads"] = nullptr;
    if (std::string(c.type).starts_with("gemma")) continue;  // null is no count there
    EXPECT_EQ(translated(config).config.kv_heads, 32) << c.type;
  }
  const Json roformer = {{"model_type", "roformer"}, {"vocab_size", 100},
                         {"hidden_size", 64},        {"intermediate_size", 64},
                         {"num_hidden_layers", 2},   {"num_attention_heads", 4}};
  EXPECT_EQ(translated(roformer).config.context, 1536);
}

// A model of the smallest size with what `own` says.
Json small(const Json& own) {
  Json config = {{"vocab_size", 100},          {"hidden_size", 32},
                 {"intermediate_size", 64},    {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},   {"num_key_value_heads", 2},
                 {"moe_intermediate_size", 8}, {"pad_token_id", nullptr}};
  config.update(own);
  return config;
}

// A class that does not read a router's key does what it always does: a file that says something
// else is refused, one that says the same is read.
TEST(ClassDefaults, RoutersOfAnotherKindAreRefused) {
  const Json mimo =
      small({{"model_type", "mimo_v2_flash"}, {"n_routed_experts", 6}, {"num_experts_per_tok", 2}});
  const Json mixtral = small({{"model_type", "mixtral"}});
  struct Case {
    const Json& config;
    const char* key;
    Json other, own;
  };
  for (const Case& c :
       {Case{mimo, "scoring_func", "softmax", "sigmoid"},
        Case{mimo, "topk_method", "greedy", "noaux_tc"},
        Case{mixtral, "scoring_func", "sigmoid", "softmax"},
        Case{mixtral, "topk_method", "noaux_tc", "greedy"},
        Case{mixtral, "norm_topk_prob", false, true},
        Case{mixtral, "routed_scaling_factor", 2.5, 1.0}, Case{mixtral, "n_group", 4, 1}}) {
    Json config = c.config;
    config[c.key] = c.other;
    const std::string told = std::string(c.key) + ": " + c.other.dump() + " cannot be read: ";
    EXPECT_NE(refusal_of(config).find(told), std::string::npos) << refusal_of(config);
    config[c.key] = c.own;
    EXPECT_EQ(refusal_of(config), "was read") << c.key;
    config[c.key] = nullptr;
    EXPECT_EQ(refusal_of(config), "was read") << c.key;
  }
  // Without experts there is nothing to route, and what a class reads is not its own.
  EXPECT_EQ(refusal_of(small({{"model_type", "llama"}, {"scoring_func", "sigmoid"}})), "was read");
  Json grouped = mimo;
  grouped.update({{"n_group", 2}, {"topk_group", 1}, {"routed_scaling_factor", 2.5}});
  EXPECT_EQ(translated(grouped).config.experts.groups, 2);
  EXPECT_EQ(translated(grouped).config.experts.scale, 2.5);
}

// `if config.norm_topk_prob` in Python: null is no, in classes whose default is yes too.
TEST(ClassDefaults, ANullSwitchIsOff) {
  const Json mimo =
      small({{"model_type", "mimo_v2_flash"}, {"n_routed_experts", 6}, {"num_experts_per_tok", 2}});
  EXPECT_TRUE(translated(mimo).config.experts.normalised);
  for (const bool given : {true, false}) {
    Json config = mimo;
    config["norm_topk_prob"] = given;
    EXPECT_EQ(translated(config).config.experts.normalised, given);
  }
  Json config = mimo;
  config["norm_topk_prob"] = nullptr;
  EXPECT_FALSE(translated(config).config.experts.normalised);
}

// A window of null is no window where the class goes on without one, and where its mask needs a
// number it is refused: the class's default would be a window that the file denies.
TEST(ClassDefaults, ANullWindowIsNone) {
  for (const char* type : {"mistral", "mixtral", "phi3", "starcoder2", "ministral3"}) {
    const Json config = small({{"model_type", type}, {"sliding_window", nullptr}});
    EXPECT_EQ(translated(config).config.attention.window, 0) << type;
  }
  for (const char* type : {"qwen2", "qwen3", "qwen3_moe"}) {
    Json config = small({{"model_type", type},
                         {"use_sliding_window", true},
                         {"max_window_layers", 2},
                         {"sliding_window", nullptr}});
    EXPECT_EQ(translated(config).config.attention.window, 0) << type;
    EXPECT_TRUE(translated(config).config.attention.local_layers.empty()) << type;
    config["sliding_window"] = 7;
    EXPECT_EQ(translated(config).config.attention.window, 7) << type;
  }
  for (const char* type : {"gemma2", "gemma3_text", "cohere2", "gpt_oss", "olmo3"}) {
    Json config = small({{"model_type", type}, {"sliding_window", nullptr}});
    EXPECT_NE(refusal_of(config).find("sliding_window: is null, and layer"), std::string::npos)
        << type << ": " << refusal_of(config);
    config["layer_types"] =
        Json::array({"full_attention", "full_attention", "full_attention", "full_attention"});
    EXPECT_EQ(refusal_of(config).find("sliding_window"), std::string::npos) << type;
  }
}

// null says as little as a missing key of what scales a rope.
TEST(ClassDefaults, ANullScalingIsNone) {
  for (const char* type : {"llama", "qwen2", "mistral", "gemma", "phi3", "smollm3"}) {
    const Json without = small({{"model_type", type}, {"rope_theta", 5000.0}});
    Json config = without;
    config["rope_scaling"] = nullptr;
    EXPECT_EQ(write_model_config(translated(config).config),
              write_model_config(translated(without).config))
        << type;
    EXPECT_EQ(translated(config).config.encoding.options.at("base"), 5000.0) << type;
  }
}

// A rope of null is none to these classes, which scale their own then; an empty one is plain.
TEST(ClassDefaults, ANullRopeIsTheClassesOwnAndToldSo) {
  for (const char* type : {"gpt_oss", "ministral3"}) {
    const Translation without = translated(small({{"model_type", type}}));
    EXPECT_EQ(without.config.encoding.options.at("scaling"), "yarn") << type;
    EXPECT_FALSE(any_tells(without.warnings, "is null"));
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      const Translation null = translated(small({{"model_type", type}, {key, nullptr}}));
      EXPECT_EQ(write_model_config(null.config), write_model_config(without.config)) << type;
      EXPECT_TRUE(any_tells(null.warnings, std::string(key) + " is null")) << type << key;
    }
    const Translation empty =
        translated(small({{"model_type", type}, {"rope_parameters", Json::object()}}));
    EXPECT_FALSE(empty.config.encoding.options.contains("scaling")) << type;
  }
}

// On a base of null transformers fails; the class's own is taken, and never without a word.
TEST(ClassDefaults, ANullBaseIsToldOf) {
  for (const auto& [type, base] : {std::pair{"llama", 1e4}, std::pair{"smollm3", 2e6},
                                   std::pair{"gpt_oss", 1.5e5}, std::pair{"gemma3_text", 1e6}}) {
    const Translation read = translated(small({{"model_type", type}, {"rope_theta", nullptr}}));
    EXPECT_EQ(read.config.encoding.options.at("base"), base) << type;
    EXPECT_TRUE(any_tells(read.warnings, "rope_theta is null")) << type;
    const Json inside = {{"rope_theta", 500.0}};
    if (std::string(type) == "gemma3_text") continue;  // which has its ropes by layer type
    const Translation plain = translated(
        small({{"model_type", type}, {"rope_theta", nullptr}, {"rope_parameters", inside}}));
    EXPECT_EQ(plain.config.encoding.options.at("base"), 500.0) << type;
    EXPECT_FALSE(any_tells(plain.warnings, "rope_theta is null")) << type;
  }
}

// One thing that is wrong is one sentence, by the name that it has in the file.
TEST(ClassDefaults, OneWrongNumberIsOneSentence) {
  for (const char* type : {"gemma3n_text", "gemma4_text"}) {
    const std::string told =
        refusal_of(small({{"model_type", type}, {"head_dim", 8}, {"num_kv_shared_layers", 99}}));
    EXPECT_NE(told.find("num_kv_shared_layers: is 99 of 4 layers"), std::string::npos) << told;
    EXPECT_EQ(told.find("no earlier layer"), std::string::npos) << told;
  }
  const std::string told = refusal_of(small({{"model_type", "smollm3"},
                                             {"num_hidden_layers", std::int64_t{1} << 40},
                                             {"no_rope_layers", {1, 1, 1, 0}}}));
  EXPECT_NE(told.find("num_hidden_layers: must be"), std::string::npos) << told;
  EXPECT_EQ(told.find("no_rope_layers"), std::string::npos) << told;
}

// Problems of what files say together have the files' keys, and the place of the text's.
TEST(ClassDefaults, ProblemsHaveTheKeysOfTheFile) {
  struct Case {
    Json config;
    const char* told;
  };
  const std::string most = "must lie in 1..6, the number of experts, but is 9";
  const Json six = {{"num_experts_per_tok", 9}};
  const auto with = [](const char* type, const char* count, Json own) {
    own.update({{"model_type", type}, {count, 6}});
    return small(own);
  };
  for (const auto& [config, key] :
       {std::pair{with("mixtral", "num_local_experts", six), "num_experts_per_tok"},
        std::pair{with("qwen3_moe", "num_experts", six), "num_experts_per_tok"},
        std::pair{with("deepseek_v2", "n_routed_experts", six), "num_experts_per_tok"},
        std::pair{with("gpt_oss", "num_local_experts", {{"experts_per_token", 9}}),
                  "experts_per_token"},
        std::pair{with("gemma4_text", "num_experts",
                       {{"top_k_experts", 9}, {"enable_moe_block", true}, {"head_dim", 8}}),
                  "top_k_experts"}}) {
    const std::string told = refusal_of(config);
    EXPECT_NE(told.find("cannot be used: " + std::string(key) + ": " + most), std::string::npos)
        << told;
  }
  for (const Case& c :
       {Case{{{"model_type", "deepseek_v3"}, {"qk_rope_head_dim", 7}},
             "cannot be used: qk_rope_head_dim: is 7, but channels turn in pairs"},
        Case{{{"model_type", "gemma4_text"}, {"head_dim", 8}, {"global_head_dim", 21}},
             "cannot be used: global_head_dim: is 21, but channels turn in pairs"},
        Case{{{"model_type", "gemma3n_text"},
              {"head_dim", 8},
              {"altup_num_inputs", 65},
              {"num_kv_shared_layers", 0}},
             "altup_num_inputs: must lie in 1..64"},
        Case{{{"model_type", "qwen3_next"},
              {"head_dim", 8},
              {"linear_num_key_heads", 2},
              {"linear_num_value_heads", 3}},
             "linear_num_value_heads: 3 is no multiple of the 2 key heads"},
        Case{{{"model_type", "llama4_text"}, {"attention_chunk_size", nullptr}},
             "attention_chunk_size: is null, and layers 0-2 see runs of it"}}) {
    EXPECT_NE(refusal_of(small(c.config)).find(c.told), std::string::npos)
        << refusal_of(small(c.config));
  }
  Json text = with("mixtral", "num_local_experts", six);
  EXPECT_NE(refusal_of({{"model_type", "llava"}, {"text_config", text}})
                .find("text_config.num_experts_per_tok: must lie in 1..6"),
            std::string::npos);
}

// Null reads as a missing key, and never without a word where that decides a number.
TEST(ClassDefaults, ANullThatSaysNothingIsToldOf) {
  for (const auto& [type, key] :
       {std::pair{"llama", "rms_norm_eps"}, std::pair{"llama", "rope_parameters"},
        std::pair{"cohere2", "layer_types"}, std::pair{"phi", "layer_norm_eps"},
        std::pair{"granite", "attention_multiplier"}, std::pair{"phi", "partial_rotary_factor"},
        std::pair{"smollm3", "no_rope_layers"}, std::pair{"llama4_text", "floor_scale"},
        std::pair{"mixtral", "num_experts_per_tok"}}) {
    Json config = small({{"model_type", type}});
    const Translation without = translated(config);
    EXPECT_FALSE(any_tells(without.warnings, " is null")) << type;
    config[key] = nullptr;
    const Translation read = translated(config);
    EXPECT_EQ(write_model_config(read.config), write_model_config(without.config)) << type << key;
    EXPECT_TRUE(any_tells(read.warnings, std::string(key) + " is null")) << type << key;
  }
  // Where null says something the model has it, and needs no word.
  const Translation said = translated(small({{"model_type", "deepseek_v3"},
                                             {"q_lora_rank", nullptr},
                                             {"rope_scaling", nullptr},
                                             {"n_routed_experts", 16}}));
  EXPECT_EQ(said.config.attention.q_rank, 0);
  EXPECT_FALSE(any_tells(said.warnings, " is null"));
}

// A switch of null is off in Python, whatever the class has by default.
TEST(ClassDefaults, ANullSwitchOfAttentionIsOffAndToldOf) {
  const auto read = [](const char* type, const char* key) {
    return translated(small({{"model_type", type}, {key, nullptr}, {"head_dim", 8}}));
  };
  EXPECT_TRUE(translated(small({{"model_type", "llama4_text"}})).config.attention.qk_norm_after);
  EXPECT_FALSE(read("llama4_text", "use_qk_norm").config.attention.qk_norm_after);
  EXPECT_TRUE(any_tells(read("llama4_text", "use_qk_norm").warnings, "use_qk_norm is null"));
  EXPECT_FALSE(read("gpt_oss", "attention_bias").config.attention.q_bias);
  EXPECT_FALSE(read("glm4", "attention_bias").config.attention.q_bias);
  EXPECT_EQ(read("gpt2", "scale_attn_weights").config.attention.scale, 1);
  EXPECT_EQ(read("falcon", "multi_query").config.kv_heads, 4);  // one for each head
  EXPECT_TRUE(read("gemma2", "of_no_meaning").config.tie_embeddings);
  EXPECT_FALSE(read("gemma2", "tie_word_embeddings").config.tie_embeddings);
  EXPECT_EQ(read("deepseek_v3", "rope_interleave").config.encoding.options.at("layout"), "half");
  EXPECT_TRUE(
      any_tells(read("deepseek_v3", "rope_interleave").warnings, "rope_interleave is null"));
}

// The class of Llama 4 asks whether a layer is in the list, in whatever order.
TEST(ClassDefaults, ExpertsOfLlama4StandInTheListedLayers) {
  const auto with = [](const Json& layers) {
    return small({{"model_type", "llama4_text"}, {"moe_layers", layers}});
  };
  EXPECT_EQ(translated(with({3, 1})).config.experts.layers, (std::vector<std::int64_t>{1, 3}));
  EXPECT_NE(refusal_of(with({1.5})).find("moe_layers: must be numbers of layers"),
            std::string::npos);
  EXPECT_NE(refusal_of(with({1, 4})).find("moe_layers: must be layers of the model"),
            std::string::npos)
      << refusal_of(with({1, 4}));
}

// Gemma 3n and 4 read the name of their activation, as Gemma 2 and 3 do.
TEST(ClassDefaults, GemmasActivationIsTheFiles) {
  for (const char* type : {"gemma3n_text", "gemma4_text"}) {
    Json config = small({{"model_type", type}, {"head_dim", 8}, {"num_kv_shared_layers", 0}});
    EXPECT_EQ(translated(config).config.mlp.activation, "gelu_tanh") << type;
    config["hidden_activation"] = "silu";
    EXPECT_EQ(translated(config).config.mlp.activation, "silu") << type;
  }
}

// Sizes that follow from others, or that a file has twice, are told of where they disagree.
TEST(ClassDefaults, SizesThatDisagreeAreToldOf) {
  Json deepseek = small({{"model_type", "deepseek_v3"},
                         {"n_routed_experts", 16},
                         {"qk_rope_head_dim", 6},
                         {"qk_nope_head_dim", 8},
                         {"head_dim", 6},
                         {"qk_head_dim", 14}});
  EXPECT_FALSE(any_tells(translated(deepseek).warnings, "head_dim"));
  deepseek.update({{"head_dim", 8}, {"qk_head_dim", 16}});
  const Translation read = translated(deepseek);
  EXPECT_TRUE(any_tells(read.warnings, "head_dim 8 is not read: 6 channels of a head turn"));
  EXPECT_TRUE(
      any_tells(read.warnings, "qk_head_dim 16 is not read: 14 channels of a head make a query"));
  Json mimo = small({{"model_type", "mimo_v2_flash"}, {"sliding_window_size", 7}});
  EXPECT_EQ(translated(mimo).config.attention.window, 8);
  mimo["sliding_window"] = 8;
  EXPECT_FALSE(any_tells(translated(mimo).warnings, "is taken over"));
  mimo["sliding_window"] = 7;  // as the published file has it
  EXPECT_EQ(translated(mimo).config.attention.window, 8);
  EXPECT_TRUE(any_tells(translated(mimo).warnings,
                        "sliding_window_size 7, of the keys before the query's own, is taken over "
                        "sliding_window 7: layers see 8 keys"));
  Json gemma = small({{"model_type", "gemma4_text"}, {"head_dim", 8}, {"global_head_dim", 16}});
  gemma["layer_types"] =
      Json::array({"sliding_attention", "sliding_attention", "full_attention", "full_attention"});
  const Json wide = {{"head_dim", 16}};
  gemma["per_layer_config"] = {{"2", wide}, {"3", wide}};
  EXPECT_FALSE(any_tells(translated(gemma).warnings, "is taken over"));
  gemma.update({{"global_head_dim", 32}, {"num_global_key_value_heads", 1}});
  EXPECT_TRUE(any_tells(translated(gemma).warnings,
                        "per_layer_config head_dim 16 is taken over global_head_dim 32"));
  EXPECT_TRUE(any_tells(
      translated(gemma).warnings,
      "per_layer_config num_key_value_heads 2 is taken over num_global_key_value_heads 1"));
}

// What a single layer of Gemma 4 has of its own is read, or refused by its name.
TEST(ClassDefaults, OneLayersOwnKeysAreRefused) {
  Json config = small({{"model_type", "gemma4_text"}, {"head_dim", 8}});
  config["layer_types"] =
      Json::array({"sliding_attention", "full_attention", "sliding_attention", "full_attention"});
  const Json wide = {{"head_dim", 16}};
  config["per_layer_config"] = {{"1", wide}, {"3", wide}};
  EXPECT_EQ(translated(config).config.shape_of(1).head_dim, 16);
  EXPECT_EQ(translated(config).config.shape_of(0).head_dim, 8);
  for (const char* key : {"rope_theta", "partial_rotary_factor", "rope_parameters"}) {
    Json other = config;
    other["per_layer_config"]["3"][key] = 5.0;
    const std::string told = std::string("per_layer_config.3.") + key + ": cannot be read";
    EXPECT_NE(refusal_of(other).find(told), std::string::npos) << refusal_of(other);
  }
  config["per_layer_config"]["7"] = wide;
  EXPECT_NE(refusal_of(config).find("per_layer_config.7: is the number of no layer"),
            std::string::npos)
      << refusal_of(config);
}

// The case of a changed configuration still agrees with transformers' outputs of the unchanged one.
void expect_the_same(const std::string& name, const Json& changes, const std::string& told) {
  TemporaryFolder folder;
  const fs::path to = folder.path() / "model";
  copy_changed(name, changes, to);
  const fs::path expected = golden("hf/models/" + name + "/expected.safetensors");
  const ReferenceCheck check = check_against(to.string(), expected);
  EXPECT_TRUE(check.passed) << name;
  EXPECT_EQ(check.compared.size(),
            check_against(golden("hf/models/" + name).string(), expected).compared.size());
  const auto model = open_model(to.string());
  std::vector<std::string> notes = model->report.quirks;
  notes.insert(notes.end(), model->report.warnings.begin(), model->report.warnings.end());
  EXPECT_TRUE(told.empty() || any_tells(notes, told)) << name;
}

TEST(ClassDefaults, MptHasAlibiUnlessTheFileSaysNo) {
  expect_the_same("mpt", {{"attn_config", {{"alibi", nullptr}}}}, "");
  Json config = formats::json_from_file(golden("hf/models/mpt/config.json"));
  config.erase("attn_config");
  EXPECT_EQ(translated(config).config.encoding.key, "alibi");
  config["attn_config"] = {{"alibi", false}};
  EXPECT_EQ(translated(config).config.encoding.key, "none");
}

TEST(ClassDefaults, Gemma3HasNoCapOfScores) {
  expect_the_same("gemma3", {{"attn_logit_softcapping", 3.0}}, "softcapping is not read");
}

// Llama's class, as most, turns whole heads; Phi-3's turns the part. GPT-NeoX's calls it rotary_pct
// alone, and has a quarter.
TEST(ClassDefaults, APlainRopeTurnsWholeHeadsWhereTheClassReadsNoPart) {
  for (const Json& changes : {Json{{"rope_parameters", {{"partial_rotary_factor", 0.5}}}},
                              Json{{"partial_rotary_factor", 0.3}}, Json{{"rotary_pct", 0.25}}}) {
    expect_the_same("llama", changes, "is not read by the class");
  }
  const Json sizes = {{"vocab_size", 100},        {"hidden_size", 64},
                      {"intermediate_size", 64},  {"num_hidden_layers", 2},
                      {"num_attention_heads", 4}, {"partial_rotary_factor", 0.5},
                      {"num_key_value_heads", 4}, {"head_dim", 16}};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text",
                           "falcon", "phi3", "gpt_neox"}) {
    Json config = sizes;
    config["model_type"] = type;
    const double part = type == std::string("phi3")       ? 0.5
                        : type == std::string("gpt_neox") ? 0.25
                                                          : 1.0;
    const ModelConfig read = translated(config).config;
    EXPECT_EQ(read.encoding.options.value("partial_rotary_factor", 1.0), part) << type;
    if (!read.local_encoding) continue;
    EXPECT_EQ(read.local_encoding->options.value("partial_rotary_factor", 1.0), 1.0) << type;
  }
}

// The file's factor, and the ratio of the lengths where it has none: sqrt(1 + ln f / ln trained)
// either way, which attention_factor can also say.
TEST(ClassDefaults, LongRopeMultipliesByTheFactorOfTheFile) {
  const Json lists = {{"rope_type", "longrope"},
                      {"rope_theta", 10000.0},
                      {"short_factor", {1.0, 1.1, 1.2, 1.3}},
                      {"long_factor", {2.0, 3.0, 4.0, 5.0}},
                      {"original_max_position_embeddings", 30}};
  const auto logits = [&](const Json& more) {
    TemporaryFolder folder;
    const fs::path to = folder.path() / "model";
    Json rope = lists;
    rope.update(more);
    copy_changed("llama", {{"rope_parameters", rope}, {"max_position_embeddings", 240}}, to);
    const at::NoGradGuard no_grad;
    return open_model(to.string(), {.dtype = at::kDouble})->decoder.forward(random_ids(1, 25, 80));
  };
  const auto stated = [&](double factor) {
    return Json{{"attention_factor", std::sqrt(1 + std::log(factor) / std::log(30.0))}};
  };
  EXPECT_LT(relative_error(logits({{"factor", 4.0}}), logits(stated(4))), 1e-12);
  EXPECT_LT(relative_error(logits(Json::object()), logits(stated(8))), 1e-12);
  EXPECT_LT(relative_error(logits({{"factor", 0.5}}), logits(stated(1))), 1e-12);
  EXPECT_GT(relative_error(logits({{"factor", 4.0}}), logits(Json::object())), 1e-3);
  // Phi-3's class has a trained length of its own.
  Json phi = formats::json_from_file(golden("hf/models/phi3_longrope/config.json"));
  phi.erase("original_max_position_embeddings");
  phi["rope_parameters"].erase("original_max_position_embeddings");
  phi["max_position_embeddings"] = 8192;
  const Json options = translated(phi).config.encoding.options;
  EXPECT_EQ(options.at("trained_context"), 4096);
  EXPECT_EQ(options.at("factor"), 2.0);
}

// Untied, the head adds cls.predictions.decoder.bias, and cls.predictions.bias is never used.
TEST(ClassDefaults, AnUntiedBertAddsTheBiasOfItsDecoder) {
  for (const std::string name : {"bert", "roformer"}) {
    if (golden("hf/models/" + name).empty()) continue;
    TemporaryFolder folder;
    const fs::path tied = folder.path() / "tied", untied = folder.path() / "untied";
    copy_case(name, tied);
    copy_changed(name, {{"tie_word_embeddings", false}}, untied);
    NamedTensors tensors = tensors_of(untied);
    at::Tensor bias, words;
    std::erase_if(tensors, [&](const auto& tensor) {
      if (tensor.first == "cls.predictions.bias") bias = tensor.second;
      if (tensor.first.ends_with("word_embeddings.weight")) words = tensor.second;
      return tensor.first.starts_with("cls.predictions.decoder.");
    });
    const at::Tensor own = at::linspace(-1, 1, bias.size(0));
    tensors.emplace_back("cls.predictions.decoder.weight", words.clone());
    const auto logits = [](const fs::path& model) {
      const at::NoGradGuard no_grad;
      return open_model(model.string())->decoder.forward(random_ids(1, 12, 60));
    };
    const fs::path file = untied / "model.safetensors";
    write_tensors(formats::real_file_system(), file, tensors);
    // An older file of an untied model has the one bias that was shared then.
    EXPECT_LT(relative_error(logits(untied), logits(tied)), 1e-6) << name;
    tensors.emplace_back("cls.predictions.decoder.bias", own);
    write_tensors(formats::real_file_system(), file, tensors);
    EXPECT_LT(relative_error(logits(untied), logits(tied) + (own - bias)), 1e-6) << name;
    const LoadReport report = open_model(untied.string())->report;
    EXPECT_TRUE(any_tells(report.quirks, "cls.predictions.bias is not used")) << name;
    EXPECT_TRUE(report.unexpected.empty()) << name;
  }
}

// Their heads give classes: everything up to them is there, and no logits of tokens.
TEST(ClassDefaults, ClassifiersHaveNoHeadOfTokens) {
  struct Case {
    const char *name, *type, *head;
  };
  for (const Case& c : {Case{"gpt2", "GPT2ForSequenceClassification", "score"},
                        Case{"llama_gqa_tied", "LlamaForSequenceClassification", "score"},
                        Case{"bert", "BertForTokenClassification", "classifier"}}) {
    TemporaryFolder folder;
    const fs::path to = folder.path() / "model";
    copy_changed(c.name, {{"architectures", {c.type}}}, to);
    NamedTensors tensors = tensors_of(to);
    std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("cls."); });
    tensors.emplace_back(std::string(c.head) + ".weight", at::randn({2, 32}));
    write_tensors(formats::real_file_system(), to / "model.safetensors", tensors);
    const auto model = open_model(to.string());
    EXPECT_FALSE(model->config().head.present) << c.name;
    EXPECT_TRUE(any_tells(model->report.warnings, c.type)) << c.name;
    EXPECT_TRUE(any_tells(model->report.quirks, c.head + std::string(".weight belongs to a head")))
        << c.name;
    EXPECT_TRUE(model->report.unexpected.empty() && model->report.missing.empty()) << c.name;
    const fs::path expected = golden("hf/models/" + std::string(c.name) + "/expected.safetensors");
    const ReferenceCheck check = check_against(to.string(), expected);
    EXPECT_TRUE(check.passed) << c.name;
    EXPECT_GE(check.compared.size(), 5u) << c.name;
  }
}

}  // namespace
}  // namespace phasescope::model
