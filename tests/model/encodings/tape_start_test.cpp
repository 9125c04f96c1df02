// TAPE's other start, reweighted random Fourier features: against their closed forms, written out
// with one cosine a plane.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "../golden.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kTokens = 13;

ModelConfig features_config(Json options = Json::object()) {
  options["start"] = "random_fourier";
  return tiny_config("tape", options);
}

// The tensors of the model, the weights of each head and plane drawn.
Parameters drawn_parameters(const Encoding& encoding) {
  Parameters shared;
  std::uint64_t seed = 5;
  for (const ParameterSpec& spec : encoding.shared_parameters()) {
    shared[spec.name] = spec.start.to(at::kDouble).expand(spec.shape).clone();
    if (!spec.trainable) continue;
    shared[spec.name] =
        at::randn(spec.shape, at::make_generator<at::CPUGeneratorImpl>(seed++), at::kDouble);
  }
  return shared;
}

PositionState state_of(const Encoding& encoding, const Parameters& shared, std::int64_t shift) {
  StartContext context{{kTokens, shift, {}}, at::kDouble, at::kDouble};
  context.shared = &shared;
  return encoding.start(context);
}

// sum_m w_m^2 cos(omega_m distance) of one head.
double kernel(const Parameters& shared, std::int64_t head, double distance) {
  double sum = 0;
  for (std::int64_t m = 0; m < shared.at("frequencies").size(0); ++m) {
    const double weight = shared.at("weights")[head][m].item<double>();
    sum += weight * weight * std::cos(shared.at("frequencies")[m].item<double>() * distance);
  }
  return sum;
}

// Scores of q = k = (1, 0) in every plane are the kernel over sqrt(d), and so are the state's dot
// products; at positions from `shift` on too.
TEST(TapeRandomFourier, ScoresOfTheStartAreSumsOfWeightedCosines) {
  for (const char* layout : {"half", "interleaved"}) {
    const ModelConfig config = features_config({{"layout", layout}});
    const auto encoding = make_encoding(config);
    const Parameters shared = drawn_parameters(*encoding);
    for (const std::int64_t shift : {0, 1000}) {
      const PositionState state = state_of(*encoding, shared, shift);
      ASSERT_EQ(state.z.sizes(), (at::IntArrayRef{1, 3, kTokens, 2, 4}));
      at::Tensor ones = at::zeros({1, 3, kTokens, 8}, at::kDouble);
      const bool half = std::string(layout) == "half";
      ones.slice(-1, 0, half ? 4 : 8, half ? 1 : 2).fill_(1);
      const AttentionProgram program = encoding->program({}, ones, ones, state);
      const at::Tensor scores = program.scale * at::matmul(program.q, program.k.transpose(-1, -2));
      const at::Tensor flat = state.z.flatten(-2);
      const at::Tensor products = at::matmul(flat, flat.transpose(-1, -2));
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t i = 0; i < kTokens; ++i) {
          for (std::int64_t j = 0; j < kTokens; ++j) {
            const double expected = kernel(shared, h, static_cast<double>(i - j));
            // Angles of 1000 radians lose three of sixteen digits.
            EXPECT_NEAR(products[0][h][i][j].item<double>(), expected, 1e-11);
            EXPECT_NEAR(scores[0][h][i][j].item<double>(), expected / std::sqrt(8.0), 1e-11);
          }
        }
      }
    }
  }
}

// With every update of the state at work and heads of different weights.
TEST(TapeRandomFourier, LogitsKeepTheirValuesUnderAShift) {
  const at::NoGradGuard no_grad;
  for (const char* form : {"LR22", "L1R4"}) {
    const ModelConfig config = features_config({{"tensor_form", form}});
    const auto encoding = make_encoding(config);
    Weights weights = converted(init_weights(config, *encoding, 3), at::kDouble);
    weights.encoding = drawn_parameters(*encoding);
    std::uint64_t seed = 20;
    for (LayerWeights& layer : weights.layers) {
      for (auto& [name, tensor] : layer.encoding) {
        tensor = 0.3 * at::randn(tensor.sizes(), at::make_generator<at::CPUGeneratorImpl>(seed++),
                                 at::kDouble);
      }
    }
    const auto model = model_of(config, weights, "features");
    const at::Tensor ids = random_ids(2, 23, config.vocab_size);
    const at::Tensor logits = model->decoder.forward(ids);
    EXPECT_LT(relative_error(model->decoder.forward(ids, {.shift = 1000}), logits), 1e-10) << form;
    // Positions count for something: other distances, other logits.
    const at::Tensor apart = 3 * at::arange(23, at::kLong);
    EXPECT_GT(relative_error(model->decoder.forward(ids, {.position_ids = apart}), logits), 1e-3);
  }
}

// 4096 draws: the variance of their mean square is 2 / 4096, that of a mean of cosines at most 1 /
// 2 / 4096; five standard deviations each.
TEST(TapeRandomFourier, FrequenciesAreThoseOfAGaussianKernel) {
  constexpr std::int64_t kPlanes = 4096;
  ModelConfig config = features_config({{"length_scale", 6.0}});
  config.head_dim = 2 * kPlanes;
  const at::Tensor frequencies =
      make_encoding(config)->shared_parameters().at(0).start.to(at::kDouble);
  ASSERT_EQ(frequencies.sizes(), at::IntArrayRef{kPlanes});
  EXPECT_NEAR((frequencies * 6.0).square().mean().item<double>(), 1, 5 * std::sqrt(2.0 / kPlanes));
  for (const double distance : {0.0, 3.0, 6.0, 12.0, 60.0}) {
    EXPECT_NEAR((frequencies * distance).cos().mean().item<double>(),
                std::exp(-distance * distance / (2 * 36.0)), 5 * std::sqrt(0.5 / kPlanes))
        << distance;
  }
}

TEST(TapeRandomFourier, TheSeedAndTheLengthScaleSayWhatIsDrawn) {
  const auto drawn = [](const Json& options) {
    return make_encoding(features_config(options))->shared_parameters().at(0).start;
  };
  EXPECT_TRUE(drawn({{"seed", 4}}).equal(drawn({{"seed", 4}})));
  EXPECT_FALSE(drawn({{"seed", 4}}).equal(drawn({{"seed", 5}})));
  EXPECT_LT(relative_error(drawn({{"length_scale", 8.0}}) * 2, drawn({{"length_scale", 4.0}})),
            1e-15);
}

// The frequencies are the checkpoint's, whatever the seed would draw; the weights are trained.
TEST(TapeRandomFourier, ACheckpointHoldsWhatWasDrawn) {
  const ModelConfig config = features_config();
  const auto encoding = make_encoding(config);
  Weights weights = init_weights(config, *encoding, 3);
  for (auto& [name, tensor] : drawn_parameters(*encoding)) {
    weights.encoding[name] = tensor.to(at::kFloat) * 1.5;
  }
  TemporaryFolder folder;
  save_model(formats::real_file_system(), folder.path(), config, *encoding, weights);
  const auto model = open_model(folder.path().string(), {.overrides = {{"tape.seed", "77"}}});
  for (const char* name : {"frequencies", "weights"}) {
    EXPECT_TRUE(model->decoder.weights().encoding.at(name).equal(weights.encoding.at(name)))
        << name;
  }
  for (const ParameterSpec& spec : encoding->shared_parameters()) {
    EXPECT_EQ(spec.trainable, spec.name == "weights");
    EXPECT_FALSE(spec.optional);
  }
}

TEST(TapeRandomFourier, RefusesWhatItDoesNotKnow) {
  for (const auto& [option, value, says] :
       {std::tuple{"start", Json("fourier"), "known: rope, random_fourier"},
        {"length_scale", Json(0), "must be above 0"},
        {"seed", Json(-1), "must be from 0 to 1000000000"}}) {
    ModelConfig config = tiny_config("tape", {{option, value}});
    try {
      make_encoding(config);
      ADD_FAILURE() << option;
    } catch (const formats::Error& error) {
      EXPECT_NE(error.message().find(std::string("tape.") + option), std::string::npos);
      EXPECT_NE(error.message().find(says), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace phasescope::model
