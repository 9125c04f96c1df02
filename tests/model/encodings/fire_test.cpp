// FIRE past its threshold, by itself and under CAPE: the pieces of its network in the fused kernel
// against the network itself.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../golden.h"
#include "../layer_case.h"
#include "model/attention/attention.h"
#include "model/attention/fused_attention.h"
#include "model/attention/plain_attention.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 16, kHidden = 12, kUnits = 7;

// A threshold of 40 * 1.25 = 50 places.
ModelConfig fire_config(const std::string& activation = "relu") {
  ModelConfig config = layer_config(
      "fire", {{"hidden", kHidden}, {"threshold", 40.0}, {"activation", activation}}, kHeads, kDim);
  config.kv_heads = kKvHeads;
  return config;
}

ModelConfig cape_config(const std::string& form) {
  ModelConfig config = layer_config("cape",
                                    {{"form", form},
                                     {"hidden", kUnits},
                                     {"base", "fire"},
                                     {"base_hidden", kHidden},
                                     {"base_threshold", 40.0}},
                                    kHeads, kDim);
  config.kv_heads = kKvHeads;
  return config;
}

// Units that switch within 0..1 both ways, two of them at the same place, one at 0, where every
// row's own token is, one that never does (w1 = 0), and some that switch outside.
Parameters fire_parameters(at::ScalarType dtype) {
  at::manual_seed(4);
  const at::Tensor w1 =
      at::tensor({1.0, -2.0, 4.0, -1.0, 0.5, 3.0, 0.0, 0.0, 1.0, -1.0, 1.0, 2.0}, at::kDouble);
  const at::Tensor b1 =
      at::tensor({-0.3, 1.0, -2.0, 0.9, -0.45, 0.0, 0.7, -0.7, 0.5, -0.5, -1.5, -1.2}, at::kDouble);
  Parameters layer = {{"fire.0.weight", w1.unsqueeze(1)},
                      {"fire.0.bias", b1},
                      {"fire.2.weight", at::randn({kHeads, kHidden}, at::kDouble)},
                      {"fire.2.bias", at::randn({kHeads}, at::kDouble)},
                      {"c", at::full({}, 0.3, at::kDouble)},
                      {"L_multiplier", at::full({}, 1.25, at::kDouble)}};
  for (auto& [name, tensor] : layer) tensor = tensor.to(dtype).clone();
  return layer;
}

// The same with those of CAPE's correction where `config` has one.
Parameters parameters_of(const ModelConfig& config, at::ScalarType dtype) {
  Parameters layer = fire_parameters(dtype);
  for (const ParameterSpec& spec : make_encoding(config)->parameters()) {
    if (spec.name.rfind("mlp.", 0) != 0) continue;
    layer[spec.name] = (at::randn(spec.shape, at::kDouble) * 0.5).to(dtype);
  }
  return layer;
}

// The first length at which a query is past the threshold has one token more.
constexpr std::int64_t kLastWithin = 50;

struct Inputs {
  Parameters layer;
  at::Tensor q, k, v;

  std::vector<at::Tensor*> all() {
    std::vector<at::Tensor*> list{&q, &k, &v};
    for (auto& [name, tensor] : layer) list.push_back(&tensor);
    return list;
  }
};

Inputs random_inputs(const ModelConfig& config, std::int64_t length, at::ScalarType dtype) {
  Inputs inputs{parameters_of(config, dtype), {}, {}, {}};
  at::manual_seed(9);
  inputs.q = at::randn({2, kHeads, length, kDim}, at::kDouble).to(dtype);
  inputs.k = at::randn({2, kKvHeads, length, kDim}, at::kDouble).to(dtype);
  inputs.v = at::randn({2, kKvHeads, length, kDim}, at::kDouble).to(dtype);
  return inputs;
}

AttentionProgram program_of(const ModelConfig& config, const Inputs& inputs,
                            std::int64_t shift = 0) {
  const PositionState state{{inputs.q.size(2), shift, {}}, {}};
  return make_encoding(config)->program(inputs.layer, inputs.q, inputs.k, state);
}

// The output, and the gradients of its weighted sum: q, k, v, then the parameters by name.
std::vector<at::Tensor> run(const ModelConfig& config, std::int64_t length, at::ScalarType dtype,
                            Backend backend, std::int64_t window) {
  Inputs inputs = random_inputs(config, length, dtype);
  for (at::Tensor* tensor : inputs.all()) tensor->requires_grad_();
  AttentionProgram program = program_of(config, inputs);
  EXPECT_EQ(program.fire() != nullptr, length > kLastWithin);
  program.window = window;
  const AttentionResult result = attention(program, inputs.v, {.backend = backend});
  EXPECT_EQ(result.ran.text(), backend == Backend::fused ? fused_kernel_name() : "plain");
  const at::Tensor& out = result.out;
  (out * at::arange(out.numel(), at::kDouble).cos().view(out.sizes()).to(dtype)).sum().backward();
  std::vector<at::Tensor> results{out.detach()};
  for (at::Tensor* tensor : inputs.all()) results.push_back(tensor->grad());
  return results;
}

void expect_near(const ModelConfig& config, std::int64_t length, std::int64_t window) {
  SCOPED_TRACE(config.encoding.options.dump() + " " + std::to_string(length) + " " +
               std::to_string(window));
  const auto exact = run(config, length, at::kDouble, Backend::plain, window);
  const auto plain = run(config, length, at::kFloat, Backend::plain, window);
  const auto fused = run(config, length, at::kFloat, Backend::fused, window);
  ASSERT_EQ(exact.size(), 4 + parameters_of(config, at::kFloat).size());
  for (std::size_t n = 0; n < exact.size(); ++n) {
    ASSERT_EQ(exact[n].defined(), fused[n].defined()) << n;
    if (!exact[n].defined()) continue;
    // The last bias moves all scores of a row alike: its gradient is 0 but for the rounding of
    // terms of order one.
    const double scale = std::max(1.0, exact[n].abs().max().item<double>());
    const auto error = [&](const at::Tensor& ours) {
      return (ours.to(at::kDouble) - exact[n]).abs().max().item<double>() / scale;
    };
    // Weights from a float32 log-sum-exp of about 5, and sums of up to 90,000 of them.
    EXPECT_LE(error(fused[n]), 2 * error(plain[n]) + 2e-5) << n;
  }
}

TEST(FirePastItsThreshold, IsAsNearToFloat64AsPlainWithAllGradients) {
  for (const char* activation : {"relu", "leaky_relu"}) {
    for (const std::int64_t length : {52, 129, 300}) {
      for (const std::int64_t window : {0, 70}) {
        expect_near(fire_config(activation), length, window);
      }
    }
  }
}

TEST(CapeOverFire, IsAsNearToFloat64AsPlainWithAllGradients) {
  for (const char* form : {"concat_residual", "concat", "add_residual"}) {
    // Below the threshold, at it, and past it.
    for (const std::int64_t length : {kLastWithin - 10, kLastWithin, kLastWithin + 1}) {
      expect_near(cape_config(form), length, 0);
    }
    expect_near(cape_config(form), 150, 70);
  }
}

// What the kernel is given, put together again: float32 numbers of a float64 network.
TEST(FirePastItsThreshold, HasThePiecesOfTheNetwork) {
  for (const std::string activation : {"relu", "leaky_relu"}) {
    const Inputs inputs = random_inputs(fire_config(), 90, at::kDouble);
    for (const std::int64_t shift : {0, 37}) {
      const AttentionProgram program = program_of(fire_config(activation), inputs, shift);
      ASSERT_TRUE(program.is<FireProgram>());
      const FireProgram& fire = *program.fire();
      // -b/w of the units 0 to 5 and 11, one of them twice.
      const at::Tensor knots = at::tensor({0.0, 0.3, 0.5, 0.5, 0.6, 0.9, 0.9}, at::kDouble);
      EXPECT_LT(relative_error(fire.knots.to(at::kDouble), knots), 1e-7);
      const at::Tensor index = at::arange(90, at::kLong);
      const at::Tensor lambda = (index.unsqueeze(1) - index).clamp_min(0);
      const at::Tensor u =
          fire.distance.to(at::kDouble).index({lambda}) * fire.factor.to(at::kDouble).unsqueeze(1);
      const at::Tensor segment = (u.unsqueeze(-1) > fire.knots.to(at::kDouble)).sum(-1);
      const auto piece = [&](const at::Tensor& of) {
        return of.to(at::kDouble).index_select(1, segment.flatten()).view({kHeads, 90, 90});
      };
      const at::Tensor bias = piece(fire.slope) * u + piece(fire.intercept);
      const at::Tensor scores = plain_scores(program, {0, kHeads}, {0, 90}, {0, 90})[0];
      const at::Tensor content =
          at::matmul(inputs.q[0], inputs.k[0].repeat_interleave(2, 0).transpose(-1, -2)) *
          program.scale;
      EXPECT_LT(relative_error(causal_part(bias), causal_part(scores - content)), 1e-6) << shift;
    }
  }
}

TEST(FirePastItsThreshold, GivesSinglePairsAsItGivesRegions) {
  const at::NoGradGuard no_grad;
  for (const ModelConfig& config : {fire_config(), cape_config("concat_residual")}) {
    const AttentionProgram program = program_of(config, random_inputs(config, 70, at::kDouble), 11);
    const at::Tensor all = plain_scores(program, {0, kHeads}, {0, 70}, {0, 70});
    const auto some = [](std::int64_t high) { return at::randint(high, {200}, at::kLong); };
    const at::Tensor batch = some(2), head = some(kHeads), row = some(70), column = some(70);
    const TokenPairs asked({batch, head, row, column}, at::kCPU);
    const at::Tensor pairs = plain_pair_scores(program, asked).score;
    const at::Tensor want = all.index({batch, head, row, column});
    EXPECT_TRUE(pairs.isfinite().equal(want.isfinite()));
    EXPECT_LT(relative_error(pairs.nan_to_num(0, 0, 0), want.nan_to_num(0, 0, 0)), 1e-12);
  }
}

TEST(FirePastItsThreshold, SaysWhatHasNoFusedForm) {
  for (const ModelConfig& config : {fire_config(), cape_config("concat_residual")}) {
    const Inputs inputs = random_inputs(config, 70, at::kFloat);
    AttentionProgram program = program_of(config, inputs);
    EXPECT_EQ(fused_obstacle(program, inputs.v), "");
    program.causal = false;
    EXPECT_EQ(fused_obstacle(program, inputs.v),
              "fire past its threshold has no fused form without a causal mask");
    const PositionState given{{70, 0, at::arange(70, at::kLong) * 2}, {}};
    program = make_encoding(config)->program(inputs.layer, inputs.q, inputs.k, given);
    EXPECT_EQ(fused_obstacle(program, inputs.v), "given position ids have no fused form with term");
  }
}

// What the kernels refuse has to run plain.
TEST(CapeOverFire, HasNoFusedFormOfMoreUnitsOrChannelsThanTheKernelsTake) {
  const Inputs inputs = random_inputs(cape_config("concat"), 20, at::kFloat);
  AttentionProgram program = program_of(cape_config("concat"), inputs);
  at::Tensor& w1_given = program.as<CapeProgram>()->w1;
  const at::Tensor w1 = w1_given;
  w1_given = w1.new_zeros({1024, w1.size(1)});
  EXPECT_EQ(fused_obstacle(program, inputs.v), "");
  w1_given = w1.new_zeros({1025, w1.size(1)});
  EXPECT_EQ(fused_obstacle(program, inputs.v),
            "a correction of more than 1024 hidden units has no fused form");
  w1_given = w1;
  program.q = program.q.new_zeros({2, kHeads, 20, 513});
  EXPECT_EQ(fused_obstacle(program, inputs.v),
            "a head of more than 512 channels has no fused form");
}

TEST(CapeOverFire, HasNoFusedFormOfMorePiecesThanTheKernelKeeps) {
  const Inputs inputs = random_inputs(cape_config("concat"), 70, at::kFloat);
  AttentionProgram program = program_of(cape_config("concat"), inputs);
  program.fire()->slope = at::zeros({1, 23'832}).expand({kHeads, -1});  // times 11 rows: 2^18 and 8
  EXPECT_EQ(fused_obstacle(program, inputs.v),
            "a correction of 7 hidden units of a bias of 23832 pieces has no fused form");
  program.fire()->slope = at::zeros({1, 23'831}).expand({kHeads, -1});
  EXPECT_EQ(fused_obstacle(program, inputs.v), "");
}

}  // namespace
}  // namespace phasescope::model
