// Checkpoints that are broken, short of something, or of sizes that cannot be.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "golden.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/model/open_error.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

// A copy of the small Llama that a test may damage.
class Damaged : public testing::Test {
 protected:
  Damaged() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy(golden("hf/models/llama") / name, folder_.path() / name);
      fs::permissions(folder_.path() / name, fs::perms::owner_all);
    }
  }
  Json config() const { return formats::json_from_file(folder_.path() / "config.json"); }
  void write_config(const Json& config) const {
    write_text(folder_.path() / "config.json", config.dump());
  }
  std::string folder() const { return folder_.path().string(); }

  TemporaryFolder folder_;
};

TEST_F(Damaged, TruncatedWeightsAreAnError) {
  fs::resize_file(folder_.path() / "model.safetensors", 1000);
  EXPECT_FALSE(error_of(folder()).empty());
  fs::resize_file(folder_.path() / "model.safetensors",
                  fs::file_size(golden("hf/models/llama/model.safetensors")) - 4);
  EXPECT_FALSE(error_of(folder()).empty());
}

TEST_F(Damaged, Row15_AConfigurationThatDoesNotFitTheTensorsListsThem) {
  Json changed = config();
  changed["vocab_size"] = 300;
  changed["intermediate_size"] = 44;
  write_config(changed);
  const std::string text = error_of(folder());
  EXPECT_NE(text.find("model.embed_tokens.weight"), std::string::npos) << text;
  EXPECT_NE(text.find("model.layers.2.mlp.down_proj.weight"), std::string::npos) << text;
}

TEST_F(Damaged, AMissingTensorIsNamed) {
  Json changed = config();
  changed["num_hidden_layers"] = 4;
  write_config(changed);
  EXPECT_NE(error_of(folder()).find("model.layers.3.self_attn.q_proj.weight"), std::string::npos);
}

TEST_F(Damaged, Row15_BadConfigurationsListAllProblems) {
  Json changed = config();
  changed["num_attention_heads"] = 0;
  changed["rms_norm_eps"] = "tiny";
  changed["rope_parameters"]["rope_type"] = "spiral";
  write_config(changed);
  const std::string text = error_of(folder());
  for (const char* key : {"num_attention_heads", "rms_norm_eps", "rope_type"}) {
    EXPECT_NE(text.find(key), std::string::npos) << text;
  }
  changed = config();
  changed["model_type"] = "mamba";
  write_config(changed);
  EXPECT_NE(error_of(folder()).find("mamba"), std::string::npos);
  changed.erase("model_type");
  write_config(changed);
  EXPECT_NE(error_of(folder()).find("there is no model_type"), std::string::npos);
  changed["num_hidden_layers"] = 1'000'000'000;
  changed["model_type"] = "llama";
  write_config(changed);
  EXPECT_NE(error_of(folder()).find("num_hidden_layers"), std::string::npos);
  write_text(folder_.path() / "config.json", "[1");
  EXPECT_FALSE(error_of(folder()).empty());
}

// The model is read by the code of its family here, and its own is told of.
TEST_F(Damaged, Row17_CodeBesideAKnownFamilyIsNamedAndNeverRun) {
  const auto told = [&] { return Json(CheckpointReader(folder()).report().warnings).dump(); };
  EXPECT_EQ(told().find("Python"), std::string::npos);
  Json changed = config();
  changed["auto_map"] = {{"AutoModelForCausalLM", "modeling_evil.Evil"}};
  write_config(changed);
  write_text(folder_.path() / "modeling_evil.py", "raise SystemExit(3)");
  EXPECT_NE(told().find("modeling_evil.Evil"), std::string::npos) << told();
  EXPECT_NE(told().find("never run"), std::string::npos) << told();
}

// A size that could not be read is held against nothing else.
TEST(BadSizes, Row15_SayNothingThatFollowsFromAnotherProblem) {
  const auto problems_with = [](const std::string& name, const Json& changes) {
    TemporaryFolder folder;
    fs::create_symlink(golden("hf/models/" + name) / "model.safetensors",
                       folder.path() / "model.safetensors");
    Json config = formats::json_from_file(golden("hf/models/" + name) / "config.json");
    config.update(changes);
    write_text(folder.path() / "config.json", config.dump());
    const std::string text = error_of(folder.path().string());
    return text.substr(0, text.rfind(" ("));
  };
  const std::string heads =
      "num_attention_heads: must be an integer from 1 to 2147483648, but is 0";
  const std::string layers =
      "num_hidden_layers: must be an integer from 1 to 10000, but is "
      "1000000000";
  EXPECT_EQ(problems_with("phi3_longrope", {{"num_attention_heads", 0}}),
            "the configuration cannot be used: " + heads);
  EXPECT_EQ(problems_with("phi3_longrope",
                          {{"num_attention_heads", 0}, {"num_hidden_layers", 1'000'000'000}}),
            "the configuration has 2 problems: " + layers + "; " + heads);
  EXPECT_EQ(problems_with("gemma3", {{"num_hidden_layers", 1'000'000'000}}),
            "the configuration cannot be used: " + layers);
  EXPECT_EQ(problems_with("phi3_longrope", {{"num_attention_heads", 7}}),
            "the configuration has 2 problems: num_key_value_heads: 2 does not divide the 7 heads; "
            "num_attention_heads: 7 does not divide the hidden size 32");
}

TEST_F(Damaged, Row19_UnexpectedTensorsAndBadNumbersAreReportedNotRefused) {
  const auto archive = formats::TensorArchive::open(folder_.path());
  NamedTensors tensors;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    tensors.emplace_back(entry.name, read_tensor(archive, entry));
  }
  tensors[0].second.flatten()[0] = std::numeric_limits<float>::quiet_NaN();
  tensors[1].second.zero_();
  tensors.emplace_back("model.surplus", at::ones({2}));
  write_tensors(formats::real_file_system(), folder_.path() / "model.safetensors", tensors);
  const auto model = open_model(folder());
  EXPECT_EQ(model->report.unexpected, std::vector<std::string>{"model.surplus"});
  ASSERT_EQ(model->report.flagged.size(), 2u);
  for (const LoadReport::Flagged& flagged : model->report.flagged) {
    EXPECT_EQ(flagged.flag, flagged.name == tensors[0].first ? "nan" : "all zero");
  }
}

std::uint64_t data_bytes(const Json& header) {
  std::uint64_t end = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") end = std::max(end, entry["data_offsets"][1].get<std::uint64_t>());
  }
  return end;
}

// The file with another type in one tensor's entry.
void set_dtype(const fs::path& file, const std::string& tensor, const std::string& dtype) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  Json header = Json::parse(bytes.substr(sizeof size, size));
  header[tensor]["dtype"] = dtype;
  const std::string text = header.dump();
  size = text.size();
  std::string start(sizeof size, '\0');
  std::memcpy(start.data(), &size, sizeof size);
  const std::string data = bytes.substr(bytes.size() - data_bytes(header));
  write_text(file, start + text + data);
}

// Row 6: what is needed and cannot be read keeps the model from being run, not from being told of.
TEST_F(Damaged, Row6_ATensorOfAnUnknownTypeIsListedAndTheOthersToo) {
  const std::string tensor = "model.layers.1.self_attn.q_proj.weight";
  for (const char* dtype : {"F8_E4M3", "F4_OF_TOMORROW", "I32"}) {
    set_dtype(folder_.path() / "model.safetensors", tensor, dtype);
    CheckpointReader reader(folder());
    EXPECT_FALSE(reader.readable());
    const LoadReport report = unread_report(reader, at::kFloat);
    ASSERT_EQ(report.flagged.size(), 1u) << dtype;
    EXPECT_EQ(report.flagged[0].name, tensor);
    EXPECT_EQ(report.flagged[0].dtype, dtype);
    EXPECT_EQ(report.flagged[0].flag, "unsupported");
    EXPECT_EQ(report.dtypes.at(dtype), 1);
    EXPECT_EQ(report.dtypes.at("F32"), 29);
    const auto whole = open_model(golden("hf/models/llama").string());
    EXPECT_EQ(report.parameters, whole->report.parameters);
    EXPECT_EQ(report.memory_bytes_at_context, whole->report.memory_bytes_at_context);
    EXPECT_EQ(report.sha256.size(), 64u);
    const std::string refused = error_of(folder());
    EXPECT_NE(refused.find("tensor " + tensor + " has the type " + dtype), std::string::npos)
        << refused;
    EXPECT_NO_THROW(reader.read("model.embed_tokens.weight", at::kFloat));
    EXPECT_THROW(reader.read(tensor, at::kFloat), formats::Error);
  }
}

// The small Llama's file without some of its tensors.
void leave_out(const fs::path& file, const std::vector<std::string>& names) {
  const auto archive = formats::TensorArchive::open(golden("hf/models/llama"));
  NamedTensors tensors;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    if (std::ranges::find(names, entry.name) != names.end()) continue;
    tensors.emplace_back(entry.name, read_tensor(archive, entry));
  }
  write_tensors(formats::real_file_system(), file, tensors);
}

// What is not there is told of, and keeps the model from being run.
TEST_F(Damaged, MissingTensorsAreListedAndTheOthersToo) {
  const std::vector<std::string> all = {
      "model.layers.1.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight",
      "model.layers.2.self_attn.q_proj.weight", "model.norm.weight", "lm_head.weight"};
  const std::int64_t sizes[] = {32 * 32, 32 * 43, 32 * 32, 32, 256 * 32};
  const auto whole = open_model(golden("hf/models/llama").string());
  std::int64_t left_out = 0;
  for (std::size_t count = 1; count <= all.size(); ++count) {
    const std::vector<std::string> names(all.begin(), all.begin() + static_cast<long>(count));
    left_out += sizes[count - 1];
    leave_out(folder_.path() / "model.safetensors", names);
    CheckpointReader reader(folder());
    EXPECT_FALSE(reader.readable());
    const LoadReport report = unread_report(reader, at::kFloat);
    // Without a head's tensor, the checkpoint is one of a model that has none.
    const bool headless = count == all.size();
    const auto expected = headless ? std::vector(all.begin(), all.end() - 1) : names;
    EXPECT_EQ(std::set(report.missing.begin(), report.missing.end()),
              std::set(expected.begin(), expected.end()));
    EXPECT_EQ(report.missing.size(), expected.size());
    EXPECT_EQ(report.parameters, whole->report.parameters - left_out);
    EXPECT_EQ(report.dtypes.at("F32"), 30 - static_cast<std::int64_t>(count));
    EXPECT_EQ(report.sha256.size(), 64u);
    const std::string refused = error_of(folder());
    const std::string sentence =
        count == 1 ? "a tensor is missing from the file: "
                   : std::to_string(expected.size()) + " tensors are missing from the file: ";
    EXPECT_NE(refused.find(sentence + report.missing[0]), std::string::npos) << refused;
    EXPECT_EQ(refused.find(", ...") != std::string::npos, expected.size() > 3) << refused;
    EXPECT_THROW(reader.require_complete(), formats::Error);
    EXPECT_THROW(reader.load(at::kFloat, {}), formats::Error);
  }
  EXPECT_NO_THROW(CheckpointReader(golden("hf/models/llama").string()).require_complete());
}

// NaN, Inf and zeros are told of in a model that lacks something else, too.
TEST_F(Damaged, Row19_WhatTensorsHoldIsFlaggedThoughOthersAreMissing) {
  NamedTensors tensors;
  const auto archive = formats::TensorArchive::open(golden("hf/models/llama"));
  for (const formats::TensorEntry& entry : archive.tensors()) {
    at::Tensor tensor = read_tensor(archive, entry);
    if (entry.name == "model.norm.weight") continue;
    if (entry.name == "model.layers.0.mlp.up_proj.weight") tensor[0][0] = std::nan("");
    if (entry.name == "model.layers.1.mlp.up_proj.weight") {
      tensor[2][1] = -std::numeric_limits<double>::infinity();
    }
    if (entry.name == "model.layers.2.mlp.up_proj.weight") tensor.zero_();
    tensors.emplace_back(entry.name, tensor);
  }
  write_tensors(formats::real_file_system(), folder_.path() / "model.safetensors", tensors);
  CheckpointReader reader(folder());
  std::map<std::string, std::string> flags;
  for (const auto& tensor : unread_report(reader, at::kFloat).flagged) {
    flags[tensor.name] = tensor.flag;
  }
  const std::map<std::string, std::string> expected = {
      {"model.layers.0.mlp.up_proj.weight", "nan"},
      {"model.layers.1.mlp.up_proj.weight", "inf"},
      {"model.layers.2.mlp.up_proj.weight", "all zero"}};
  EXPECT_EQ(flags, expected);
}

}  // namespace
}  // namespace phasescope::model
