#include "model/open_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "golden.h"
#include "model/check.h"
#include "model/checkpoint_reader.h"
#include "model/tensor_io.h"
#include "tests/model/torch_state.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

// The whole text of the error that opening gives.
std::string error_of(const std::string& model, const OpenModelOptions& options = {}) {
  try {
    open_model(model, options);
  } catch (const formats::Error& error) {
    EXPECT_TRUE(error.code() == "bad_input" || error.code() == "bad_usage") << error.code();
    return error.full_text();
  }
  ADD_FAILURE() << model << " opened";
  return {};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

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

TEST(OpenModel, MissingFilesAndUnknownNamesAreOneSentence) {
  EXPECT_NE(error_of("no/such/folder").find("there is no model"), std::string::npos);
  TemporaryFolder empty;
  EXPECT_NE(error_of(empty.path().string()).find("no config.json"), std::string::npos);
  write_text(empty.path() / "a.safetensors", "x");
  EXPECT_NE(error_of((empty.path() / "a.safetensors").string()).find("no config.json beside"),
            std::string::npos);
}

TEST_F(Damaged, TruncatedWeightsAreAnError) {
  fs::resize_file(folder_.path() / "model.safetensors", 1000);
  EXPECT_FALSE(error_of(folder()).empty());
  fs::resize_file(folder_.path() / "model.safetensors",
                  fs::file_size(golden("hf/models/llama/model.safetensors")) - 4);
  EXPECT_FALSE(error_of(folder()).empty());
}

TEST_F(Damaged, AConfigurationThatDoesNotFitTheTensorsListsThem) {
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

TEST_F(Damaged, BadConfigurationsListAllProblems) {
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

// A size that could not be read is held against nothing else.
TEST(BadSizes, SayNothingThatFollowsFromAnotherProblem) {
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

TEST_F(Damaged, UnexpectedTensorsAndBadNumbersAreReportedNotRefused) {
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

TEST(OpenModel, ReportsWhatItFound) {
  const auto model = open_model(golden("hf/models/llama").string());
  EXPECT_EQ(model->report.family, "llama");
  EXPECT_EQ(model->report.dtypes.at("F32"), 30);
  // 256 x 32 twice, 3 layers of 4 x 32 x 32 + 3 x 32 x 43 + 2 x 32, and the last norm.
  EXPECT_EQ(model->report.parameters, 2 * 256 * 32 + 3 * (4 * 1024 + 3 * 1376 + 64) + 32);
  EXPECT_EQ(model->report.sha256,
            formats::sha256_of_file(golden("hf/models/llama/model.safetensors")));
  const auto hub = open_model(golden("hf/models/llama_hub_names").string());
  ASSERT_EQ(hub->report.quirks.size(), 1u);  // a stored inv_freq a layer
  EXPECT_NE(hub->report.quirks[0].find("(3 tensors)"), std::string::npos) << hub->report.quirks[0];
  const auto tied = open_model(golden("hf/models/llama_gqa_tied").string());
  EXPECT_EQ(tied->report.tied.size(), 1u);
  const TemporaryFolder folder;
  fs::copy(golden("papers/tape/adape/model.safetensors"), folder.path() / "model.safetensors");
  Json config = formats::json_from_file(golden("papers/tape/adape/config.json"));
  config["rope_theta"] = 50000.0;
  std::ofstream(folder.path() / "config.json") << config.dump();
  const auto tape = open_model(folder.path().string());
  EXPECT_EQ(tape->report.family, "tape_public");
  EXPECT_EQ(tape->report.encoding_why, "rpe_type is \"adape\"");
  EXPECT_EQ(tape->encoding().options().at("base").get<double>(), 50000);
  EXPECT_GE(tape->report.quirks.size(), 3u);
}

TEST(OpenModel, KnowsTapeByItsTensorsAlone) {
  TemporaryFolder folder;
  fs::copy(golden("papers/tape/adape/model.safetensors"), folder.path() / "model.safetensors");
  Json config = formats::json_from_file(golden("papers/tape/adape/config.json"));
  config.erase("rpe_type");
  write_text(folder.path() / "config.json", config.dump());
  const auto model = open_model(folder.path().string());
  EXPECT_EQ(model->config().encoding.key, "tape");
  EXPECT_EQ(model->report.encoding_why, "the tensors pe.up_proj are there");
}

TEST(OpenModel, OverridesChangeTheEncoding) {
  const std::string llama = golden("hf/models/llama").string();
  const auto model = open_model(llama, {.overrides = {{"rope.base", "1e6"}}});
  EXPECT_EQ(model->encoding().options().at("base").get<double>(), 1e6);
  EXPECT_NE(error_of(llama, {.overrides = {{"rope.bsae", "1"}}}).find("near: base"),
            std::string::npos);
  EXPECT_NE(error_of(llama, {.overrides = {{"encoding.key", "tape"}}}).find("up_proj"),
            std::string::npos);
}

// Readings of one file share its tensors.
TEST(OpenModel, AReadingHasItsOwnNameAndTheSameWeights) {
  const auto model = open_model(golden("hf/models/llama").string());
  const auto reading = with_overrides(
      model, {{"encoding.scaling", "yarn"}, {"encoding.factor", "2"}}, "llama (yarn x2)");
  EXPECT_EQ(reading->report.name, "llama (yarn x2)");
  EXPECT_EQ(reading->report.quirks.back(), "--set encoding.factor=2");
  EXPECT_TRUE(
      reading->decoder.weights().layers[0].wq.is_same(model->decoder.weights().layers[0].wq));
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 20, 80);
  EXPECT_GT(relative_error(reading->decoder.forward(ids), model->decoder.forward(ids)), 1e-4);
}

TEST(OpenModel, OnlyWhatRotatesTakesAScaling) {
  const std::string gpt2 = golden("hf/models/gpt2").string();
  const std::string text = error_of(gpt2, {.overrides = {{"encoding.scaling", "yarn"}}});
  EXPECT_NE(text.find("learned has no option \"scaling\""), std::string::npos) << text;
}

TEST(OpenModel, TellsHowFarItIsAndCanBeCancelled) {
  const std::string sharded = golden("hf/models/llama_sharded").string();
  std::vector<double> told;
  open_model(sharded, {.progress = [&told](double done) { told.push_back(done); }});
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1);
  int asked = 0;
  try {
    open_model(sharded, {.cancelled = [&asked] { return ++asked > 12; }});
    ADD_FAILURE() << "it opened";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "cancelled");
  }
  EXPECT_EQ(asked, 13);
}

// A copy of a case's files, some of them changed by a test.
void copy_case(const std::string& name, const fs::path& to) {
  fs::create_directories(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(golden("hf/models/" + name))) {
    const fs::path file = to / entry.path().filename();
    fs::copy(entry.path(), file);
    fs::permissions(file, fs::perms::owner_all);
  }
}

NamedTensors tensors_of(const fs::path& folder) {
  const auto archive = formats::TensorArchive::open(folder);
  NamedTensors tensors;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    tensors.emplace_back(entry.name, read_tensor(archive, entry));
  }
  return tensors;
}

class Adapters : public testing::TestWithParam<const char*> {};

// The base beside it, merged here by hand: r = 3 and alpha 6 give a scale of 2. GPT-2's matrices
// are (in, out), and its files lack the "transformer." that PEFT's names have.
TEST_P(Adapters, AreMergedIntoTheBaseModelBesideThem) {
  const bool gpt2 = GetParam() == std::string("gpt2_hub_names");
  TemporaryFolder folder;
  const fs::path base = folder.path() / "base", adapter = folder.path() / "adapter";
  copy_case(GetParam(), base);
  fs::create_directories(adapter);
  NamedTensors tensors = tensors_of(base);
  const std::string target =
      gpt2 ? "h.1.attn.c_attn.weight" : "model.layers.1.self_attn.v_proj.weight";
  const std::string norm = gpt2 ? "ln_f.weight" : "model.norm.weight";
  NamedTensors changes;
  for (auto& [name, tensor] : tensors) {
    const std::string full = "base_model.model." + std::string(gpt2 ? "transformer." : "") +
                             name.substr(0, name.rfind('.'));
    if (name == target) {
      const std::int64_t out = tensor.size(gpt2 ? 1 : 0), in = tensor.size(gpt2 ? 0 : 1);
      const at::Tensor a = at::randn({3, in}), b = at::randn({out, 3});
      changes.emplace_back(full + ".lora_A.weight", a);
      changes.emplace_back(full + ".lora_B.weight", b);
      const at::Tensor added = 2 * at::matmul(b, a);
      tensor = tensor + (gpt2 ? added.t() : added);
    } else if (name == norm) {
      tensor = at::randn_like(tensor);
      changes.emplace_back(full + ".weight", tensor);
    }
  }
  ASSERT_EQ(changes.size(), 3u);
  const bool older = gpt2;  // written by torch.save
  if (older) {
    write_torch_state(adapter / "adapter_model.bin", changes);
  } else {
    write_tensors(formats::real_file_system(), adapter / "adapter_model.safetensors", changes);
  }
  Json config = {{"peft_type", "LORA"},
                 {"r", 3},
                 {"lora_alpha", 6},
                 {"fan_in_fan_out", gpt2},
                 {"base_model_name_or_path", "somebody/base"}};
  write_text(adapter / "adapter_config.json", config.dump());
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 20, 80);
  const at::Tensor adapted = open_model(adapter.string())->decoder.forward(ids);
  EXPECT_GT(relative_error(adapted, open_model(base.string())->decoder.forward(ids)), 1e-2);
  const fs::path merged = folder.path() / "merged";
  copy_case(GetParam(), merged);
  write_tensors(formats::real_file_system(), merged / "model.safetensors", tensors);
  EXPECT_LT(relative_error(adapted, open_model(merged.string())->decoder.forward(ids)), 1e-6);

  // Results name their model by its hash: that of the base is another one, and so is that of the
  // same matrices with another scale.
  const LoadReport report = open_model(adapter.string())->report;
  EXPECT_EQ(report.path, adapter.string());
  EXPECT_NE(report.sha256, open_model(base.string())->report.sha256);
  config["lora_alpha"] = 7;
  write_text(adapter / "adapter_config.json", config.dump());
  const std::string scaled = open_model(adapter.string())->report.sha256;
  EXPECT_NE(scaled, report.sha256);
  changes.back().second = changes.back().second + 1;
  if (older) {
    write_torch_state(adapter / "adapter_model.bin", changes);
  } else {
    write_tensors(formats::real_file_system(), adapter / "adapter_model.safetensors", changes);
  }
  EXPECT_NE(open_model(adapter.string())->report.sha256, scaled);

  config["use_dora"] = true;
  write_text(adapter / "adapter_config.json", config.dump());
  EXPECT_NE(error_of(adapter.string()).find("use_dora"), std::string::npos);
  config["use_dora"] = false;
  config["base_model_name_or_path"] = "somebody/absent";
  write_text(adapter / "adapter_config.json", config.dump());
  EXPECT_NE(error_of(adapter.string()).find("somebody/absent"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Bases, Adapters, testing::Values("llama", "gpt2_hub_names"),
                         [](const auto& info) { return std::string(info.param); });

// Bare models: everything but logits.
TEST(Headless, ModelsOpenAndSayThatTheyHaveNoLogits) {
  for (const std::string name : {"llama", "bert", "gpt2"}) {
    TemporaryFolder folder;
    copy_case(name, folder.path());
    NamedTensors kept;
    for (auto& [tensor, value] : tensors_of(folder.path())) {
      const bool head = tensor.starts_with("lm_head.") || tensor.starts_with("cls.");
      if (!head) kept.emplace_back(tensor, value);
    }
    write_tensors(formats::real_file_system(), folder.path() / "model.safetensors", kept);
    Json config = formats::json_from_file(folder.path() / "config.json");
    if (name != "llama") config["architectures"] = {name == "bert" ? "BertModel" : "GPT2Model"};
    write_text(folder.path() / "config.json", config.dump());
    const auto model = open_model(folder.path().string());
    EXPECT_FALSE(model->config().head.present) << name;
    EXPECT_FALSE(model->report.warnings.empty()) << name;
    EXPECT_TRUE(model->report.missing.empty() && model->report.unexpected.empty()) << name;
    const ReferenceCheck check = check_against(
        folder.path().string(), golden("hf/models/" + name + "/expected.safetensors"));
    EXPECT_TRUE(check.passed) << name;
    EXPECT_GE(check.compared.size(), 5u) << name;
    EXPECT_THROW(model->decoder.forward(random_ids(1, 5, 80)), formats::Error) << name;
  }
}

// The encoder of a T5 alone, against the encoder of the whole.
TEST(Headless, AnEncoderOfAnEncoderDecoderOpensAlone) {
  TemporaryFolder folder;
  copy_case("t5", folder.path());
  NamedTensors kept;
  for (auto& [tensor, value] : tensors_of(folder.path())) {
    if (!tensor.starts_with("decoder.")) kept.emplace_back(tensor, value);
  }
  write_tensors(formats::real_file_system(), folder.path() / "model.safetensors", kept);
  const auto model = open_model(folder.path().string());
  EXPECT_FALSE(model->config().attention.causal);
  const std::string expected = "hf/models/t5/expected.safetensors";
  const at::NoGradGuard no_grad;
  EXPECT_LT(relative_error(model->decoder.hidden(golden_tensor(expected, "input_ids")),
                           golden_tensor(expected, "enc.hidden.2")),
            1e-5);
}

TEST(Structure, PositionsPastALearnedTableAreAnErrorThatNamesBoth) {
  const auto model = open_model(golden("hf/models/gpt2").string());
  const std::int64_t rows = model->config().context;
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, rows, 80);
  EXPECT_NO_THROW(model->decoder.forward(ids));
  try {
    model->decoder.forward(ids, {.shift = 5});
    ADD_FAILURE() << "a position past the table was read";
  } catch (const formats::Error& error) {
    EXPECT_NE(error.message().find("position " + std::to_string(rows + 4)), std::string::npos)
        << error.message();
    EXPECT_NE(error.message().find(std::to_string(rows) + " positions"), std::string::npos);
  }
}

// Padding in front: texts of a batch must give what they give alone.
TEST(Structure, PaddedTextsGiveWhatTheyGiveAlone) {
  for (const std::string name : {"opt_350m_style", "mpt", "bert"}) {
    const auto model = open_model(golden("hf/models/" + name).string(), {.dtype = at::kDouble});
    const at::NoGradGuard no_grad;
    const at::Tensor text = random_ids(1, 12, 80);
    const at::Tensor alone = model->decoder.forward(text);
    const std::int64_t padding = 4;
    // Where positions do not count padding they are given.
    ForwardOptions options;
    if (!model->config().positions_skip_padding) {
      options.position_ids = (at::arange(12 + padding, at::kLong) - padding).clamp_min(0);
    }
    options.key_mask = at::ones({1, 12 + padding}, at::kLong);
    options.key_mask.narrow(1, 0, padding).zero_();
    const at::Tensor padded =
        model->decoder.forward(at::constant_pad_nd(text, {padding, 0}, 1), options);
    EXPECT_LT(relative_error(padded.slice(1, padding), alone), 1e-12) << name;
  }
}

TEST(Structure, AWindowHidesWhatLiesPastIt) {
  ModelConfig config = tiny_config("rope");
  config.layers = 1;
  config.attention.window = 5;
  config.attention.local_layers = {0};
  const auto model = random_model(config, 3, at::kDouble);
  const at::NoGradGuard no_grad;
  at::Tensor ids = random_ids(1, 20, config.vocab_size);
  const at::Tensor before = model->decoder.forward(ids).select(1, 19);
  ids[0][14] = (ids[0][14] + 1) % config.vocab_size;
  EXPECT_TRUE(model->decoder.forward(ids).select(1, 19).equal(before));
  ids[0][15] = (ids[0][15] + 1) % config.vocab_size;
  EXPECT_FALSE(model->decoder.forward(ids).select(1, 19).equal(before));
}

TEST(SavedModels, OpenToTheSameWeights) {
  for (const EncodingEntry& entry : encodings()) {
    ModelConfig config = tiny_config(entry.info->key);
    config.tokenizer = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
    config.vocab_size = 256;
    const auto model = random_model(config, 9);
    TemporaryFolder folder;
    save_model(formats::real_file_system(), folder.path(), config, model->encoding(),
               model->decoder.weights());
    const auto again = open_model(folder.path().string());
    EXPECT_EQ(again->report.family, "phasescope");
    EXPECT_EQ(again->report.tokenizer, "bytes");
    EXPECT_TRUE(again->report.unexpected.empty() && again->report.missing.empty());
    const at::NoGradGuard no_grad;
    const at::Tensor ids = random_ids(1, 20, config.vocab_size);
    EXPECT_TRUE(again->decoder.forward(ids).equal(model->decoder.forward(ids))) << entry.info->key;
  }
}

TEST(SavedModels, AJobOpensItsNewestCheckpointThatVerifies) {
  const auto model = random_model(tiny_config("rope"), 9);
  TemporaryFolder job;
  for (const int step : {100, 200, 1000}) {
    const fs::path folder = job.path() / "checkpoints" / ("step-" + std::to_string(step));
    fs::create_directories(folder);
    save_model(formats::real_file_system(), folder, model->config(), model->encoding(),
               model->decoder.weights());
    Json files = Json::array();
    for (const char* name : {"config.json", "model.safetensors"}) {
      files.push_back({{"name", name},
                       {"size", fs::file_size(folder / name)},
                       {"sha256", formats::sha256_of_file(folder / name)}});
    }
    write_text(folder / "manifest.json", Json{{"files", files}}.dump());
  }
  write_text(job.path() / "config.json", "{\"model\": {}}");  // the run's, not a model's
  EXPECT_NE(open_model(job.path().string())->report.name.find("step 1000"), std::string::npos);
  write_text(job.path() / "checkpoints/step-1000/config.json", "{}");
  const auto older = open_model(job.path().string());
  EXPECT_NE(older->report.name.find("step 200"), std::string::npos);
  EXPECT_EQ(older->report.warnings.size(), 1u);
}

TEST(InitialWeights, FollowTheRecipeAndTheSeed) {
  ModelConfig config = tiny_config("kerple_log");
  config.width = 96;
  config.heads = config.kv_heads = 12;
  const auto encoding = make_encoding(config);
  const Weights weights = init_weights(config, *encoding, 1);
  const double residual = config.init_std / std::sqrt(2.0 * 2);
  // 96 x 96 samples: the standard deviation is known to 1 %.
  EXPECT_NEAR(weights.layers[0].wq.std().item<double>(), config.init_std, 0.05 * config.init_std);
  EXPECT_NEAR(weights.layers[1].wo.std().item<double>(), residual, 0.05 * residual);
  EXPECT_TRUE(weights.final_norm.eq(1).all().item<bool>());
  EXPECT_LE(weights.layers[0].encoding.at("p").max().item<double>(), 2.0);
  EXPECT_TRUE(weights.embedding.equal(init_weights(config, *encoding, 1).embedding));
  EXPECT_FALSE(weights.embedding.equal(init_weights(config, *encoding, 2).embedding));
}

TEST(Ids, AreCheckedBeforeAnythingRuns) {
  const auto model = random_model(tiny_config("rope"), 1);
  const auto text_of = [&](const at::Tensor& ids) {
    try {
      model->decoder.forward(ids);
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(text_of(at::tensor({1, 29}, at::kLong).unsqueeze(0)),
            "token id 29 is outside the model's vocabulary of 29");
  EXPECT_EQ(text_of(at::tensor({-3, 2}, at::kLong).unsqueeze(0)),
            "token id -3 is outside the model's vocabulary of 29");
  EXPECT_NE(text_of(at::empty({1, 0}, at::kLong)).find("no tokens"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::model
