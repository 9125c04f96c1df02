// RoPE written as a formula has RoPE's planes in everything that reads planes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "analysis/intrinsic_bias.h"
#include "analysis/patterns.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "text_passes.h"
#include "theory_runs.h"

namespace phasescope::analysis {
namespace {

using testing::ModelPointer;
constexpr std::int64_t kShort = 24;

const std::string kRope =
    "let w = 10000^(-2*planes/d);"
    "let a = inphase(q, k)*cos(lam*w) + quadrature(q, k)*sin(lam*w); score = scale*sum(a)";

ModelPointer with_formula(const ModelPointer& like, const std::string& expression) {
  model::ModelConfig config = like->config();
  config.encoding = {"formula", {{"expression", expression}}};
  return model::model_of(config, like->decoder.weights(), "formula");
}

struct RopeTwins {
  ModelPointer rope = model::in_dtype(testing::small_model("rope", 3), at::kDouble);
  ModelPointer formula = with_formula(rope, kRope);
};

// Angles of 24 tokens and sums of eight products, in float64.
constexpr double kRounding = 1e-12;

TEST(FormulaPlanes, HaveThePhasorsOfRope) {
  const RopeTwins twins;
  PairOptions options;
  options.layer = 1, options.head = 1, options.query = 20, options.key = 9;
  options.backend = model::Backend::plain;
  protocol::NoProgress progress;
  const Text text = random_texts(1, kShort, 32, 9).items[0];
  const auto a = analyse_pair(twins.rope, text, options, progress);
  const auto b = analyse_pair(twins.formula, text, options, progress);
  ASSERT_EQ(b.phasors.size(), 4u);
  for (std::size_t m = 0; m < 4; ++m) {
    EXPECT_NEAR(a.phasors[m][0], b.phasors[m][0], kRounding);
    EXPECT_NEAR(a.phasors[m][1], b.phasors[m][1], kRounding);
  }
  EXPECT_NEAR((*a.curve)[500].score, (*b.curve)[500].score, kRounding);
}

TEST(FormulaPlanes, HaveTheProductsOfPositionsOfRope) {
  const RopeTwins twins;
  protocol::NoProgress progress;
  const auto patterns = [&](const ModelPointer& model) {
    return analyse_patterns(testing::passes_for(model, 1, kShort), {}, progress);
  };
  const auto a = patterns(twins.rope), b = patterns(twins.formula);
  ASSERT_EQ(b.result.layers.size(), 1u);
  ASSERT_EQ(b.result.frequencies.size(), 4u);
  for (std::size_t m = 0; m < 4; ++m) {
    EXPECT_NEAR(a.result.frequencies[m], b.result.frequencies[m], kRounding);
  }
  const auto *of_a = protocol::find_tensor(a.tensors, "pe_dot.0"),
             *of_b = protocol::find_tensor(b.tensors, "pe_dot.0");
  ASSERT_TRUE(of_a != nullptr && of_b != nullptr);
  const auto x = of_a->values<double>(), y = of_b->values<double>();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t n = 0; n < x.size(); ++n) EXPECT_NEAR(x[n], y[n], 1e-11);
}

TEST(FormulaPlanes, AreARotationByFixedAngles) {
  const RopeTwins twins;
  const auto a = rotation_of(*testing::passes_for(twins.rope, 1, kShort)[0]);
  const auto b = rotation_of(*testing::passes_for(twins.formula, 1, kShort)[0]);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->layout, b->layout);
  EXPECT_NEAR(a->gain, b->gain, kRounding);
  for (std::size_t m = 0; m < 4; ++m) EXPECT_NEAR(a->frequencies[m], b->frequencies[m], kRounding);
}

TEST(FormulaPlanes, HaveTheAmplitudesOfRope) {
  const RopeTwins twins;
  ProfileOptions options;
  options.window = kShort, options.samples = 30;
  protocol::NoProgress progress;
  const Texts texts = random_texts(2, kShort, 32, 4);
  const auto a = analyse_profile(twins.rope, texts, options, progress);
  const auto b = analyse_profile(twins.formula, texts, options, progress);
  for (std::size_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(a.rows[n].positional && b.rows[n].positional);
    EXPECT_NEAR(a.rows[n].positional->mean, b.rows[n].positional->mean, 1e-10);
  }
}

// The checks of RoPE's statements measure the same of it.
TEST(FormulaPlanes, MeetThePremisesOfRopesStatements) {
  const ModelPointer rope = testing::small_model("rope", 3), formula = with_formula(rope, kRope);
  const Texts texts = random_texts(8, 64, 32, 4);
  protocol::NoProgress progress;
  for (const char* id : {"rope.base_shrinks_gap", "rope.assumption", "rope.intrinsic_bias"}) {
    const auto checked = [&](const ModelPointer& model) {
      CheckContext context;
      context.progress = &progress;
      context.model = model;
      context.texts = &texts;
      return run_check(select_checks({id}).at(0), context);
    };
    const CheckResult a = checked(rope), b = checked(formula);
    EXPECT_EQ(a.verdict, b.verdict) << id << ": " << b.detail;
    EXPECT_NE(b.verdict, "premise_not_met") << id << ": " << b.detail;
  }
}

// Angles that are trained, or a factor on the sum, are more than such a rotation.
TEST(FormulaPlanes, AreNoneWhereMoreIsDone) {
  const RopeTwins twins;
  for (const char* expression :
       {"let w = 10000^(-2*planes/d); score = scale*2*sum(inphase(q, k)*cos(lam*w) + "
        "quadrature(q, k)*sin(lam*w))",
        "let w = 10000^(-2*planes/d); score = scale*sum(inphase(q, k)*cos(lam*w) + "
        "quadrature(q, k)*sin(lam*w)) - lam"}) {
    const ModelPointer other = with_formula(twins.rope, expression);
    EXPECT_FALSE(other->encoding().has_state());
    EXPECT_FALSE(rotation_of(*testing::passes_for(other, 1, kShort)[0]));
  }
}

}  // namespace
}  // namespace phasescope::analysis
