#include "training/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/error.h"

namespace phasescope::training {
namespace {

at::Tensor tensor_of(std::vector<float> values) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)
      .clone();
}

AdamW::Parameter parameter_of(const std::string& name, std::vector<float> values, bool decays) {
  at::Tensor value = tensor_of(std::move(values));
  value.set_requires_grad(true);
  return {name, value, decays};
}

void set_gradient(AdamW::Parameter& parameter, std::vector<float> values) {
  parameter.value.mutable_grad() = tensor_of(std::move(values));
}

// The update by its definition (arXiv 1711.05101, algorithm 2, with eta = 1), in float64.
struct ByHand {
  double w, m = 0, v = 0;
  void step(double g, int t, double rate, const AdamWSettings& s, bool decays) {
    if (decays) w -= rate * s.weight_decay * w;
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double mean = m / (1 - std::pow(s.beta1, t)), square = v / (1 - std::pow(s.beta2, t));
    w -= rate * mean / (std::sqrt(square) + s.epsilon);
  }
};

TEST(AdamW, FollowsItsDefinition) {
  const AdamWSettings settings;
  const std::vector<float> start = {0.5f, -1.25f, 3.0f};
  for (const bool decays : {true, false}) {
    AdamW::Parameter parameter = parameter_of("w", start, decays);
    AdamW optimiser({parameter}, settings);
    std::vector<ByHand> hands;
    for (const float w : start) hands.push_back({w});
    for (int t = 1; t <= 20; ++t) {
      const double rate = 0.01 / t;
      std::vector<float> gradient;
      for (std::size_t i = 0; i < hands.size(); ++i) {
        gradient.push_back(static_cast<float>(std::sin(1.7 * t + static_cast<double>(i))));
        hands[i].step(gradient[i], t, rate, settings, decays);
      }
      set_gradient(parameter, gradient);
      optimiser.step(rate);
    }
    // 20 float32 steps of size below 1e-2 on values up to 3: half an ulp of 3 each, 2.4e-6 in all.
    for (std::size_t i = 0; i < hands.size(); ++i) {
      EXPECT_NEAR(parameter.value[static_cast<std::int64_t>(i)].item<float>(), hands[i].w, 3e-6);
    }
  }
}

TEST(AdamW, GoesOnFromItsStateBitForBit) {
  const auto gradient_at = [](int t) {
    return std::vector<float>{std::sin(float(t)), 0.1f * std::cos(float(t)), -1.0f / float(t)};
  };
  AdamW::Parameter whole = parameter_of("w", {1, 2, 3}, true);
  AdamW unbroken({whole}, {});
  AdamW::Parameter half = parameter_of("w", {1, 2, 3}, true);
  AdamW first({half}, {});
  for (int t = 1; t <= 10; ++t) {
    set_gradient(whole, gradient_at(t));
    unbroken.step(0.01);
    if (t > 5) continue;
    set_gradient(half, gradient_at(t));
    first.step(0.01);
  }
  AdamW second({half}, {});
  second.load_state(first.state(), first.steps_done());
  for (int t = 6; t <= 10; ++t) {
    set_gradient(half, gradient_at(t));
    second.step(0.01);
  }
  EXPECT_TRUE(half.value.equal(whole.value));
  EXPECT_EQ(second.steps_done(), 10);
}

TEST(AdamW, ClippingBoundsTheGlobalNorm) {
  AdamW::Parameter a = parameter_of("a", {0, 0}, true), b = parameter_of("b", {0}, false);
  AdamW optimiser({a, b}, {});
  set_gradient(a, {3, 0});
  set_gradient(b, {4});
  EXPECT_DOUBLE_EQ(optimiser.clip_gradients(10), 5);  // below the limit: left alone
  EXPECT_FLOAT_EQ(a.value.grad()[0].item<float>(), 3);
  EXPECT_DOUBLE_EQ(optimiser.clip_gradients(0), 5);
  EXPECT_FLOAT_EQ(b.value.grad()[0].item<float>(), 4);
  EXPECT_DOUBLE_EQ(optimiser.clip_gradients(1), 5);
  EXPECT_NEAR(a.value.grad()[0].item<float>(), 0.6, 1e-7);
  EXPECT_NEAR(b.value.grad()[0].item<float>(), 0.8, 1e-7);
}

TEST(AdamW, AParameterWithoutGradientStays) {
  AdamW::Parameter used = parameter_of("used", {1}, true), idle = parameter_of("idle", {1}, true);
  AdamW optimiser({used, idle}, {});
  set_gradient(used, {1});
  optimiser.step(0.1);
  EXPECT_LT(used.value.item<float>(), 1);
  EXPECT_EQ(idle.value.item<float>(), 1);
}

TEST(AdamW, AStateOfAnotherModelIsRefused) {
  AdamW::Parameter two = parameter_of("w", {1, 2}, true),
                   three = parameter_of("w", {1, 2, 3}, true);
  AdamW small({two}, {}), large({three}, {});
  EXPECT_THROW(large.load_state(small.state(), 1), formats::Error);
  EXPECT_THROW(large.load_state({}, 1), formats::Error);
}

}  // namespace
}  // namespace phasescope::training
