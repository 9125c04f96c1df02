// Models on a second device over the host's memory (phantom_device.h): every number equals the
// CPU's, and nothing crosses between the two sides within a layer.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <regex>

#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/shift.h"
#include "analysis/text_pass.h"
#include "analysis/texts.h"
#include "encoding_variants.h"
#include "golden.h"
#include "model/loss.h"
#include "phantom_device.h"
#include "protocol/json_form.h"
#include "protocol/progress.h"
#include "training/adamw.h"

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
    EXPECT_TRUE(found.cpu().equal(expected));
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
  EXPECT_TRUE(found.cpu().equal(expected));
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

// The same words for both, but for the device's name.
template <class Result>
std::string words(const Result& result) {
  static const std::regex device("phantom(:0)?");
  return std::regex_replace(protocol::to_json_form(result).dump(), device, "cpu");
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

class AnalysesThere : public testing::TestWithParam<std::string> {
 protected:
  AnalysesThere() { at::set_num_threads(1); }

  const std::shared_ptr<const Model> model_ =
      tiny_model({GetParam(), GetParam(), Json::object()}, at::kFloat);
  const std::shared_ptr<const Model> device_ = there(model_);
  protocol::NoProgress progress_;
};
INSTANTIATE_TEST_SUITE_P(Encodings, AnalysesThere,
                         testing::Values("rope", "alibi", "t5", "fire", "cape", "tapa", "tape",
                                         "none"),
                         [](const auto& info) { return info.param; });

TEST_P(AnalysesThere, HeadsAreTheSame) {
  const analysis::HeadsOptions options;
  EXPECT_EQ(words(analysis::analyse_heads(passes_of(device_), options, progress_).result),
            words(analysis::analyse_heads(passes_of(model_), options, progress_).result));
}

TEST_P(AnalysesThere, MapsAreTheSame) {
  for (const char* of : {"weight", "score", "content", "positional"}) {
    analysis::MapOptions options;
    options.head = {.layer = 1, .head = 1};
    options.of = of;
    EXPECT_EQ(words(analysis::analyse_map(*passes_of(device_)[0], options).result),
              words(analysis::analyse_map(*passes_of(model_)[0], options).result))
        << of;
  }
}

TEST_P(AnalysesThere, DistancesAreTheSame) {
  const analysis::DistanceOptions options;
  EXPECT_EQ(words(analysis::analyse_distance(passes_of(device_), options, progress_)),
            words(analysis::analyse_distance(passes_of(model_), options, progress_)));
}

TEST_P(AnalysesThere, ShiftsAreTheSame) {
  const analysis::ShiftOptions options;
  const std::vector<std::int64_t> ids =
      analysis::random_texts(1, 24, model_->config().vocab_size, 5).items[0].ids;
  const auto ours = analysis::analyse_shift(device_, ids, options, progress_);
  const auto real = analysis::analyse_shift(model_, ids, options, progress_);
  ASSERT_EQ(ours.rows.size(), real.rows.size());
  for (std::size_t n = 0; n < ours.rows.size(); ++n) {
    EXPECT_EQ(words(ours.rows[n]), words(real.rows[n]));
  }
}

}  // namespace
}  // namespace phasescope::model
