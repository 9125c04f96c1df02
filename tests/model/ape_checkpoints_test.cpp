// Encoders of APE's public code: its attention module's own numbers inside a layer, under its
// names.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "ape_checkpoint.h"
#include "formats/error.h"
#include "golden.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kHeads = 3, kDim = 8, kWidth = 24;
constexpr const char* kFile = "papers/ape/self_attention.safetensors";

TEST(ApeCheckpoint, AnEncoderLayerIsThePublicModuleInItsLayer) {
  if (golden(kFile).empty()) GTEST_SKIP() << "the public module is not here";
  const at::Tensor x = golden_tensor(kFile, "x");  // (2, 21, C), what the module read
  const std::int64_t tokens = x.size(1), vocab = 2 * tokens;
  std::map<std::string, at::Tensor> tensors = ape_tensors(vocab, kWidth);
  const std::string at = "encoder.encoder_layers.0.";
  for (const char* part : {"linear.weight", "linear.bias", "out.weight", "out.bias"}) {
    tensors[at + "mha." + part] = golden_tensor(kFile, part);
  }
  tensors["positional_encoder._primitives"] = golden_tensor(kFile, "_primitives");
  // Every token is a word of its own, whose embedding times the root of the width is its row of x.
  tensors["embedding.weight"] =
      (x.to(at::kDouble).flatten(0, 1) / std::sqrt(static_cast<double>(kWidth)));
  TemporaryFolder folder;
  write_ape(folder.path(), ape_config({{"key", "ape_sequence"}}, vocab, kHeads, kWidth), tensors);
  const auto model = open_model(folder.path().string(), {.dtype = at::kDouble});
  EXPECT_EQ(model->report.family, "ape_public");
  EXPECT_TRUE(model->report.unexpected.empty());
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(vocab, at::kLong).view({2, tokens});
  const auto w = [&](const std::string& name) { return tensors.at(at + name).to(at::kDouble); };
  const auto norm = [&](const at::Tensor& sum, const std::string& name) {
    return at::layer_norm(sum, {kWidth}, w(name + ".weight"), w(name + ".bias"), 1e-5);
  };
  const at::Tensor y = golden_tensor(kFile, "y_f64");
  const at::Tensor m = norm(x.to(at::kDouble) + y, "mha_ln");
  const at::Tensor ffn = at::linear(at::relu(at::linear(m, w("ffn.0.weight"), w("ffn.0.bias"))),
                                    w("ffn.2.weight"), w("ffn.2.bias"));
  const at::Tensor expected = norm(m + ffn, "ffn_ln");
  // The module's float64 run has its powers of 0.98 in float32, which hold seven digits.
  EXPECT_LT(relative_error(model->decoder.hidden(ids), expected), 1e-7);
  EXPECT_LT(relative_error(model->decoder.forward(ids),
                           at::matmul(expected, tensors.at("embedding.weight").t())),
            1e-7);
}

TEST(ApeCheckpoint, GridsAndTreesHaveTheirGenerators) {
  for (const std::string name : {"grid", "tree_b2", "tree_b3"}) {
    const std::string file = "papers/ape/" + name + ".safetensors";
    const at::Tensor stored = golden_tensor(file, "_primitives");
    std::map<std::string, at::Tensor> tensors = ape_tensors(29, name == "grid" ? 32 : 16);
    tensors["positional_encoder._primitives"] = stored;
    tensors["positional_encoder.identity"] = at::eye(8).view({1, 1, 8, 8});
    const std::int64_t branches = name == "tree_b3" ? 3 : 2;
    Json encoding = {{"key", "ape_grid"}, {"columns", 4}};
    if (name != "grid") encoding = {{"key", "ape_tree"}, {"branches", branches}};
    TemporaryFolder folder;
    write_ape(folder.path(), ape_config(encoding, 29, 2, name == "grid" ? 32 : 16), tensors);
    const auto model = open_model(folder.path().string());
    EXPECT_TRUE(model->report.unexpected.empty()) << name;
    const at::Tensor& generator = model->decoder.weights().encoding.at("generator");
    if (name == "grid") {
      EXPECT_TRUE(generator.equal(stored.view({2, 2, 8, 8})));
    } else {
      EXPECT_TRUE(generator.equal(stored.narrow(0, 0, branches)));
      EXPECT_EQ(model->encoding().options().at("paths"), "public");
      EXPECT_EQ(model->encoding().options().at("steps"), "public");
    }
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(model->decoder.forward(random_ids(1, 9, 29)).isfinite().all().item<bool>());
  }
}

TEST(ApeCheckpoint, DecodersImagesAndOtherEncodingsAreRefused) {
  const auto error_of = [](const Json& encoding, const std::string& extra,
                           at::IntArrayRef shape = {1}) {
    std::map<std::string, at::Tensor> tensors = ape_tensors(29, kWidth);
    tensors["positional_encoder._primitives"] = at::zeros({kHeads, kDim, kDim});
    if (!extra.empty()) tensors[extra] = at::zeros(shape);
    TemporaryFolder folder;
    write_ape(folder.path(), ape_config(encoding, 29, kHeads, kWidth), tensors);
    try {
      open_model(folder.path().string());
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
      return error.full_text();
    }
    return std::string("no error");
  };
  EXPECT_NE(error_of({{"key", "rope"}}, "").find("encoding.key is rope"), std::string::npos);
  EXPECT_NE(error_of({{"key", "ape_sequence"}}, "decoder.decoder_layers.0.cross_ln.weight")
                .find("cross attention"),
            std::string::npos);
  EXPECT_NE(error_of({{"key", "ape_sequence"}}, "cnn.0.weight", {8, 3, 3, 3})
                .find("cnn.0.weight is a convolution"),
            std::string::npos);
}

}  // namespace
}  // namespace phasescope::model
