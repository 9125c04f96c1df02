#include "model/checkpoints/config_without_weights.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/error.h"
#include "formats/json.h"
#include "golden.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/rope_plan.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

// A folder with config.json and nothing else.
class ConfigFolder {
 public:
  explicit ConfigFolder(const fs::path& config) {
    fs::copy(config, folder_.path() / "config.json");
    fs::permissions(folder_.path() / "config.json", fs::perms::owner_all);
  }
  explicit ConfigFolder(const Json& config) {
    std::ofstream(folder_.path() / "config.json") << config.dump();
  }
  std::string folder() const { return folder_.path().string(); }
  std::string file() const { return folder() + "/config.json"; }

 private:
  TemporaryFolder folder_;
};

// Which tensors there are decides what a checkpoint is; without them the configuration must come
// out the same, in the dialects of old and new transformers. The checkpoints themselves are held
// against transformers in parity_test.cpp.
TEST(ConfigWithoutWeights, IsThatOfTheCheckpointInEveryFamily) {
  const fs::path models = golden("hf/models");
  std::set<std::string> families;
  for (const fs::directory_entry& model : fs::directory_iterator(models)) {
    const ModelConfig with = CheckpointReader(model.path().string()).config();
    families.insert(with.family);
    for (const char* dialect : {"config.json", "config.v4.json"}) {
      if (!fs::exists(model.path() / dialect)) continue;
      const ConfigFolder alone(model.path() / dialect);
      const std::string name = model.path().filename().string() + "/" + dialect;
      EXPECT_EQ(write_model_config(config_without_weights(alone.folder())),
                write_model_config(with))
          << name;
      EXPECT_EQ(write_model_config(config_without_weights(alone.file())), write_model_config(with))
          << name;
    }
  }
  EXPECT_GE(families.size(), 8u);  // what tests/data holds; more where all references are there
}

Json llama() { return formats::json_from_file(golden("hf/models/llama/config.json")); }

TEST(ConfigWithoutWeights, TheClassSaysWhetherThereIsAHead) {
  Json config = llama();
  for (const auto& [name, head] : {std::pair{"LlamaForCausalLM", true},
                                   {"LlamaModel", false},
                                   {"LlamaForSequenceClassification", false}}) {
    config["architectures"] = {name};
    EXPECT_EQ(config_without_weights(ConfigFolder(config).folder()).head.present, head) << name;
  }
  config.erase("architectures");
  EXPECT_TRUE(config_without_weights(ConfigFolder(config).folder()).head.present);

  Json t5 = formats::json_from_file(golden("hf/models/t5/config.json"));
  t5["architectures"] = {"T5EncoderModel"};
  EXPECT_EQ(config_without_weights(ConfigFolder(t5).folder()).encoder_layers, 0);
  t5["architectures"] = {"T5Model"};
  EXPECT_GT(config_without_weights(ConfigFolder(t5).folder()).encoder_layers, 0);
}

TEST(ConfigWithoutWeights, ReadsRunConfigurationsAndBundledModels) {
  const ConfigFolder run(
      Json{{"model", {{"vocab_size", 64}, {"layers", 3}, {"width", 32}, {"heads", 8}}},
           {"encoding", {{"key", "alibi"}}},
           {"train", {{"steps", 1}}}});
  EXPECT_EQ(config_without_weights(run.file()).layers, 3);
  EXPECT_EQ(config_without_weights(run.file()).kv_heads, 4);  // training's default, not the heads
  EXPECT_EQ(config_without_weights(run.file()).encoding.key, "alibi");
  // Any of its sections makes it one.
  for (const char* section : {"model", "data", "train", "eval"}) {
    const ConfigFolder file(Json{{section, Json::object()}, {"encoding", {{"key", "alibi"}}}});
    EXPECT_EQ(config_without_weights(file.file()).encoding.key, "alibi") << section;
    EXPECT_EQ(config_without_weights(file.file()).width, 192) << section;
  }
  const ConfigFolder encoding(Json{{"encoding", {{"key", "alibi"}}}});
  EXPECT_EQ(config_without_weights(encoding.file()).encoding.key, "alibi");
  const ConfigFolder random(
      Json{{"positions", {{"map", "random"}, {"range", 4096}}}, {"train", Json::object()}});
  EXPECT_EQ(config_without_weights(random.file()).positions.range, 4096);
  EXPECT_EQ(config_without_weights("rope").encoding.key, "rope");
}

TEST(ConfigWithoutWeights, WhatIsWrongIsOneSentence) {
  const auto refusal = [](const std::string& name) -> std::string {
    try {
      config_without_weights(name);
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    ADD_FAILURE() << name << " was read";
    return {};
  };
  Json config = llama();
  config["model_type"] = "unheard_of";
  EXPECT_NE(refusal(ConfigFolder(config).folder()).find("unheard_of"), std::string::npos);
  config = llama();
  config["hidden_act"] = config["model_type"] = std::string(5000, 'x') + "\n";
  EXPECT_LT(refusal(ConfigFolder(config).folder()).size(), 1000u);  // lists all families
  config["model_type"] = "llama";
  EXPECT_LT(refusal(ConfigFolder(config).folder()).size(), 600u);
  const Json own = {{"model", {{"vocab_size", 64}, {"layers", 3}, {"width", 32}, {"heads", 4}}},
                    {"encoding", {{"key", std::string(5000, 'x')}}}};
  EXPECT_LT(refusal(ConfigFolder(own).file()).size(), 600u);
  Json surplus = own;
  surplus["encoding"] = {{"key", "rope"}};
  surplus["model"][std::string(5000, 'x')] = 1;
  EXPECT_LT(refusal(ConfigFolder(surplus).file()).size(), 600u);
  const Json misspelt = {{"train", Json::object()}, {"encodng", {{"key", "alibi"}}}};
  EXPECT_NE(refusal(ConfigFolder(misspelt).file()).find("encodng: unknown key"), std::string::npos);
  const Json list = {{"train", Json::array()}};
  EXPECT_NE(refusal(ConfigFolder(list).file()).find("train: must be an object"), std::string::npos);
  config = llama();
  config["num_attention_heads"] = 0;
  EXPECT_NE(refusal(ConfigFolder(config).file()).find("num_attention_heads"), std::string::npos);
  EXPECT_NE(refusal(ConfigFolder(Json::array()).file()).find("object"), std::string::npos);
  EXPECT_NE(refusal("no/such/folder").find("there is no model"), std::string::npos);
}

// The rope of three models of 2025, from their configurations alone.
TEST(ConfigAlone, HasTheRopePlanThatTheLibraryWouldApply) {
  for (const std::string name : {"gpt_oss", "smollm3", "gemma4"}) {
    const std::string file = golden("hf/configs/" + name + ".json").string();
    const auto alone = config_alone(file);
    ASSERT_TRUE(alone) << name;
    EXPECT_EQ(alone->report.name, file.substr(0, file.size() - 5));
    ASSERT_NE(alone->report.as_library, nullptr);
    const auto plan = rope_plan(alone->config, 64, {}, alone->report.as_library.get());
    ASSERT_EQ(plan.size(), 2u) << name;
    for (const RopePlanRow& row : plan) {
      // SmolLM 3's layers without a rope have nothing to compare.
      EXPECT_EQ(row.library_difference.has_value(), !row.frequencies.empty()) << name;
      EXPECT_EQ(row.library_difference.value_or(0), 0) << name;
    }
  }
  EXPECT_FALSE(config_alone("rope"));
  EXPECT_FALSE(config_alone(golden("hf/models/llama").string()));
  const auto llama = config_alone(golden("hf/models/llama/config.json").string());
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->report.name, golden("hf/models/llama").string());
  EXPECT_EQ(llama->report.family, "llama");
}

// The warnings of a configuration by itself that says how weights are quantised.
std::string told_of(const Json& how) {
  Json config = formats::json_from_file(golden("hf/configs/smollm3.json"));
  config["quantization_config"] = how;
  const ConfigFolder folder(config);
  const auto alone = config_alone(folder.file());
  return Json(alone.value().report.warnings).dump();
}

// Weights that would be refused are told of where there are none to refuse.
TEST(ConfigAlone, TellsOfAQuantiserThatIsNotKnown) {
  EXPECT_NE(told_of({{"quant_method", "quip_of_tomorrow"}}).find("quip_of_tomorrow"),
            std::string::npos);
  EXPECT_NE(told_of({{"quant_method", "quip_of_tomorrow"}}).find("known: fp8, mxfp4, gptq"),
            std::string::npos);
  EXPECT_NE(told_of({{"bits", 4}}).find("nothing says how"), std::string::npos);
  EXPECT_EQ(told_of(nullptr).find("quantised"), std::string::npos);
}

// One setting of each method that can be read, and one that cannot.
TEST(ConfigAlone, TellsOfSettingsOfAQuantiserThatCannotBeRead) {
  const Json packed = {{"group_0", {{"weights", {{"num_bits", 4}, {"type", "int"}}}}}};
  const Json halves = {{"group_0", {{"weights", {{"num_bits", 2}, {"type", "int"}}}}}};
  struct Case {
    const char* method;
    Json read, refused;
    const char* key;  // that the sentence names
  };
  const Case cases[] = {
      {"fp8", {{"weight_block_size", {128, 128}}}, {{"weight_block_size", {128}}}, "weight_block"},
      {"mxfp4", Json::object(), nullptr, ""},
      {"gptq", {{"bits", 4}}, {{"bits", 4}, {"checkpoint_format", "marlin"}}, "marlin"},
      {"gptq", {{"bits", 4}}, {{"bits", 8}}, "bits"},
      {"awq", {{"bits", 4}}, {{"bits", 4}, {"version", "gemv"}}, "gemv"},
      {"compressed-tensors",
       {{"format", "pack-quantized"}, {"config_groups", packed}},
       {{"format", "marlin-24"}, {"config_groups", packed}},
       "marlin-24"},
      {"compressed-tensors",
       {{"format", "pack-quantized"}, {"config_groups", packed}},
       {{"format", "pack-quantized"}, {"config_groups", halves}},
       "2 bits"},
      {"bitsandbytes", {{"load_in_4bit", true}}, {{"load_in_8bit", true}}, "load_in_4bit"}};
  for (const Case& one : cases) {
    Json settings = one.read;
    settings["quant_method"] = one.method;
    EXPECT_EQ(told_of(settings).find("quantised"), std::string::npos) << settings.dump();
    if (one.refused.is_null()) continue;
    settings = one.refused;
    settings["quant_method"] = one.method;
    const std::string told = told_of(settings);
    EXPECT_NE(told.find(std::string("quantised by ") + one.method), std::string::npos) << told;
    EXPECT_NE(told.find(one.key), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace phasescope::model
