// Whole models of GGUF files and quantised checkpoints against Hugging Face transformers with the
// weights that others' code decodes them to.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "golden.h"
#include "model/checkpoints/check.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/convert.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "model/families/family.h"
#include "open_error.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

bool has_family(const std::string& key) {
  return std::ranges::any_of(families(), [&](const Family& family) { return family.key == key; });
}

// Outputs of a forward pass in a reference file, and the weights it lists: not its ids.
std::size_t outputs_in(const fs::path& reference) {
  const auto file = formats::SafetensorsFile::open(reference);
  return static_cast<std::size_t>(std::ranges::count_if(
      file.tensors(), [](const formats::TensorEntry& entry) { return entry.name != "input_ids"; }));
}

std::string failures_of(const ReferenceCheck& check) {
  std::string text;
  for (const TensorComparison& c : check.compared) {
    if (!c.passed) text += c.name + " is off by " + std::to_string(c.error) + " " + c.why + "\n";
  }
  for (const NotCompared& n : check.not_compared) text += n.name + ": " + n.reason + "\n";
  return text;
}

// GGUF files of plain numbers.
const std::set<std::string> plain_types = {"gguf_f32", "gguf_f16", "gguf_bf16"};

class QuantisedModel : public testing::TestWithParam<const char*> {};

TEST_P(QuantisedModel, AgreesWithHuggingFace) {
  const std::string name = GetParam();
  const fs::path folder = golden("hf/formats/" + name);
  if (folder.empty()) GTEST_SKIP() << "its files are not here";
  const Json about = formats::json_from_file(folder / "about.json");
  if (!has_family(about.at("family"))) GTEST_SKIP() << "its family cannot be read";
  const fs::path reference = folder / "expected.safetensors";
  for (const Backend backend : {Backend::plain, Backend::fused}) {
    CheckOptions options;
    options.forward.backend = backend;
    const ReferenceCheck check = check_against(folder.string(), reference, options);
    EXPECT_TRUE(check.passed) << failures_of(check);
    EXPECT_EQ(check.compared.size(), outputs_in(reference)) << failures_of(check);
    EXPECT_EQ(check.weights_from.starts_with("from "), !plain_types.contains(name));
    for (const TensorComparison& c : check.compared) {
      noted(about.at("family"), "hf/formats/" + name, c.name.ends_with("_f64") ? "f64" : "f32",
            c.error);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, QuantisedModel,
                         testing::Values("awq_int4", "bnb_nf4", "bnb_nf4_double",
                                         "compressed_fp8_channel", "compressed_w4a16",
                                         "compressed_w4a16_asym", "fp8_block", "fp8_block_e8m0",
                                         "fp8_block_partial", "gguf_bf16", "gguf_f16", "gguf_f32",
                                         "gguf_k_mixed", "gguf_q4_0", "gguf_q4_1", "gguf_q4_k",
                                         "gguf_q5_0", "gguf_q5_1", "gguf_q8_0", "gptq_int4",
                                         "gptq_int4_act_order", "gptq_int4_v2", "mxfp4_gpt_oss"),
                         [](const auto& info) { return std::string(info.param); });

// All experts are one tensor of the file, of which the model makes three of each.
TEST(QuantisedModels, FusedExpertsAreComparedByTheFilesName) {
  const fs::path folder = golden("hf/formats/mxfp4_gpt_oss");
  if (folder.empty()) GTEST_SKIP() << "its files are not here";
  TemporaryFolder made;
  const fs::path file = made.path() / "reference.safetensors";
  for (const char* name : {"gate_up_proj", "down_proj"}) {
    const std::string own = std::string("model.layers.1.mlp.experts.") + name;
    at::Tensor weight =
        golden_tensor("hf/formats/mxfp4_gpt_oss/expected.safetensors", "w." + own).clone();
    const auto run = [&] {
      write_tensors(formats::real_file_system(), file, {{"w." + own, weight}});
      return check_against(folder.string(), file);
    };
    ASSERT_EQ(run().compared.size(), 1u) << own;
    EXPECT_EQ(run().compared[0].error, 0) << own;
    weight[1][2][3] += 1e-5 * weight.abs().max();
    EXPECT_FALSE(run().passed) << own;
    weight = weight.slice(1, 1).contiguous();
    EXPECT_NE(run().compared[0].why.find("the shape is"), std::string::npos) << own;
  }
}

TEST(QuantisedModels, SayWhatTheirWeightsAreFrom) {
  const fs::path file = golden("hf/formats/gguf_q4_0/model.gguf");
  if (file.empty()) GTEST_SKIP() << "its files are not here";
  const auto model = open_model(file.string());
  EXPECT_EQ(model->report.weights_from, "from Q4_0 (9 tensors)");
  EXPECT_EQ(model->report.dtypes.at("Q4_0"), 9);
  ASSERT_FALSE(model->report.quirks.empty());
  EXPECT_NE(model->report.quirks[0].find("from Q4_0 (9 tensors)"), std::string::npos);
  EXPECT_TRUE(model->report.unexpected.empty());
  EXPECT_EQ(model->report.sha256.size(), 64u);
  ASSERT_NE(model->tokenizer, nullptr);
  EXPECT_EQ(model->report.tokenizer, "SentencePiece BPE");
  const auto plain = open_model(golden("hf/models/llama").string());
  EXPECT_TRUE(plain->report.weights_from.empty());
}

// A folder with one GGUF file is that file.
TEST(QuantisedModels, AGgufFileIsFoundInItsFolder) {
  TemporaryFolder folder;
  const fs::path file = golden("hf/formats/gguf_q4_0/model.gguf");
  if (file.empty()) GTEST_SKIP() << "its files are not here";
  fs::copy(file, folder.path() / "tiny.gguf");
  EXPECT_EQ(open_model(folder.path().string())->report.weights_from, "from Q4_0 (9 tensors)");
  fs::copy(file, folder.path() / "other.gguf");
  EXPECT_NE(error_of(folder.path().string()).find("2 GGUF files"), std::string::npos);
}

// Converted to this project's own form, which is plain float32, the numbers are the same ones.
TEST(QuantisedModels, ConvertedTheyGiveTheSameLogits) {
  for (const char* name : {"hf/formats/gguf_q4_0/model.gguf", "hf/formats/gptq_int4_act_order"}) {
    TemporaryFolder folder;
    const std::string path = golden(name).string();
    if (path.empty()) GTEST_SKIP() << "its files are not here";
    convert_model(formats::real_file_system(), path, "phasescope", folder.path() / "own", {});
    const auto quantised = open_model(path), own = open_model((folder.path() / "own").string());
    EXPECT_TRUE(own->report.weights_from.empty());
    const at::NoGradGuard no_grad;
    const at::Tensor ids = random_ids(1, 12, quantised->config().vocab_size);
    EXPECT_TRUE(at::equal(quantised->decoder.forward(ids), own->decoder.forward(ids))) << name;
    EXPECT_THROW(convert_model(formats::real_file_system(), path, "safetensors",
                               folder.path() / "plain", {}),
                 formats::Error);
  }
}

}  // namespace
}  // namespace phasescope::model
