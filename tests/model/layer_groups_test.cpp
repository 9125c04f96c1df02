// Layers with sizes and encodings of their own: configuration, files, what is refused.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/hf_config.h"
#include "golden.h"
#include "model/checkpoints/open_model.h"
#include "model/families/family.h"
#include "tests/model/attention_keeper.h"
#include "tests/model/open_error.h"
#include "tests/model/translated.h"

namespace phasescope::model {
namespace {

ModelConfig of_groups() {
  ModelConfig config = tiny_config("rope");
  config.layers = 3;
  config.layer_groups = {{.layers = {0}, .encoding = EncodingConfig{"none", Json::object()}},
                         {.layers = {1},
                          .heads = 6,
                          .kv_heads = 3,
                          .head_dim = 4,
                          .ffn_width = 9,
                          .encoding = EncodingConfig{"rope", {{"base", 50.0}}}}};
  config.attention.sink_layers = {1};
  config.attention.gate = "softplus";
  config.attention.gate_by_head = true;
  config.experts.count = 3, config.experts.width = 4, config.experts.layers = {2};
  config.residual_scale = 0.5;
  return config;
}

TEST(LayerGroups, SurviveWritingAndReading) {
  const ModelConfig config = of_groups();
  const Json written = write_model_config(config);
  const ModelConfig again = read_model_config(written, "config.json");
  EXPECT_EQ(write_model_config(again), written);
  ASSERT_EQ(again.layer_groups.size(), 2u);
  EXPECT_EQ(again.layer_groups[0].encoding->key, "none");
  EXPECT_EQ(again.shape_of(1).kv_heads, 3);
  EXPECT_EQ(again.shape_of(2).heads, config.heads);
  EXPECT_EQ(again.attention.sink_layers, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(again.experts.layers, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(again.residual_scale, 0.5);
}

TEST(LayerGroups, SurviveSavingAndOpening) {
  const at::NoGradGuard no_grad;
  const auto model = random_model(of_groups(), 4, at::kDouble);
  TemporaryFolder folder;
  save_model(formats::real_file_system(), folder.path(), model->config(), model->encoding(),
             model->decoder.weights(), at::kDouble);
  const auto again = open_model(folder.path().string(), {.dtype = at::kDouble});
  const at::Tensor ids = random_ids(2, 11, model->config().vocab_size);
  EXPECT_TRUE(again->decoder.forward(ids).equal(model->decoder.forward(ids)));
  AttentionKeeper keeper;
  again->decoder.hidden(ids, {}, &keeper);
  EXPECT_TRUE(keeper.layers.at(0)->q_rotated().equal(keeper.layers[0]->q()));
  EXPECT_EQ(keeper.layers.at(1)->heads(), 6);
  EXPECT_FALSE(keeper.layers[1]->q_rotated().equal(keeper.layers[1]->q()));
}

// A hook reads, and may replace, a head's output before its gate: the kernel leaves the gate out
// then. The model gives the same bits, for both multiply a float32 once.
TEST(LayerGroups, GateOutputsInTheKernelOrBehindAHook) {
  class Hook final : public AttentionHook {
   public:
    void after(std::int64_t, const AttentionProgram& program, const at::Tensor&,
               AttentionResult&) override {
      EXPECT_FALSE(program.gate.defined());
      ++calls;
    }
    int calls = 0;
  };
  const at::NoGradGuard no_grad;
  for (const bool by_head : {true, false}) {
    ModelConfig config = of_groups();
    config.attention.gate_by_head = by_head;
    const auto model = random_model(config, 4, at::kFloat);
    const at::Tensor ids = random_ids(2, 70, config.vocab_size);
    AttentionKeeper keeper;
    const at::Tensor fused = model->decoder.hidden(ids, {}, &keeper);
    const at::Tensor& gate = keeper.layers.at(1)->program().gate;
    ASSERT_TRUE(gate.defined());
    EXPECT_EQ(gate.size(3), by_head ? 1 : 4);
    Hook hook;
    ForwardOptions hooked;
    hooked.hook = &hook;
    EXPECT_TRUE(model->decoder.hidden(ids, hooked).equal(fused));
    EXPECT_EQ(hook.calls, 3);
    const at::Tensor plain = model->decoder.hidden(ids, {.backend = Backend::plain});
    // Float32 through three layers.
    EXPECT_LT((fused - plain).abs().max().item<double>(), 1e-4 * plain.abs().max().item<double>());
  }
}

std::string problems_of(const ModelConfig& config) {
  formats::ConfigProblems problems;
  check_model_config(config, problems);
  std::string all;
  for (const std::string& problem : problems.list()) all += problem + "\n";
  return all;
}

TEST(LayerGroups, AreRefusedWhereTheyCannotBe) {
  ModelConfig config = of_groups();
  config.layer_groups[0].layers = {7};
  EXPECT_NE(problems_of(config).find("layer_groups.0.layers: must be layers"), std::string::npos);
  config = of_groups();
  config.layer_groups[1].kv_heads = 4;
  EXPECT_NE(problems_of(config).find("does not divide"), std::string::npos);
  config = of_groups();
  config.layer_groups[0].encoding = EncodingConfig{"learned", Json::object()};
  EXPECT_NE(problems_of(config).find("tensors of its own"), std::string::npos);
  config = of_groups();
  config.experts.per_token = 4;
  EXPECT_NE(problems_of(config).find("experts.per_token"), std::string::npos);
  config = of_groups();
  config.experts.count = std::int64_t{1} << 30;  // would take memory without end
  EXPECT_NE(problems_of(config).find("more than can be read"), std::string::npos);
  config = of_groups();
  config.attention.shared_layers = {0};
  EXPECT_NE(problems_of(config).find("no earlier layer"), std::string::npos);
  EXPECT_NE(problems_of(config).find("layer 0"), std::string::npos);
}

Json smollm3() {
  return {{"model_type", "smollm3"}, {"vocab_size", 40},       {"hidden_size", 16},
          {"intermediate_size", 20}, {"num_hidden_layers", 4}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}};
}

TEST(NewerFamilies, RefuseUnknownKindsByName) {
  Json config = smollm3();
  config["rope_scaling"] = {{"rope_type", "spiral"}, {"factor", 2.0}};
  const std::string rope = refusal_of(config);
  EXPECT_NE(rope.find("\"spiral\" is not a known kind of rope (default, linear"), std::string::npos)
      << rope;
  config = {{"model_type", "olmo3"},   {"vocab_size", 40},       {"hidden_size", 16},
            {"intermediate_size", 20}, {"num_hidden_layers", 2}, {"num_attention_heads", 4}};
  config["layer_types"] = {"full_attention", "mamba"};
  const std::string layers = refusal_of(config);
  EXPECT_NE(layers.find("\"mamba\" is not a kind of layer that can be read (full_attention, "
                        "sliding_attention)"),
            std::string::npos)
      << layers;
  config = smollm3();
  config["no_rope_layers"] = {1, 0};
  EXPECT_NE(refusal_of(config).find("has 2 entries, but there are 4 layers"), std::string::npos);
}

// Also where the family does not look at layer_types otherwise.
TEST(NewerFamilies, AllRefuseKindsOfLayersThatTheyDoNotKnow) {
  for (const char* type :
       {"llama",      "mistral",  "mixtral",    "qwen2",    "qwen3",       "qwen3_moe",
        "qwen2_vl",   "qwen3_vl", "qwen3_next", "qwen3_5",  "phi",         "phi3",
        "gemma",      "gemma2",   "gemma3n",    "gemma4",   "deepseek_v2", "deepseek_v3",
        "glm4",       "granite",  "ministral3", "nemotron", "olmo2",       "olmo3",
        "stablelm",   "smollm3",  "starcoder2", "falcon",   "gpt_neox",    "cohere2",
        "exaone4",    "gpt_oss",  "llama4",     "laguna",   "granite_swa", "mimo_v2_flash",
        "gemma3_text"}) {
    Json config = smollm3();
    config["model_type"] = type;
    config["layer_types"] = {"full_attention", "foo", "full_attention", "full_attention"};
    const std::string text = refusal_of(config);
    EXPECT_NE(text.find("layer_types: \"foo\" is not a kind of layer that can be read (full_"),
              std::string::npos)
        << type << ": " << text;
  }
  Json config = smollm3();
  config["layer_types"] = {"full_attention"};
  EXPECT_NE(refusal_of(config).find("layer_types: has 1 entries, but there are 4 layers"),
            std::string::npos);
  config["layer_types"] = "full_attention";
  EXPECT_NE(refusal_of(config).find("layer_types: must be a list of strings"), std::string::npos);
}

bool has_sentence(const std::vector<std::string>& list, const std::string& part) {
  return std::ranges::any_of(
      list, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(NewerFamilies, NameTheLayersWhoseWindowIsNotInForce) {
  for (const char* type : {"llama", "qwen2", "olmo2", "glm4", "smollm3", "mistral"}) {
    Json config = smollm3();
    config.update({{"model_type", type}, {"sliding_window", nullptr}});
    const Translation plain = translated(config);
    config["layer_types"] = Json(4, "full_attention");
    const Translation full = translated(config);
    EXPECT_EQ(write_model_config(full.config), write_model_config(plain.config)) << type;
    EXPECT_EQ(full.warnings, plain.warnings) << type;
    config["layer_types"][1] = config["layer_types"][3] = "sliding_attention";
    EXPECT_TRUE(has_sentence(translated(config).warnings,
                             "layer_types has sliding_attention for layers 1, 3, where no window "
                             "is in force"))
        << type;
  }
  Json config = smollm3();
  config.update({{"model_type", "qwen2"}, {"use_sliding_window", true}, {"sliding_window", 8}});
  config["layer_types"] = Json(4, "sliding_attention");
  EXPECT_FALSE(has_sentence(translated(config).warnings, "layer_types"));
}

// Settings that transformers 5.23 cannot run, or that it computes with tensors nobody reads here.
TEST(NewerFamilies, RefuseWhatTheirClassesCannotDo) {
  const auto refused = [](const char* type, const Json& more) {
    Json config = smollm3();
    config["model_type"] = type;
    config.update(more);
    return refusal_of(config);
  };
  const Json part = {{"rope_parameters",
                      {{"rope_type", "linear"}, {"factor", 2.0}, {"partial_rotary_factor", 0.5}}}};
  EXPECT_NE(refused("gpt_oss", part).find("turns whole heads"), std::string::npos);
  EXPECT_NE(refused("llama4_text", part).find("turns whole heads"), std::string::npos);
  EXPECT_NE(refused("deepseek_v2", {{"mlp_bias", true}}).find("mlp_bias"), std::string::npos);
  for (const auto& [type, key, own] : {std::tuple{"deepseek_v3", "scoring_func", "sigmoid"},
                                       std::tuple{"deepseek_v3", "topk_method", "noaux_tc"},
                                       std::tuple{"deepseek_v2", "scoring_func", "softmax"}}) {
    const std::string told = std::string(key) + ": \"other\" is not known; known: " + own;
    EXPECT_NE(refused(type, {{key, "other"}}).find(told), std::string::npos) << type;
  }
  EXPECT_NE(refused("deepseek_v3", {{"rope_scaling", {{"rope_type", "proportional"}}}})
                .find("qk_rope_head_dim"),
            std::string::npos);
}

// Values that transformers takes otherwise than they look.
TEST(NewerFamilies, TakeValuesAsTheirClassesDo) {
  Json laguna = smollm3();
  laguna["model_type"] = "laguna";
  laguna["layer_types"] =
      Json::array({"full_attention", "full_attention", "full_attention", "full_attention"});
  for (const auto& [gating, by_head] :
       {std::pair{Json(true), true}, std::pair{Json("per-head"), true},
        std::pair{Json("per-element"), false}, std::pair{Json(false), false}}) {
    laguna["gating"] = gating;
    const AttentionConfig attention = translated(laguna).config.attention;
    EXPECT_EQ(attention.gate, "softplus") << gating;
    EXPECT_EQ(attention.gate_by_head, by_head) << gating;
  }
  // Published files have 4 for yes.
  Json llama4 = smollm3();
  llama4["model_type"] = "llama4_text";
  for (const auto& [tuning, scale] :
       {std::pair{Json(true), 0.1}, std::pair{Json(4), 0.1}, std::pair{Json(false), 0.0},
        std::pair{Json(0), 0.0}, std::pair{Json(nullptr), 0.0}}) {
    llama4["attn_temperature_tuning"] = tuning;
    EXPECT_EQ(translated(llama4).config.attention.temperature, scale) << tuning;
  }
  llama4["attn_temperature_tuning"] = "yes";
  EXPECT_NE(refusal_of(llama4).find("attn_temperature_tuning: must be true, false or an integer"),
            std::string::npos);
  Json deepseek = smollm3();
  deepseek.update(
      {{"model_type", "deepseek_v3"}, {"norm_topk_prob", nullptr}, {"rope_interleave", nullptr}});
  const ModelConfig read = translated(deepseek).config;
  EXPECT_FALSE(read.experts.normalised);
  EXPECT_EQ(read.encoding.options.at("layout"), "half");
  // A wrapper's word is taken over that of its part.
  Json inner = smollm3();
  inner["model_type"] = "qwen3_vl_text";
  inner["head_dim"] = 128;  // as many planes as the class's sections have
  for (const bool tied : {false, true}) {
    inner["tie_word_embeddings"] = !tied;
    EXPECT_EQ(
        translated(
            {{"model_type", "qwen3_vl"}, {"tie_word_embeddings", tied}, {"text_config", inner}})
            .config.tie_embeddings,
        tied);
  }
}

TEST(NewerFamilies, TakeLayersThatTurnAsNumbersOrSwitches) {
  for (const char* type : {"smollm3", "llama4_text"}) {
    Json config = smollm3();
    config["model_type"] = type;
    config["no_rope_layers"] = {1, 0, 0, 1};
    const Json numbers = write_model_config(translated(config).config);
    config["no_rope_layers"] = {true, false, false, true};
    EXPECT_EQ(write_model_config(translated(config).config), numbers) << type;
    for (const Json& bad : {Json(0.5), Json(2), Json("1"), Json(nullptr)}) {
      config["no_rope_layers"][2] = bad;
      EXPECT_NE(refusal_of(config).find("no_rope_layers: must be a list with 0 or 1 (or false and "
                                        "true) for each layer, but has " +
                                        bad.dump()),
                std::string::npos)
          << type << bad;
    }
  }
}

// What transformers 5.23 has where a file leaves it out.
TEST(NewerFamilies, HaveTheirClassesDefaults) {
  const Translation plain = translated(smollm3());
  EXPECT_EQ(plain.config.encoding.options.at("base"), 2e6);
  ASSERT_EQ(plain.config.layer_groups.size(), 1u);  // every fourth layer turns nothing
  EXPECT_EQ(plain.config.layer_groups[0].layers, (std::vector<std::int64_t>{3}));
  Json oss = smollm3();
  oss["model_type"] = "gpt_oss";
  oss["rope_theta"] = 5000.0;  // keeps the class's yarn
  const Json options = translated(oss).config.encoding.options;
  EXPECT_EQ(options.at("base"), 5000.0);
  EXPECT_EQ(options.at("scaling"), "yarn");
  EXPECT_EQ(options.at("factor"), 32.0);
  EXPECT_EQ(options.at("trained_context"), 4096);
  EXPECT_EQ(options.at("truncate"), false);
  Json olmo = smollm3();  // older files: what they say of rope is of the full layers alone
  olmo["model_type"] = "olmo3";
  olmo["rope_theta"] = 700.0;
  const ModelConfig read = translated(olmo).config;
  EXPECT_EQ(read.encoding.options.at("base"), 700.0);
  EXPECT_EQ(read.local_encoding->options.at("base"), 5e5);
  EXPECT_EQ(read.attention.local_layers, (std::vector<std::int64_t>{0, 1, 2}));
  const ModelConfig small = translated({{"model_type", "gemma3n_text"}}).config;
  EXPECT_EQ(small.layers, 35);
  EXPECT_EQ(small.attention.shared_layers.size(), 15u);
  EXPECT_EQ(small.attention.local_layers.size(), 28u);  // every fifth layer sees everything
  EXPECT_EQ(small.streams.count, 4);
  EXPECT_EQ(small.attention.low_rank, 64);
  EXPECT_EQ(small.shape_of(9).sparsity, 0.95);
  EXPECT_EQ(small.shape_of(10).sparsity, 0);
  EXPECT_EQ(small.head.soft_cap, 30);
}

}  // namespace
}  // namespace phasescope::model
