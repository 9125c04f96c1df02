// Checkpoints of CAPE's GPT-NeoX copy: a small GPT-NeoX of random weights around the public
// modules' own tensors, under the names that the copy gives them.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>

#include "attention_keeper.h"
#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "golden.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/model/open_error.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDim = 8, kLayers = 3, kVocab = 29, kFfn = 20, kTokens = 19;

struct Case {
  const char* pos_emb;
  const char* module;
  const char* file;  // of papers/dape
  std::int64_t heads;
  const char* encoding;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.pos_emb; }

std::vector<Case> cases() {
  return {{"alibi", "alibi_embed", "alibi", 12, "alibi"},
          {"alibi_c", "alibi_c_embed", "alibi_dape", 12, "cape"},
          {"alibi_dapev2", "alibi_dapev2", "neox_alibi_dapev2", 8, "cape"},
          {"kerple", "kerple", "kerple_log", 8, "kerple_log"},
          {"kerple_c", "kerple_c", "kerple_log_dape_w16", 8, "cape"},
          {"kerple_dapev2", "kerple_dapev2", "neox_kerple_dapev2", 8, "cape"},
          {"fire", "fire", "neox_fire", 8, "fire"},
          {"fire_c", "fire_c", "neox_fire_c", 8, "cape"},
          {"fire_dapev2", "fire_dapev2", "neox_fire_dapev2", 8, "cape"},
          {"nope_c", "nope_c", "neox_nope_c", 8, "cape"},
          {"rope_dapev1", "dapev1", "neox_dapev1", 8, "cape"},
          {"cope", "cope", "neox_cope", 8, "cope"}};
}

std::string golden_file(const Case& c) {
  return std::string("papers/dape/") + c.file + ".safetensors";
}

class DapeCheckpoint : public testing::TestWithParam<Case> {
 protected:
  // Nothing is written where the module's file is not here.
  void SetUp() override {
    if (golden(golden_file(GetParam())).empty()) GTEST_SKIP() << "its module is not here";
  }

  Json config() const {
    const Case& c = GetParam();
    Json json = {{"model_type", "gpt_neox"},
                 {"vocab_size", kVocab},
                 {"hidden_size", c.heads * kDim},
                 {"num_hidden_layers", kLayers},
                 {"num_attention_heads", c.heads},
                 {"intermediate_size", kFfn},
                 {"max_position_embeddings", 32},
                 {"hidden_act", "gelu"},
                 {"pos_emb", c.pos_emb},
                 {"noise_seq_length", 128},
                 {"apply_query_key_layer_scaling", true}};
    if (std::string(c.file).ends_with("w16")) json["mlp_width"] = 16;
    return json;
  }

  void write(const Json& config) {
    const Case& c = GetParam();
    const std::int64_t width = c.heads * kDim;
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
    NamedTensors tensors;
    const auto add = [&](const std::string& name, at::IntArrayRef shape) {
      tensors.emplace_back("gpt_neox." + name, at::empty(shape).normal_(0, 0.3, generator));
    };
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      add(name + ".weight", {out, in});
      add(name + ".bias", {out});
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {width});
      add(name + ".bias", {width});
    };
    add("embed_in.weight", {kVocab, width});
    norm("final_layer_norm");
    tensors.emplace_back("embed_out.weight", at::empty({kVocab, width}).normal_(0, 0.3, generator));
    const auto module = formats::SafetensorsFile::open(golden(golden_file(c)));
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string at = "layers." + std::to_string(layer) + ".";
      norm(at + "input_layernorm");
      norm(at + "post_attention_layernorm");
      linear(at + "attention.query_key_value", 3 * width, width);
      linear(at + "attention.dense", width, width);
      linear(at + "mlp.dense_h_to_4h", kFfn, width);
      linear(at + "mlp.dense_4h_to_h", width, kFfn);
      for (const formats::TensorEntry& entry : module.tensors()) {
        if (!entry.name.starts_with("w.")) continue;
        tensors.emplace_back(
            "gpt_neox." + at + "attention." + c.module + "." + entry.name.substr(2),
            read_tensor(module, entry));
      }
    }
    write_tensors(formats::real_file_system(), folder_.path() / "model.safetensors", tensors);
    std::ofstream(folder_.path() / "config.json") << config;
  }

  std::shared_ptr<const Model> opened() {
    write(config());
    return open_model(folder_.path().string(), {.dtype = at::kDouble});
  }

  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Modules, DapeCheckpoint, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.pos_emb); });

// Scores of a module's own formula, written again: A (1, H, N, N), the content scores it is given.
at::Tensor module_scores(const Case& c, const at::Tensor& content) {
  const auto w = [&](const char* name) {
    return golden_tensor(golden_file(c), std::string("w.") + name).to(at::kDouble);
  };
  const std::string name = c.pos_emb;
  const at::Tensor i = at::arange(kTokens, at::kDouble).unsqueeze(1);
  const at::Tensor distance = (i - i.t()).clamp_min(0);
  at::Tensor bias;  // (H, N, N)
  if (name.starts_with("alibi")) bias = -w("slopes").view({-1, 1, 1}) * distance;
  if (name.starts_with("kerple")) {
    bias = -w("bias_p").clamp_min(0.01) * at::log1p(w("bias_a").clamp_min(0.01) * distance);
  }
  if (name.starts_with("fire")) {
    const at::Tensor past = at::maximum(i, (w("L_multiplier") * w("init_L")).abs());
    const at::Tensor u =
        at::log((w("c") * distance).abs() + 1) / (at::log((w("c") * past).abs() + 1) + 1e-6);
    const at::Tensor x = at::linear(u.unsqueeze(-1), w("mlp.0.weight"), w("mlp.0.bias"));
    const at::Tensor hidden = name == "fire" ? at::relu(x) : at::leaky_relu(x, 0.01);
    bias = at::linear(hidden, w("mlp.2.weight"), w("mlp.2.bias")).permute({2, 0, 1});
  }
  const at::Tensor with_bias = bias.defined() ? content + bias : content;
  if (c.encoding != std::string("cape")) return with_bias;
  if (name.ends_with("dapev2")) {
    const at::Tensor both = at::cat({content, bias.unsqueeze(0)}, 1).tril();
    const at::Tensor hidden = at::leaky_relu(
        at::conv2d(both, w("mlp2.0.weight"), w("mlp2.0.bias"), {1, 1}, at::IntArrayRef{0, 1}),
        0.01);
    return with_bias +
           at::conv2d(hidden, w("mlp2.2.weight"), w("mlp2.2.bias"), {1, 1}, at::IntArrayRef{0, 1});
  }
  const at::Tensor read = bias.defined() ? at::cat({content, bias.unsqueeze(0)}, 1) : content;
  const at::Tensor hidden =
      at::leaky_relu(at::linear(read.movedim(1, -1), w("mlp2.0.weight"), w("mlp2.0.bias")), 0.01);
  return with_bias + at::linear(hidden, w("mlp2.2.weight"), w("mlp2.2.bias")).movedim(-1, 1);
}

TEST_P(DapeCheckpoint, ScoresAreTheModulesUnderTheLayersGain) {
  const Case& c = GetParam();
  if (c.encoding == std::string("cope")) GTEST_SKIP() << "reads q too: held against its module";
  const auto model = opened();
  EXPECT_TRUE(model->config().attention.layer_gain);
  const at::NoGradGuard no_grad;
  AttentionKeeper keeper;
  model->decoder.hidden(random_ids(1, kTokens, kVocab), {}, &keeper);
  ASSERT_EQ(keeper.layers.size(), static_cast<std::size_t>(kLayers));
  for (std::size_t n = 0; n < keeper.layers.size(); ++n) {
    const LayerAttention& layer = *keeper.layers[n];
    const double gain = static_cast<double>(std::max<std::size_t>(1, n));
    const at::Tensor products =
        at::matmul(layer.q_rotated(), layer.k_rotated().transpose(-1, -2)) / std::sqrt(8.0);
    const at::Tensor expected = gain * module_scores(c, products / gain);
    const ScoreParts parts = layer.scores(layer.whole());
    EXPECT_LT(relative_error(parts.score.nan_to_num(0, 0, 0).tril(), expected.tril()), 1e-12) << n;
    // Content is q.k before any of it.
    const at::Tensor plain = at::matmul(layer.q(), layer.k().transpose(-1, -2)) / std::sqrt(8.0);
    EXPECT_LT(relative_error(parts.content, plain), 1e-12) << n;
    EXPECT_EQ(c.pos_emb == std::string("rope_dapev1"), !plain.equal(products));
  }
}

TEST_P(DapeCheckpoint, OpensWithNothingLeftOver) {
  const Case& c = GetParam();
  const auto model = opened();
  EXPECT_EQ(model->report.family, "gpt_neox");
  EXPECT_EQ(model->encoding().info().key, c.encoding);
  EXPECT_NE(model->report.encoding_why.find(c.pos_emb), std::string::npos);
  EXPECT_TRUE(model->report.missing.empty());
  EXPECT_TRUE(model->report.unexpected.empty());
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, kTokens, kVocab);
  const at::Tensor logits = model->decoder.forward(ids, {.backend = Backend::plain});
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  const auto single = in_dtype(model, at::kFloat);
  for (const Backend backend : {Backend::plain, Backend::fused}) {
    EXPECT_LT(relative_error(single->decoder.forward(ids, {.backend = backend}), logits), 1e-4);
  }
  // Without the layers' gain another model, but where the score is q.k and what is added to it.
  const auto without = with_overrides(model, {{"attention.layer_gain", "false"}});
  EXPECT_GT(relative_error(without->decoder.forward(ids), logits), 1e-6);
}

TEST(DapeCheckpoints, WhatIsNotReadIsNamedWithItsReason) {
  for (const auto& [name, why] : {std::pair{"xl_bias", ": there is no reference"},
                                  {"nope_c_ffn", ": there is no reference"},
                                  {"rotary_mlp", ": there is no reference"},
                                  {"rope_dapev2", ": the public code itself"},
                                  {"learned", ": its table stands outside"},
                                  {"sinusoidal", ": its sines and cosines"},
                                  {"something", "; known: rotary"}}) {
    TemporaryFolder folder;
    std::ofstream(folder.path() / "config.json")
        << R"({"model_type": "gpt_neox", "vocab_size": 29, "hidden_size": 64,
               "num_hidden_layers": 1, "num_attention_heads": 8, "intermediate_size": 20,
               "pos_emb": ")"
        << name << "\"}";
    write_tensors(formats::real_file_system(), folder.path() / "model.safetensors",
                  {{"gpt_neox.embed_in.weight", at::zeros({29, 64})}});
    const std::string text = error_of(folder.path().string());
    EXPECT_NE(text.find("\"" + std::string(name) + "\" cannot be read" + why), std::string::npos)
        << text;
    EXPECT_NE(text.find("kerple_c"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace phasescope::model
