#include "model/checkpoints/convert.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numbers>

#include "formats/error.h"
#include "formats/json.h"
#include "golden.h"
#include "model/checkpoints/conversions/ape_to_rope.h"
#include "model/checkpoints/named_start.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/model/torch_state.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

std::string saved(const ModelConfig& config, const fs::path& folder, std::uint64_t seed,
                  double spread_of_generators = 0) {
  const auto model = random_model(config, seed);
  Weights weights = model->decoder.weights();
  if (spread_of_generators > 0) {
    at::Tensor& generator = weights.encoding.at("generator");
    generator = at::randn(generator.sizes()) * spread_of_generators;
  }
  fs::create_directories(folder);
  save_model(formats::real_file_system(), folder, config, model->encoding(), weights);
  return folder.string();
}

Converted convert(const std::string& from, const std::string& to, const fs::path& out,
                  const ConvertOptions& options = {}) {
  return convert_model(formats::real_file_system(), from, to, out, options);
}

// What the two models' logits differ by, in both dtypes. Texts longer than a power of two, whose
// exponents have many bits.
struct Difference {
  double f64 = 0, f32 = 0;
};
Difference difference_of(const std::string& a, const std::string& b) {
  const at::NoGradGuard no_grad;
  const auto model = open_model(a, {.dtype = at::kDouble});
  const at::Tensor ids = random_ids(2, 77, model->config().vocab_size);
  const auto logits = [&](const std::string& name, at::ScalarType dtype) {
    return open_model(name, {.dtype = dtype})->decoder.forward(ids);
  };
  return {relative_error(logits(b, at::kDouble), logits(a, at::kDouble)),
          relative_error(logits(b, at::kFloat), logits(a, at::kFloat))};
}

// float64: the bound. float32: angles of 77 positions are rounded to 77 x 6e-8 radians on
// both sides, in two layers.
void expect_same(const Difference& difference, const std::string& what) {
  EXPECT_LT(difference.f64, 1e-10) << what;
  EXPECT_LT(difference.f32, 1e-4) << what;
}

std::string refusal(const std::string& from, const std::string& to, const fs::path& out,
                    const ConvertOptions& options = {}) {
  try {
    convert(from, to, out, options);
  } catch (const formats::Error& error) {
    return error.full_text();
  }
  ADD_FAILURE() << from << " became " << to;
  return {};
}

struct RopeCase {
  std::string name;
  Json options;
  std::int64_t kv_heads = 3;
  bool biases = false;
  double interpolated = 1;  // factor of the position map
};

const std::vector<RopeCase>& rope_cases() {
  static const std::vector<RopeCase> cases = {
      {"half", {{"layout", "half"}}},
      {"interleaved", {{"layout", "interleaved"}, {"base", 500.0}}},
      {"shared_keys", {{"base", 100.0}}, 1, true},
      {"linear", {{"scaling", "linear"}, {"factor", 2.5}}},
      {"ntk", {{"scaling", "ntk"}, {"factor", 4.0}, {"shift", 5}}},
      {"yarn", {{"scaling", "yarn"}, {"factor", 2.0}, {"base", 50.0}}, 3, true},
      {"interpolated", {{"base", 50.0}}, 3, false, 2.5},
      {"yarn_interpolated", {{"scaling", "yarn"}, {"factor", 2.0}, {"base", 50.0}}, 3, false, 2.5},
  };
  return cases;
}

ModelConfig config_of(const RopeCase& test) {
  ModelConfig config = tiny_config("rope", test.options);
  config.kv_heads = test.kv_heads;
  if (test.interpolated != 1) config.positions.map = "interpolate";
  config.positions.factor = test.interpolated;
  config.attention.q_bias = config.attention.k_bias = config.attention.v_bias = test.biases;
  return config;
}

TEST(Convert, RopeBecomesTapeAtNoCost) {
  for (const RopeCase& test : rope_cases()) {
    TemporaryFolder folder;
    const std::string rope = saved(config_of(test), folder.path() / "rope", 5);
    const fs::path out = folder.path() / "tape";
    const Converted done = convert(rope, "tape", out);
    const auto tape = open_model(out.string());
    EXPECT_EQ(tape->config().encoding.key, "tape");
    EXPECT_TRUE(tape->report.unexpected.empty());
    EXPECT_GT(done.parameters, done.parameters_before);
    // W2 and W_x are drawn: with zeros a fine-tuning could not move W1 or the rest.
    EXPECT_GT(tape->decoder.weights().layers[0].encoding.at("down_proj").abs().max().item<double>(),
              0);
    EXPECT_EQ(tape->decoder.weights().layers[1].encoding.at("up_proj").abs().max().item<double>(),
              0);
    expect_same(difference_of(rope, out.string()), test.name);
  }
}

TEST(Convert, RopeBecomesApeAndBack) {
  for (const RopeCase& test : rope_cases()) {
    TemporaryFolder folder;
    const std::string rope = saved(config_of(test), folder.path() / "rope", 6);
    const std::string ape = (folder.path() / "ape").string();
    const std::string back = (folder.path() / "back").string();
    convert(rope, "ape", ape);
    EXPECT_EQ(open_model(ape)->config().encoding.key, "ape_sequence");
    expect_same(difference_of(rope, ape), test.name);
    convert(ape, "rope", back);
    EXPECT_EQ(open_model(back)->config().encoding.key, "rope");
    expect_same(difference_of(rope, back), test.name + " and back");
  }
}

TEST(Convert, ApeOfAnyGeneratorsBecomesRope) {
  for (const double spread : {1e-3, 0.3, 2.0}) {
    TemporaryFolder folder;
    ModelConfig config = tiny_config("ape_sequence", {{"decay", 1.0}, {"start", "identity"}});
    config.attention.q_bias = true;
    const std::string ape = saved(config, folder.path() / "ape", 7, spread);
    const fs::path out = folder.path() / "rope";
    convert(ape, "rope", out);
    const auto rope = open_model(out.string());
    EXPECT_TRUE(rope->encoding().options().at("stored_angles"));
    expect_same(difference_of(ape, out.string()), "spread " + std::to_string(spread));
    const at::Tensor angles = rope->decoder.weights().encoding.at("angles");
    EXPECT_FALSE(angles[0].equal(angles[1]));
  }
}

// Keys that heads share, normalised head by head: copies of a key head are normalised alike. The
// norms' weights are drawn here, being all ones in a new model.
TEST(Convert, NormalisedKeysAreCopiedAndTheFactorGoesIntoTheNorm) {
  for (const bool unit_offset : {false, true}) {
    for (const Json& options :
         {Json{{"base", 50.0}}, Json{{"scaling", "yarn"}, {"factor", 4.0}, {"base", 50.0}}}) {
      TemporaryFolder folder;
      ModelConfig config = tiny_config("rope", options);
      config.kv_heads = 1;
      config.attention.qk_norm = "head";
      config.norm.unit_offset = unit_offset;
      const auto model = random_model(config, 5);
      Weights weights = model->decoder.weights();
      for (LayerWeights& layer : weights.layers) {
        layer.q_norm = at::rand_like(layer.q_norm) + 0.5;
        layer.k_norm = at::rand_like(layer.k_norm) + 0.5;
      }
      const fs::path from = folder.path() / "rope";
      fs::create_directories(from);
      save_model(formats::real_file_system(), from, config, model->encoding(), weights);
      for (const char* form : {"tape", "ape"}) {
        const fs::path out = folder.path() / form;
        convert(from.string(), form, out);
        EXPECT_EQ(open_model(out.string())->config().kv_heads, config.heads);
        const Difference difference = difference_of(from.string(), out.string());
        EXPECT_LT(difference.f64, 1e-12) << form << options;  // sums of a few hundred terms
        EXPECT_LT(difference.f32, 1e-4) << form << options;
      }
    }
  }
}

// Hugging Face's weights with the same structure.
TEST(Convert, Qwen3BecomesTapeAndApe) {
  if (golden("hf/models/qwen3").empty()) GTEST_SKIP() << "its files are not here";
  const std::string qwen3 = golden("hf/models/qwen3").string();
  ASSERT_EQ(open_model(qwen3)->config().attention.qk_norm, "head");
  ASSERT_LT(open_model(qwen3)->config().kv_heads, open_model(qwen3)->config().heads);
  for (const char* form : {"tape", "ape"}) {
    TemporaryFolder folder;
    const std::string out = (folder.path() / form).string();
    convert(qwen3, form, out);
    EXPECT_LT(difference_of(qwen3, out).f64, 1e-12) << form;
  }
}

// A partial rotation has planes that do not turn.
TEST(Convert, APartialRotationIsPartOfApe) {
  TemporaryFolder folder;
  ModelConfig config = tiny_config("rope", {{"partial_rotary_factor", 0.5}});
  const std::string rope = saved(config, folder.path() / "rope", 8);
  const std::string ape = (folder.path() / "ape").string();
  convert(rope, "ape", ape);
  expect_same(difference_of(rope, ape), "partial");
  const std::string back = (folder.path() / "back").string();
  convert(ape, "rope", back);
  expect_same(difference_of(rope, back), "partial and back");
  EXPECT_NE(refusal(rope, "tape", folder.path() / "tape").find("part of each head"),
            std::string::npos);
}

void expect_normal(const at::Tensor& skew) {
  const NormalForm form = normal_form(skew);
  const std::int64_t dim = skew.size(0);
  const at::Tensor identity = at::eye(dim, skew.options());
  EXPECT_LT((at::matmul(form.basis.t(), form.basis) - identity).abs().max().item<double>(), 1e-13);
  at::Tensor turn = at::zeros_like(skew);
  for (std::int64_t m = 0; m < dim / 2; ++m) {
    const double angle = form.angles[m].item<double>();
    EXPECT_LE(std::abs(angle), std::numbers::pi + 1e-12);
    turn[2 * m][2 * m] = turn[2 * m + 1][2 * m + 1] = std::cos(angle);
    turn[2 * m][2 * m + 1] = -std::sin(angle);
    turn[2 * m + 1][2 * m] = std::sin(angle);
  }
  const at::Tensor again = at::matmul(form.basis, at::matmul(turn, form.basis.t()));
  // Against the matrix exponential, whose own error grows with the matrix's norm.
  EXPECT_LT((again - at::linalg_matrix_exp(skew)).abs().max().item<double>(), 1e-12);
}

TEST(NormalForm, OfRandomRepeatedSmallAndNoAngles) {
  const at::TensorOptions f64(at::kDouble);
  const auto skew = [](const at::Tensor& a) { return a - a.t(); };
  expect_normal(skew(at::randn({10, 10}, f64)));
  expect_normal(skew(4 * at::randn({6, 6}, f64)));
  expect_normal(at::zeros({8, 8}, f64));
  // The same angle in every plane of a random basis, and angles over twelve orders of magnitude.
  const at::Tensor basis = std::get<0>(at::linalg_qr(at::randn({8, 8}, f64)));
  for (const std::vector<double>& angles :
       {std::vector{0.7, 0.7, 0.7, 0.7}, std::vector{1.0, 1e-6, 1e-11, 0.0}}) {
    at::Tensor planes = at::zeros({8, 8}, f64);
    for (std::int64_t m = 0; m < 4; ++m) {
      planes[2 * m + 1][2 * m] = angles[static_cast<std::size_t>(m)];
      planes[2 * m][2 * m + 1] = -angles[static_cast<std::size_t>(m)];
    }
    expect_normal(at::matmul(basis, at::matmul(planes, basis.t())));
  }
}

TEST(Convert, StoredAnglesRefuseWhatWouldNotTouchThem) {
  for (const Json& options : {Json{{"stored_angles", true}, {"scaling", "yarn"}, {"factor", 2.0}},
                              Json{{"stored_angles", true}, {"partial_rotary_factor", 0.5}},
                              Json{{"table_rows", 32}, {"scaling", "linear"}, {"factor", 2.0}}}) {
    EXPECT_THROW(random_model(tiny_config("rope", options), 1), formats::Error) << options;
  }
}

// Shards of safetensors to one file, and files of torch.save.
TEST(Convert, AnythingBecomesSafetensorsByteForByte) {
  TemporaryFolder folder;
  const std::string sharded = golden("hf/models/llama_sharded").string();
  const fs::path one = folder.path() / "one";
  const Converted done = convert(sharded, "safetensors", one);
  EXPECT_EQ(done.parameters, done.parameters_before);
  EXPECT_TRUE(fs::exists(one / "config.json"));
  EXPECT_FALSE(fs::exists(one / "model.safetensors.index.json"));

  const fs::path bin = folder.path() / "bin";
  fs::create_directories(bin);
  fs::copy(golden("hf/models/llama_sharded/config.json"), bin / "config.json");
  const auto archive = formats::TensorArchive::open(sharded);
  NamedTensors tensors;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    tensors.emplace_back(entry.name, read_tensor(archive, entry));
  }
  write_torch_state(bin / "pytorch_model.bin", tensors);
  const fs::path of_bin = folder.path() / "of_bin";
  convert(bin.string(), "safetensors", of_bin);

  for (const fs::path& written : {one, of_bin}) {
    const auto file = formats::SafetensorsFile::open(written / "model.safetensors");
    EXPECT_EQ(file.metadata().at("format"), "pt");
    ASSERT_EQ(file.tensors().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      ASSERT_NE(file.find(name), nullptr) << name;
      EXPECT_TRUE(read_tensor(file, *file.find(name)).equal(tensor)) << name;
    }
  }
}

// Every structure: fused and transposed matrices, an encoder-decoder, local layers, half precision.
TEST(Convert, OurOwnFormGivesTheSameLogits) {
  for (const std::string name : {"llama_gqa_tied", "llama_bf16", "gpt2", "bert", "t5", "gemma3",
                                 "opt_350m_style", "mpt", "phi3_longrope"}) {
    TemporaryFolder folder;
    const std::string from = golden("hf/models/" + name).string();
    convert(from, "phasescope", folder.path() / "own");
    const auto before = open_model(from), after = open_model((folder.path() / "own").string());
    EXPECT_EQ(after->report.family, "phasescope");
    EXPECT_EQ(after->report.dtypes.contains("BF16"), before->report.dtypes.contains("BF16"));
    const at::NoGradGuard no_grad;
    const at::Tensor ids = random_ids(2, 20, before->config().vocab_size);
    EXPECT_TRUE(after->decoder.forward(ids).equal(before->decoder.forward(ids))) << name;
  }
}

TEST(Convert, SettingsAndDtypeAreTaken) {
  TemporaryFolder folder;
  const std::string rope = saved(tiny_config("rope"), folder.path() / "rope", 9);
  const fs::path out = folder.path() / "own";
  convert(rope, "phasescope", out,
          {.overrides = {{"encoding.scaling", "linear"}, {"encoding.factor", "2"}},
           .dtype = at::kBFloat16});
  const auto model = open_model(out.string());
  EXPECT_EQ(model->encoding().options().at("scaling"), "linear");
  EXPECT_EQ(model->report.dtypes.size(), 1u);
  EXPECT_TRUE(model->report.dtypes.contains("BF16"));
  EXPECT_NE(refusal(rope, "safetensors", folder.path() / "no", {.dtype = at::kBFloat16})
                .find("as they are"),
            std::string::npos);
}

// Of a configuration without weights, and of a model's whose own weights play no part.
TEST(Convert, RandomWeightsHaveTheSizesAndAreThoseOfTheirNames) {
  TemporaryFolder folder;
  const fs::path config = golden("hf/models/llama_gqa_tied/config.json");
  const std::string model = golden("hf/models/llama_gqa_tied").string();
  convert(config.string(), "random", folder.path() / "a", {.dtype = at::kBFloat16, .seed = 7});
  convert(model, "random", folder.path() / "b", {.seed = 7});
  const auto a = open_model((folder.path() / "a").string());
  const auto b = open_model((folder.path() / "b").string());
  const auto trained = open_model(model);
  EXPECT_EQ(a->report.parameters, trained->report.parameters);
  EXPECT_EQ(a->report.dtypes.size(), 1u);
  EXPECT_TRUE(a->report.dtypes.contains("BF16"));
  const Weights drawn = weights_by_name(trained->config(), trained->encoding(), 7);
  Weights of_a = a->decoder.weights(), of_b = b->decoder.weights();
  for (const auto& [name, tensor] : named_tensors(trained->config(), trained->encoding(), drawn)) {
    EXPECT_TRUE(tensor_at(of_b, name).equal(tensor)) << name;
    EXPECT_TRUE(tensor_at(of_a, name).equal(tensor.to(at::kBFloat16).to(at::kFloat))) << name;
  }
  EXPECT_NE(
      refusal(model, "phasescope", folder.path() / "no", {.seed = 1}).find("nothing is drawn"),
      std::string::npos);
}

TEST(Convert, WhatCannotBeDoneIsOneSentenceAndLeavesNothing) {
  TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::string rope = saved(tiny_config("rope"), folder.path() / "rope", 9);
  const std::string alibi = saved(tiny_config("alibi"), folder.path() / "alibi", 9);
  const std::string decaying = saved(tiny_config("ape_sequence"), folder.path() / "ape", 9);
  EXPECT_NE(refusal(alibi, "tape", out).find("this one has alibi"), std::string::npos);
  EXPECT_NE(refusal(rope, "rope", out).find("this one has rope"), std::string::npos);
  EXPECT_NE(refusal(decaying, "rope", out).find("decay"), std::string::npos);
  EXPECT_NE(refusal(rope, "alibi", out).find("known: safetensors"), std::string::npos);
  EXPECT_NE(refusal(rope, "ape", out,
                    {.overrides = {{"encoding.scaling", "dynamic"}, {"encoding.factor", "2"}}})
                .find("text's length"),
            std::string::npos);
  EXPECT_NE(refusal(rope, "ape", out,
                    {.overrides = {{"encoding.scaling", "yarn"},
                                   {"encoding.factor", "2"},
                                   {"attention.clip", "1"}}})
                .find("clipped"),
            std::string::npos);
  ModelConfig all_keys = tiny_config("rope");
  all_keys.kv_heads = 1;
  all_keys.attention.qk_norm = "full";
  EXPECT_NE(refusal(saved(all_keys, folder.path() / "full", 9), "ape", out)
                .find("all key heads are normalised together"),
            std::string::npos);
  EXPECT_NE(refusal(rope, "tape", rope).find("not written over"), std::string::npos);
  EXPECT_NE(refusal(rope, "tape", rope + "/config.json").find("not written over"),
            std::string::npos);
  EXPECT_NE(refusal(rope, "tape", "").find("needs a folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(out));
}

// While it writes, with progress on the way there.
TEST(Convert, CancelledItLeavesNothing) {
  TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::string rope = saved(tiny_config("rope"), folder.path() / "rope", 9);
  std::vector<double> told;
  ConvertOptions options;
  options.progress = [&told](double done) { told.push_back(done); };
  options.cancelled = [&told] { return told.size() == 3; };
  EXPECT_NE(refusal(rope, "tape", out, options).find("cancelled"), std::string::npos);
  EXPECT_EQ(told.size(), 3u);
  EXPECT_FALSE(fs::exists(out));
  options.cancelled = nullptr;
  convert(rope, "tape", out, options);
  EXPECT_TRUE(std::is_sorted(told.begin() + 3, told.end()));
  EXPECT_NEAR(told.back(), 1, 1e-12);
}

}  // namespace
}  // namespace phasescope::model
