// Models on a second device over the host's memory (phantom_device.h): every number equals the
// CPU's, and nothing crosses between the two sides within a layer.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "analysis/ablate.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/xray.h"
#include "analysis/shift.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "encoding_variants.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "golden.h"
#include "model/capture.h"
#include "model/checkpoints/open_model.h"
#include "model/feed_forward.h"
#include "model/loss.h"
#include "next_token_loss.h"
#include "phantom_device.h"
#include "protocol/json_form.h"
#include "protocol/progress.h"
#include "tests/golden_folder.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/adamw.h"
#include "training/evals/eval_task.h"

namespace phasescope::model {
namespace {

// A text's ids go to the device, and nothing else of a pass; a loss of N ids takes them once more.
constexpr std::int64_t kInputs = 1;

std::shared_ptr<const Model> there(const std::shared_ptr<const Model>& model) {
  return on_device(model, phantom_device());
}

// Copies to the device that an encoding makes before the first layer: positions that are drawn are
// drawn on the host, once or for each layer.
std::int64_t most_at_start(const Variant& v, const ModelConfig& config) {
  return v.encoding == "randomized_rope" ? 1 + config.layers : 0;
}

// FIRE's pieces are as many on a device as the network has units, and on the host as some pair can
// reach: products of other sizes, whose sums run in another order on some processors.
bool rounds_otherwise(const Variant& v) { return v.encoding == "fire"; }

// Two answers in numbers that differ by what layers make of a few roundings of float32.
void expect_near(const Json& found, const Json& expected, const std::string& where) {
  if (expected.is_number_float() && found.is_number_float()) {
    const double wanted = expected;
    EXPECT_NEAR(found.get<double>(), wanted, 1e-5 + 1e-4 * std::abs(wanted)) << where;
  } else if (expected.is_structured() && found.type() == expected.type()) {
    ASSERT_EQ(found.size(), expected.size()) << where;
    for (auto [a, b] = std::pair{found.begin(), expected.begin()}; b != expected.end(); ++a, ++b) {
      expect_near(*a, *b, expected.is_object() ? where + "." + b.key() : where);
    }
  } else {
    EXPECT_EQ(found, expected) << where;
  }
}

// The same bits, or of those that round otherwise a few roundings of float32.
void expect_equal(const at::Tensor& found, const at::Tensor& expected, const Variant& v) {
  if (rounds_otherwise(v)) {
    EXPECT_LT(relative_error(found.cpu(), expected), 1e-5);
  } else {
    EXPECT_TRUE(found.cpu().equal(expected));
  }
}

class EncodingsThere : public testing::TestWithParam<Variant> {
 protected:
  EncodingsThere() { at::set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(Registry, EncodingsThere, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EncodingsThere, ForwardIsTheSameAndNothingCrosses) {
  const at::NoGradGuard no_grad;
  const auto model = tiny_model(GetParam(), at::kFloat);
  const auto device = there(model);
  const at::Tensor ids = random_ids(2, 33, model->config().vocab_size);
  for (const Backend backend : {Backend::fused, Backend::plain}) {
    AllRan ours, real;
    const at::Tensor expected = model->decoder.forward(ids, {.backend = backend, .kernels = &real});
    reset_phantom_counts();
    const at::Tensor found = device->decoder.forward(ids, {.backend = backend, .kernels = &ours});
    const PhantomCounts counts = phantom_counts();
    EXPECT_GE(counts.to_device, kInputs);
    EXPECT_LE(counts.to_device, kInputs + most_at_start(GetParam(), model->config()));
    EXPECT_EQ(counts.to_host, 0);
    EXPECT_EQ(counts.reads, 0);
    EXPECT_TRUE(found.device() == phantom_device());
    expect_equal(found, expected, GetParam());
    ASSERT_EQ(ours.size(), real.size());
    EXPECT_EQ(ours.begin()->implementation, real.begin()->implementation);
  }
}

TEST_P(EncodingsThere, LossesAreTheSame) {
  const at::NoGradGuard no_grad;
  const auto model = tiny_model(GetParam(), at::kFloat);
  const auto device = there(model);
  const at::Tensor ids = random_ids(2, 33, model->config().vocab_size);
  const at::Tensor expected = token_losses(model->decoder, ids);
  reset_phantom_counts();
  const at::Tensor found = token_losses(device->decoder, ids);
  const PhantomCounts counts = phantom_counts();
  EXPECT_LE(counts.to_device, 2 * kInputs + most_at_start(GetParam(), model->config()));
  EXPECT_EQ(counts.to_host + counts.reads, 0);
  expect_equal(found, expected, GetParam());
}

// All weights after steps of AdamW, by name.
NamedTensors trained(const std::shared_ptr<const Model>& start, const at::Device& device,
                     const at::Tensor& ids) {
  Weights weights = start->decoder.weights();
  for (const auto& [name, tensor] :
       named_tensors(start->config(), start->encoding(), start->decoder.weights())) {
    tensor_at(weights, name) = tensor.detach().clone();
  }
  weights = on_device(start->config(), start->encoding(), weights, device);
  const Decoder decoder(start->config(), start->decoder.shared_encoding(), std::move(weights));
  std::vector<training::AdamW::Parameter> parameters;
  for (const auto& [name, tensor] :
       named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    parameters.push_back({name, tensor.set_requires_grad(true), true});
  }
  training::AdamW optimiser(parameters, {});
  for (int step = 0; step < 2; ++step) {
    optimiser.clear_gradients();
    next_token_loss(decoder.forward(ids), ids).backward();
    optimiser.clip_gradients(1.0);
    optimiser.step(1e-3);
  }
  NamedTensors list;
  for (const auto& one : parameters) list.emplace_back(one.name, one.value.detach().cpu());
  return list;
}

TEST_P(EncodingsThere, TrainingIsTheSame) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  const at::Tensor ids = random_ids(2, 17, model->config().vocab_size);
  const NamedTensors expected = trained(model, at::kCPU, ids);
  const NamedTensors found = trained(model, phantom_device(), ids);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    EXPECT_TRUE(found[n].second.equal(expected[n].second)) << found[n].first;
  }
}

TEST(OnADevice, AStepOfTrainingCopiesItsTextAndItsLossAlone) {
  at::set_num_threads(1);
  const auto model = there(tiny_model({"rope", "rope", Json::object()}, at::kFloat));
  for (const auto& [name, tensor] :
       named_tensors(model->config(), model->encoding(), model->decoder.weights())) {
    tensor.set_requires_grad(true);
  }
  const at::Tensor ids = random_ids(2, 17, model->config().vocab_size);
  reset_phantom_counts();
  next_token_loss(model->decoder.forward(ids), ids).backward();
  const PhantomCounts counts = phantom_counts();
  EXPECT_EQ(counts.to_device, 2 * kInputs);
  EXPECT_EQ(counts.to_host + counts.reads, 0);
}

// What the device refuses would be an error of a GPU too.
TEST(OnADevice, TensorsOfBothSidesAreRefused) {
  const at::Tensor ours = at::ones({3}, at::TensorOptions().device(phantom_device()));
  EXPECT_THROW((void)(ours + at::ones({3})), c10::Error);
  reset_phantom_counts();
  EXPECT_EQ((ours + at::scalar_tensor(2.0)).sum().item<double>(), 9);
  EXPECT_EQ(phantom_counts().reads, 1);
  EXPECT_EQ(phantom_counts().to_host, 0);
  (void)ours.cpu();
  EXPECT_EQ(phantom_counts().to_host, 1);
}

// ---- analyses -----------------------------------------------------------------------------------

// The same words for both, but for the device's name. An analysis takes the models for ones on the
// CPU and adds what else ran attention; which device they are on is said by who asks it.
template <class Result>
std::string words(const Result& result) {
  static const std::regex beside(", attention on phantom"), device("phantom(:0)?");
  const std::string text = std::regex_replace(protocol::to_json_form(result).dump(), beside, "");
  return std::regex_replace(text, device, "cpu");
}

std::vector<std::shared_ptr<analysis::TextPass>> passes_of(
    const std::shared_ptr<const Model>& model) {
  std::vector<std::shared_ptr<analysis::TextPass>> passes;
  for (const analysis::Text& text :
       analysis::random_texts(2, 24, model->config().vocab_size, 5).items) {
    passes.push_back(std::make_shared<analysis::TextPass>(model, analysis::ids_tensor(text.ids)));
  }
  return passes;
}

// What an analysis gives of a model, or why it has no answer for it.
template <class Call>
std::string said(const Call& call, const std::shared_ptr<const Model>& model) {
  try {
    return words(call(model));
  } catch (const formats::Error& error) {
    return error.full_text();
  }
}

class AnalysesThere : public testing::TestWithParam<Variant> {
 protected:
  AnalysesThere() { at::set_num_threads(1); }

  // The same answer of both; one that there is at all, of encodings that `call` takes for sure.
  template <class Call>
  void expect_same(const Call& call,
                   const std::set<std::string>& answered = {"rope", "alibi"}) const {
    const std::string real = said(call, model_);
    const std::string found = said(call, device_);
    if (rounds_otherwise(GetParam()) && real.starts_with('{') && found.starts_with('{')) {
      expect_near(Json::parse(found), Json::parse(real), GetParam().name);
    } else {
      EXPECT_EQ(found, real);
    }
    if (answered.contains(GetParam().name)) {
      EXPECT_EQ(real.front(), '{') << real;
    }
  }

  const std::shared_ptr<const Model> model_ = tiny_model(GetParam(), at::kFloat);
  const std::shared_ptr<const Model> device_ = there(model_);
  protocol::NoProgress progress_;
};
INSTANTIATE_TEST_SUITE_P(Registry, AnalysesThere, testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(AnalysesThere, HeadsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_heads(passes_of(model), {}, progress_).result;
  });
}

TEST_P(AnalysesThere, MapsAreTheSame) {
  for (const char* of : {"weight", "score", "content", "positional"}) {
    SCOPED_TRACE(of);
    protocol::MapRequest options;
    options.head = {"L1H1"};
    options.of = of;
    expect_same([&](const auto& model) {
      return analysis::analyse_map(*passes_of(model)[0], options).result;
    });
  }
}

TEST_P(AnalysesThere, DistancesAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_distance(passes_of(model), {}, progress_);
  });
}

// The rows of a shift, in a struct that has a JSON form.
struct ShiftRows {
  std::vector<protocol::ShiftRow> rows;
  template <class V>
  void fields(V& v) {
    v("rows", rows);
  }
};

TEST_P(AnalysesThere, ShiftsAreTheSame) {
  const std::vector<std::int64_t> ids =
      analysis::random_texts(1, 24, model_->config().vocab_size, 5).items[0].ids;
  expect_same([&](const auto& model) {
    return ShiftRows{analysis::analyse_shift(model, ids, {}, progress_).rows};
  });
}

// ---- questions, which change layers by hooks ----------------------------------------------------

// Each encoding once, as it comes.
std::vector<Variant> encodings() {
  std::vector<Variant> list;
  std::set<std::string> seen;
  for (const Variant& variant : variants()) {
    if (seen.insert(variant.encoding).second) list.push_back(variant);
  }
  return list;
}

class QuestionsThere : public AnalysesThere {
 protected:
  // Longer than the tiny configuration's context, which is what X-ray looks at.
  const analysis::Texts texts_ = analysis::random_texts(2, 40, model_->config().vocab_size, 7);
};
INSTANTIATE_TEST_SUITE_P(Registry, QuestionsThere, testing::ValuesIn(encodings()),
                         [](const auto& info) { return info.param.name; });

TEST_P(QuestionsThere, DemandsAreTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_demand(model, texts_, {}, progress_).result;
  });
}

TEST_P(QuestionsThere, ABiasIsFittedTheSame) {
  analysis::DemandOptions options;
  options.fit = true;
  options.steps = 1;
  const analysis::Texts texts = analysis::random_texts(12, 20, model_->config().vocab_size, 7);
  expect_same([&](const auto& model) {
    return analysis::analyse_demand(model, texts, options, progress_).result;
  });
}

TEST_P(QuestionsThere, AddressingIsTheSame) {
  expect_same([&](const auto& model) {
    return analysis::analyse_addressing(passes_of(model), {}, progress_);
  });
}

TEST_P(QuestionsThere, AcuityIsTheSame) {
  analysis::AcuityOptions options;
  options.seeds = {1};
  options.by = "head";
  expect_same([&](const auto& model) {
    return analysis::analyse_acuity(model, texts_, options, progress_);
  });
}

TEST_P(QuestionsThere, XraysAreTheSame) {
  for (const bool clamp : {false, true}) {
    SCOPED_TRACE(clamp);
    analysis::XrayOptions options;
    options.clamp = clamp;
    expect_same([&](const auto& model) {
      return analysis::analyse_xray(model, texts_, options, progress_);
    });
  }
}

TEST_P(QuestionsThere, AblationsAreTheSame) {
  for (const char* how : {"zero", "mean", "resample", "window", "clamp", "sink", "bias"}) {
    SCOPED_TRACE(how);
    analysis::AblateOptions options;
    options.heads = {"L1H1"};
    options.how = how;
    const std::string name = how;
    if (name == "window" || name == "clamp") options.limit = 5;
    if (name == "sink" || name == "bias") options.limit = 0.5;
    const auto ablated = [&](const auto& model) {
      return analysis::analyse_ablate(model, texts_, options, progress_).result;
    };
    // Of the two, ALiBi alone has a bias.
    expect_same(ablated, name == "bias" ? std::set<std::string>{"alibi"}
                                        : std::set<std::string>{"rope", "alibi"});
  }
}

// ---- families, captures -------------------------------------------------------------------------

// The tests' models of every family. An expert reads all tokens on a device, where which are its
// own is not asked, and its products are summed in blocks of other sizes.
TEST(FamiliesThere, RunTheSameAndNothingCrosses) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  for_each_family_model([](const std::shared_ptr<const Model>& model, std::int64_t length) {
    const ModelConfig& config = model->config();
    const auto device = there(model);
    const at::Tensor ids = random_ids(2, length, config.vocab_size);
    const at::Tensor expected = model->decoder.hidden(ids, {});
    reset_phantom_counts();
    const at::Tensor found = device->decoder.hidden(ids, {});
    const PhantomCounts counts = phantom_counts();
    EXPECT_EQ(counts.to_host, 0);
    EXPECT_EQ(counts.reads, 0);
    EXPECT_LT(counts.to_device, kInputs + config.layers);  // none that comes with each layer
    if (config.experts.count > 0) {
      EXPECT_TRUE(found.cpu().allclose(expected, 1e-4, 1e-5));
    } else {
      EXPECT_TRUE(found.cpu().equal(expected));
    }
  });
}

TEST(FamiliesThere, ExpertsAskForNoNumbers) {
  at::set_num_threads(1);
  ModelConfig config = tiny_config("rope");
  config.experts.count = 6, config.experts.per_token = 2, config.experts.width = 5;
  config.experts.layers = {0, 1};
  const auto model = random_model(config, 1), device = there(model);
  const at::Tensor ids = random_ids(2, 17, config.vocab_size);
  const auto gradient = [&](const Model& of) {
    const at::Tensor& leaf = of.decoder.weights().embedding;
    leaf.mutable_grad() = at::Tensor();
    leaf.set_requires_grad(true);
    next_token_loss(of.decoder.forward(ids), ids).backward();
    return leaf.grad();
  };
  const at::Tensor expected = gradient(*model);
  reset_phantom_counts();
  const at::Tensor found = gradient(*device);
  EXPECT_EQ(phantom_counts().reads + phantom_counts().to_host, 0);
  EXPECT_TRUE(found.cpu().allclose(expected, 1e-4, 1e-6));
}

// A token that an expert overflows on, and that is not its own, takes nothing from it.
TEST(OnADevice, AnExpertThatOverflowsSpoilsItsOwnTokensAlone) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  ModelConfig config = tiny_config("rope");
  config.experts.count = 3, config.experts.per_token = 1, config.experts.width = 4;
  LayerWeights weights;
  weights.router = at::eye(3, config.width) * 8;
  for (int n = 0; n < 3; ++n) {
    const float size = n == 2 ? 1e30f : 1.0f;
    weights.experts.push_back({.gate = at::full({4, config.width}, size),
                               .up = at::full({4, config.width}, size),
                               .down = at::full({config.width, 4}, size)});
  }
  at::Tensor x = at::zeros({1, 3, config.width});
  for (int n = 0; n < 3; ++n) x[0][n][n] = 1;  // token n is expert n's
  const at::Tensor expected = feed_forward(config, weights, x, {}, at::kFloat);
  LayerWeights moved = weights;
  moved.router = moved.router.to(phantom_device());
  for (ExpertWeights& one : moved.experts) {
    for (at::Tensor* tensor : {&one.gate, &one.up, &one.down}) {
      *tensor = tensor->to(phantom_device());
    }
  }
  const at::Tensor found =
      feed_forward(config, moved, x.to(phantom_device()), {}, at::kFloat).cpu();
  EXPECT_TRUE(found.slice(1, 0, 2).isfinite().all().item<bool>());
  EXPECT_TRUE(found.slice(1, 0, 2).allclose(expected.slice(1, 0, 2)));
  EXPECT_FALSE(found[0][2].isfinite().all().item<bool>());
}

// A model that stays in its file here does not there, and its report says neither.
TEST(OnADevice, WeightsAreInNoMappedFile) {
  const TemporaryFolder folder;
  ModelConfig config = tiny_config("rope");
  config.ffn_width = (1 << 20) / config.width;  // two megabytes in 16 bits, which are mapped
  const auto start = random_model(config, 3);
  save_model(formats::real_file_system(), folder.path(), start->config(), start->encoding(),
             start->decoder.weights(), at::kBFloat16);
  OpenModelOptions options{.dtype = at::kBFloat16};
  options.memory.mapped_from = 0;
  const auto model = open_model(folder.path().string(), options);
  const auto says_mapped = [](const Model& of) {
    return std::ranges::any_of(of.report.quirks, [](const std::string& quirk) {
      return quirk.find("mapped file") != std::string::npos;
    });
  };
  ASSERT_GT(model->report.mapped_bytes, 0);
  ASSERT_TRUE(says_mapped(*model));
  const auto moved = there(model);
  EXPECT_EQ(moved->report.mapped_bytes, 0);
  EXPECT_FALSE(says_mapped(*moved));
  EXPECT_TRUE(says_mapped(*model));
}

TEST(OnADevice, CapturesComeAsTheyAre) {
  at::set_num_threads(1);
  const auto model = tiny_model({"tape", "tape", Json::object()}, at::kFloat);
  CaptureSpec spec;
  spec.what = {"hidden", "scores", "attn", "logits", "position"};
  const at::Tensor ids = random_ids(1, 9, model->config().vocab_size);
  const Captured expected = capture(model->decoder, ids, spec, {});
  const Captured found = capture(there(model)->decoder, ids, spec, {});
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(found.tensors.contains(name)) << name;
    EXPECT_TRUE(found.tensors.at(name).is_cpu()) << name;
    EXPECT_TRUE(found.tensors.at(name).equal(tensor)) << name;
  }
}

// ---- evals --------------------------------------------------------------------------------------

TEST(EvalsThere, PerplexitiesAreTheSame) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const std::string corpus = training::small_run(folder.path(), 1).data.corpus;
  for (const char* encoding : {"rope", "alibi", "fire", "cape", "tapa", "tape"}) {
    SCOPED_TRACE(encoding);
    ModelConfig config = tiny_config(encoding);
    config.vocab_size = 256;
    config.tokenizer = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
    const auto model = random_model(config, 1);
    const auto eval = [&](const std::shared_ptr<const Model>& of) {
      const auto request = protocol::request_of<protocol::EvalRequest>(
          {{"task", "perplexity"}, {"corpus", corpus}, {"lengths", {16, 32}}, {"trials", 2}});
      protocol::NoProgress progress;
      training::NoEvalLog log;
      return words(training::eval_task("perplexity").run({{"one", of}}, request, progress, log));
    };
    EXPECT_EQ(eval(there(model)), eval(model));
  }
}

}  // namespace
}  // namespace phasescope::model
