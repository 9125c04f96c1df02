// Models on a second device over the host's memory (phantom_device.h): every number equals the
// CPU's, and nothing crosses between the two sides within a layer.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "analyses_there.h"
#include "analysis/reading.h"
#include "analysis/texts.h"
#include "encoding_variants.h"
#include "formats/file_system.h"
#include "golden.h"
#include "model/capture.h"
#include "model/checkpoints/open_model.h"
#include "model/feed_forward.h"
#include "model/key_value_cache.h"
#include "model/loss.h"
#include "model/transfers.h"
#include "next_token_loss.h"
#include "other_device.h"
#include "phantom_device.h"
#include "protocol/progress.h"
#include "tests/golden_folder.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/adamw.h"
#include "training/corpus.h"
#include "training/evals/eval_task.h"
#include "training/trainer.h"

namespace phasescope::model {
namespace {

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

// What bench step says of a device that counts nothing itself.
TEST_P(EncodingsThere, TransfersAreThoseThatTheDeviceCounts) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  const auto device = there(model);
  const at::Tensor ids = random_ids(2, 17, model->config().vocab_size);
  const auto step = [&ids](const Model& of) {
    const at::Tensor loss = next_token_loss(of.decoder.forward(ids), ids.to(of.decoder.device()));
    return loss.item<double>();
  };
  {
    const Transfers transfers;
    step(*model);
    EXPECT_EQ(transfers.to_device() + transfers.to_host(), 0);
  }
  reset_phantom_counts();
  const Transfers transfers;
  step(*device);
  const PhantomCounts counts = phantom_counts();
  EXPECT_EQ(transfers.to_device(), counts.to_device);
  EXPECT_EQ(transfers.to_host(), counts.to_host + counts.reads);
  EXPECT_GE(transfers.to_host(), 1);
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

// Why a text of `length` tokens is not read in pieces; of which encodings that is true is
// key_value_cache_test's.
std::string not_in_pieces(const Variant& v, std::int64_t length) {
  return cache_obstacle(tiny_model(v, at::kFloat)->decoder, length);
}

// Of single tokens too, which is what generation reads, in what a device computes in as well.
TEST_P(EncodingsThere, TextsInPiecesAreTheSameAndNothingCrosses) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> pieces = {20, 1, 1, 7, 1, 3};
  constexpr std::int64_t kLength = 33;
  if (const std::string why = not_in_pieces(GetParam(), kLength); !why.empty()) {
    GTEST_SKIP() << why;
  }
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(at::toString(dtype));
    const auto model = tiny_model(GetParam(), dtype);
    const auto device = there(model);
    const at::Tensor ids = random_ids(2, kLength, model->config().vocab_size);
    KeyValueCache ours(device->decoder, kLength), real(model->decoder, kLength);
    for (const std::int64_t size : pieces) {
      SCOPED_TRACE(std::to_string(size) + " tokens behind " + std::to_string(real.length()));
      const at::Tensor piece = ids.narrow(1, real.length(), size);
      AllRan on_device, on_cpu;
      const at::Tensor expected =
          model->decoder.forward(piece, {.cache = &real, .kernels = &on_cpu});
      reset_phantom_counts();
      const at::Tensor found =
          device->decoder.forward(piece, {.cache = &ours, .kernels = &on_device});
      const PhantomCounts counts = phantom_counts();
      EXPECT_LE(counts.to_device, kInputs + most_at_start(GetParam(), model->config()));
      EXPECT_EQ(counts.to_host, 0);
      EXPECT_EQ(counts.reads, 0);
      if (dtype == at::kFloat) {
        expect_equal(found, expected, GetParam());
      } else if (!rounds_otherwise(GetParam())) {
        EXPECT_TRUE(found.cpu().equal(expected));
      }
      EXPECT_EQ(on_device.begin()->implementation, on_cpu.begin()->implementation);
    }
  }
}

// What is written, and where a head looks from the one query that reads what was kept.
TEST_P(EncodingsThere, GenerateWritesTheSame) {
  const auto model = tiny_model(GetParam(), at::kFloat);
  const auto device = there(model);
  const analysis::Text prompt =
      analysis::random_texts(1, 9, model->config().vocab_size, 5).items[0];
  analysis::GenerateOptions options{.tokens = 6, .top = 64};
  options.head = analysis::HeadName{.layer = 0, .head = 1};
  protocol::NoProgress progress;
  const auto answer = [&](const Model& of) {
    protocol::GenerateResult written;
    try {
      written = analysis::generate(of, prompt, options, progress);
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    written.seconds.clear();
    return words(written);
  };
  const std::string expected = answer(*model);
  LayerWatch watch(*device);
  const std::string found = answer(*device);
  EXPECT_EQ(watch.to_device(), 0) << "copies to the device within layers";
  EXPECT_EQ(watch.reads(), 0) << "values asked for within layers";
  if (rounds_otherwise(GetParam())) {
    expect_near(Json::parse(found), Json::parse(expected), GetParam().name);
  } else {
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(expected.front(), '{') << expected;
  EXPECT_GE(watch.layers(), options.tokens * model->config().layers);
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

// ---- training, evals ----------------------------------------------------------------------------

// What crosses while `call` runs on models of two and of four layers: the same where no layer has a
// part in it.
template <class Call>
void expect_no_layer_crosses(const Call& call) {
  std::vector<PhantomCounts> counts;
  for (const std::int64_t layers : {2, 4}) {
    SCOPED_TRACE(std::to_string(layers) + " layers");
    counts.push_back(call(layers));
  }
  EXPECT_EQ(counts[0].to_device, counts[1].to_device) << "copies to the device, of 2 and 4 layers";
  EXPECT_EQ(counts[0].to_host, counts[1].to_host) << "copies to the host, of 2 and 4 layers";
  EXPECT_EQ(counts[0].reads, counts[1].reads) << "values asked for, of 2 and 4 layers";
}

TEST(TrainerThere, StepsAndValidationsAreTheSame) {
  for (const char* encoding : {"rope", "alibi", "cape", "tapa", "tape"}) {
    SCOPED_TRACE(encoding);
    expect_no_layer_crosses([&](std::int64_t layers) {
      const TemporaryFolder folder;
      training::RunConfig config = training::small_run(folder.path(), 3, {{"key", encoding}});
      config.model.layers = layers;
      config.train.dtype = "f32", config.train.threads = 1;
      const auto corpus = std::make_shared<const training::Corpus>(
          training::Corpus::open(config.data.corpus, config.data, config.model.context));
      const auto texts =
          training::read_validation_texts(config.data.validation, config.model.context);
      const auto begun = [&](const std::shared_ptr<const Model>& from) {
        return training::Trainer(config, corpus, texts, from);
      };
      const training::Trainer drawn = begun(nullptr);
      const std::filesystem::path start = folder.path() / "start";
      std::filesystem::create_directories(start);
      save_model(formats::real_file_system(), start, drawn.decoder().config(),
                 drawn.decoder().encoding(), drawn.decoder().weights(), at::kFloat);
      const auto from = open_model(start.string());
      training::Trainer real = begun(from), ours = begun(there(from));
      EXPECT_TRUE(ours.decoder().device() == phantom_device());
      reset_phantom_counts();
      std::vector<double> losses;
      while (!ours.done()) losses.push_back(ours.step().loss);
      protocol::NoProgress progress;
      const double bits = ours.validation(progress).bits;
      const PhantomCounts counts = phantom_counts();
      for (const double loss : losses) EXPECT_EQ(loss, real.step().loss);
      EXPECT_EQ(bits, real.validation(progress).bits);
      return counts;
    });
  }
}

TEST(EvalsThere, AnswersAreTheSame) {
  at::set_num_threads(1);
  const TemporaryFolder folder;
  const std::string corpus = training::small_run(folder.path(), 1).data.corpus;
  for (const char* encoding : {"rope", "alibi", "fire", "cape", "tapa", "tape"}) {
    for (const Json& options : small_evals(corpus)) {
      SCOPED_TRACE(encoding + (" " + options.dump()));
      expect_no_layer_crosses([&](std::int64_t layers) {
        ModelConfig config = tiny_config(encoding);
        config.layers = layers;
        config.vocab_size = 256;
        config.tokenizer = {{"type", "bytes"}, {"vocab_size", 256}, {"bos", 0}};
        const auto model = random_model(config, 1);
        const auto eval = [&](const std::shared_ptr<const Model>& of) {
          const auto request = protocol::request_of<protocol::EvalRequest>(options);
          protocol::NoProgress progress;
          training::NoEvalLog log;
          const auto& task = training::eval_task(options["task"].get<std::string>());
          return words(task.run({{"one", of}}, request, progress, log));
        };
        const auto device = there(model);
        reset_phantom_counts();
        const std::string found = eval(device);
        const PhantomCounts counts = phantom_counts();
        EXPECT_EQ(found, eval(model));
        return counts;
      });
    }
  }
}

}  // namespace
}  // namespace phasescope::model
