// Weights that stay in their file.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "formats/error.h"
#include "golden.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWidth = 1024;

// Matrices of 2 MB and more, which are views, beside ones that are too small for it.
ModelConfig large_config() {
  ModelConfig config = tiny_config("rope");
  config.width = kWidth, config.ffn_width = kWidth;
  config.heads = 8, config.kv_heads = 2, config.head_dim = kWidth / 8;
  config.layers = 2, config.vocab_size = 64, config.context = 32;
  config.init_std = 0.02;
  return config;
}

// In bfloat16; written once.
class MappedWeights : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    const auto model = random_model(large_config(), 4);
    Weights weights = model->decoder.weights();
    // A value that the report tells, in a tensor that is a view.
    weights.layers[1].wo[3][5] = std::numeric_limits<float>::infinity();
    save_model(formats::real_file_system(), folder_->path(), model->config(), model->encoding(),
               weights, at::kBFloat16);
    weights.layers[1].wo[3][5] = 0;
    sound_ = std::make_unique<TemporaryFolder>();
    save_model(formats::real_file_system(), sound_->path(), model->config(), model->encoding(),
               weights, at::kBFloat16);
  }
  static void TearDownTestSuite() { folder_.reset(), sound_.reset(); }

  static std::shared_ptr<const Model> open(const TemporaryFolder& folder, at::ScalarType dtype,
                                           WeightsMemory memory = {}) {
    return open_model(folder.path().string(), {.dtype = dtype, .memory = memory});
  }
  static at::Tensor logits(const Model& model) {
    const at::NoGradGuard no_grad;
    return model.decoder.forward(random_ids(1, 12, 64));
  }
  static bool says_mapped(const Model& model) {
    return std::ranges::any_of(model.report.quirks, [](const std::string& quirk) {
      return quirk.find("mapped file") != std::string::npos;
    });
  }
  static bool is_view(const Model& model, const at::Tensor& tensor) {
    const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
    return std::ranges::any_of(model.decoder.weights().files, [&](const auto& file) {
      return data >= file->bytes().data() && data < file->bytes().data() + file->bytes().size();
    });
  }

  // Whether the system lists the file among what this process has mapped.
  static bool is_in_memory(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(path)) return true;
    }
    return false;
  }

  static inline std::unique_ptr<TemporaryFolder> folder_, sound_;
};

TEST_F(MappedWeights, AreCopiesWhereNobodyAsks) {
  const auto model = open(*sound_, at::kBFloat16);
  EXPECT_TRUE(model->decoder.weights().files.empty());
  EXPECT_EQ(model->report.mapped_bytes, 0);
  const auto small = open(*sound_, at::kBFloat16, {.mapped_from = std::uint64_t{1} << 40});
  EXPECT_TRUE(small->decoder.weights().files.empty());
}

TEST_F(MappedWeights, AreViewsWhereTheyAreComputedWithAsTheyAre) {
  const auto model = open(*sound_, at::kBFloat16, {.mapped_from = 0});
  const auto copied = open(*sound_, at::kBFloat16);
  const Weights& weights = model->decoder.weights();
  ASSERT_EQ(weights.files.size(), 1u);
  for (const LayerWeights& layer : weights.layers) {
    for (const at::Tensor& tensor : {layer.wq, layer.wo, layer.gate, layer.up, layer.down}) {
      EXPECT_TRUE(is_view(*model, tensor));
    }
    EXPECT_FALSE(is_view(*model, layer.wk));  // half a megabyte
    EXPECT_FALSE(is_view(*model, layer.attention_norm));
    EXPECT_FALSE(layer.as_stored);
  }
  for (const auto& [name, tensor] :
       named_tensors(copied->config(), copied->encoding(), copied->decoder.weights())) {
    Weights view = weights;
    EXPECT_TRUE(tensor_at(view, name).equal(tensor)) << name;
  }
  EXPECT_EQ(model->report.sha256, copied->report.sha256);
  EXPECT_EQ(model->report.mapped_bytes, 2 * (2 + 3) * kWidth * kWidth * 2);
  EXPECT_TRUE(says_mapped(*model));
  // Copies of them are in no file.
  const auto wider = in_dtype(model, at::kFloat);
  EXPECT_FALSE(says_mapped(*wider));
  EXPECT_EQ(wider->report.mapped_bytes, 0);
  EXPECT_EQ(wider->report.quirks.size() + 1, model->report.quirks.size());
  // bfloat16 has 8 bits, and a sum may be taken in another order where the address is another.
  EXPECT_LT(relative_error(logits(*model), logits(*copied)), 1.0 / 64);
}

TEST_F(MappedWeights, AreFlaggedAsCopiesAre) {
  for (const WeightsMemory memory : {WeightsMemory{}, WeightsMemory{.mapped_from = 0}}) {
    const auto model = open(*folder_, at::kBFloat16, memory);
    ASSERT_EQ(model->report.flagged.size(), 1u);
    EXPECT_EQ(model->report.flagged[0].name, "model.layers.1.self_attn.o_proj.weight");
    EXPECT_EQ(model->report.flagged[0].flag, "inf");
  }
}

// The layers in float32 take 2 x 22 MB; the memory is short of that, but not of one of them.
TEST_F(MappedWeights, OfAShortMemoryAreConvertedAsTheirLayersRun) {
  const auto copied = open(*sound_, at::kFloat);
  const WeightsMemory memory{.mapped_from = 0, .free_bytes = std::int64_t{20} << 20};
  const auto model = open(*sound_, at::kFloat, memory);
  EXPECT_EQ(model->decoder.dtype(), at::kFloat);
  for (const LayerWeights& layer : model->decoder.weights().layers) {
    EXPECT_TRUE(layer.as_stored);
    EXPECT_EQ(layer.wq.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(is_view(*model, layer.wq));
    EXPECT_EQ(layer.attention_norm.scalar_type(), at::kFloat);
  }
  EXPECT_TRUE(logits(*model).equal(logits(*copied)));
  EXPECT_EQ(model->report.parameters, copied->report.parameters);
  // Where all of it fits, nothing is put off.
  const auto roomy = open(*sound_, at::kFloat, {.mapped_from = 0, .free_bytes = 1 << 30});
  EXPECT_FALSE(roomy->decoder.weights().layers[0].as_stored);
  // Other readings of the same weights are right too.
  const auto other = in_dtype(model, at::kDouble);
  EXPECT_FALSE(other->decoder.weights().layers[0].as_stored);
  EXPECT_TRUE(other->decoder.weights().layers[0].wq.equal(
      copied->decoder.weights().layers[0].wq.to(at::kDouble)));
}

// Where addresses are limited (`ulimit -v`), a mapping that nobody needs takes those of the copies.
TEST_F(MappedWeights, AFileThatIsCopiedIsNotMappedMeanwhile) {
  const std::string path = fs::canonical(sound_->path() / "model.safetensors").string();
  const auto looks = [&](std::int64_t free_bytes) {
    std::vector<bool> mapped;
    const auto look = [&](const LoadProgress&) { mapped.push_back(is_in_memory(path)); };
    open_model(sound_->path().string(),
               {.memory = {.mapped_from = 0, .free_bytes = free_bytes}, .progress = look});
    return mapped;
  };
  const std::vector<bool> roomy = looks(1 << 30), tight = looks(std::int64_t{20} << 20);
  ASSERT_FALSE(roomy.empty());
  EXPECT_EQ(std::ranges::count(roomy, true), 0);
  ASSERT_FALSE(tight.empty());
  EXPECT_EQ(std::ranges::count(tight, false), 0);
}

// Row 21.
TEST_F(MappedWeights, Row21_WhatCannotFitIsOneSentence) {
  try {
    open(*sound_, at::kFloat, {.free_bytes = 1 << 20});
    ADD_FAILURE() << "it was opened";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "out_of_memory");
    EXPECT_NE(error.full_text().find("the weights take 46.7 MB of memory in f32, and 1.0 MB are"),
              std::string::npos)
        << error.full_text();
    EXPECT_NE(error.hint().find("bf16"), std::string::npos);
  }
}

TEST_F(MappedWeights, Row8_AFileCutShortWhileInUseIsAnErrorAndNoSignal) {
  TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy(sound_->path() / name, folder.path() / name);
  }
  const auto model = open(folder, at::kBFloat16, {.mapped_from = 0});
  EXPECT_NO_THROW(check_unchanged(model->decoder.weights()));
  fs::resize_file(folder.path() / "model.safetensors", 4096);
  logits(*model);
  EXPECT_THROW(check_unchanged(model->decoder.weights()), formats::Error);
  const auto other = with_overrides(model, {{"encoding.base", "500"}});
  EXPECT_THROW(check_unchanged(other->decoder.weights()), formats::Error);
}

}  // namespace
}  // namespace phasescope::model
