#include "training/evals/eval_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace phasescope::training {
namespace {

TextLosses losses(const std::string& model, std::vector<std::string> texts,
                  std::vector<TextSum> sums, Per per = Per::byte) {
  return {.model = model, .per = per, .texts = std::move(texts), .sums = {{64, std::move(sums)}}};
}

// Of texts of one weight: Student's t on the differences of the means. n = 4: t = 3.18244630528 at
// 3 degrees; differences 0.5, 1, 1.5, 3 have mean 1.5 and sd sqrt(3.5 / 3).
TEST(EvalDifferences, AreStudentsTOnTheDifferencesByText) {
  const auto first = losses("a", {"w", "x", "y", "z"}, {{80, 10}, {20, 10}, {50, 10}, {65, 10}});
  const auto other = losses("b", {"w", "x", "y", "z"}, {{85, 10}, {30, 10}, {65, 10}, {95, 10}});
  const auto all = differences_of(first, other, analysis::Draws());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].model, "b");
  EXPECT_EQ(all[0].against, "a");
  EXPECT_EQ(all[0].per, "byte");
  EXPECT_EQ(all[0].length, 64);
  const double half = 3.18244630528 * std::sqrt(3.5 / 3) / 2;
  EXPECT_EQ(all[0].difference.n, 4);
  EXPECT_NEAR(all[0].difference.mean, 1.5, 1e-12);  // a few roundings of numbers of order one
  EXPECT_NEAR(all[0].difference.low.value(), 1.5 - half, 1e-9);  // t has 12 digits
  EXPECT_NEAR(all[0].difference.high.value(), 1.5 + half, 1e-9);
}

// The mean of the row of each model is weighted by bytes; so is their difference.
TEST(EvalDifferences, AreWeightedAsTheValuesAre) {
  const auto first = losses("a", {"x", "y"}, {{10, 10}, {120, 30}});
  const auto other = losses("b", {"x", "y"}, {{20, 10}, {60, 30}});
  const auto all = differences_of(first, other, analysis::Draws());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NEAR(all[0].difference.mean, 80.0 / 40 - 130.0 / 40, 1e-12);
}

TEST(EvalDifferences, PairTextsByTheirNames) {
  const auto first = losses("a", {"x", "gone", "y"}, {{10, 10}, {999, 10}, {20, 10}});
  const auto other = losses("b", {"y", "x", "new"}, {{25, 10}, {15, 10}, {999, 10}});
  const auto all = differences_of(first, other, analysis::Draws());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].difference.n, 2);
  EXPECT_NEAR(all[0].difference.mean, 0.5, 1e-12);
}

TEST(EvalDifferences, AreNoneWhereThereIsNothingToPair) {
  const analysis::Draws draws;
  const auto bytes = losses("a", {"x"}, {{10, 10}}),
             tokens = losses("b", {"x"}, {{10, 10}}, Per::token);
  EXPECT_TRUE(differences_of(bytes, tokens, draws).empty());
  EXPECT_TRUE(differences_of(bytes, losses("b", {"y"}, {{10, 10}}), draws).empty());
  EXPECT_TRUE(differences_of(tokens, losses("c", {"x"}, {{9, 9}}, Per::token), draws).empty());
  auto longer = losses("b", {"x"}, {{10, 10}});
  longer.sums = {{128, {{10, 10}}}};
  EXPECT_TRUE(differences_of(bytes, longer, draws).empty());
  // A text of which nothing counts is none.
  EXPECT_TRUE(differences_of(bytes, losses("b", {"x"}, {{0, 0}}), draws).empty());
}

// Texts are of very different difficulty, which both models share: the interval of the difference
// holds the true one in 95 of 100 samples, and knows nothing of that difficulty. Of 400 samples
// four standard errors of the share, 0.011, are 0.044; the rule itself is within 3 points
// (coverage_test.cpp).
TEST(EvalDifferences, CoverTheTrueDifferenceWhateverTheTextsAreLike) {
  std::mt19937 random(1);
  std::normal_distribution<double> difficulty(0, 5), noise(0, 0.1);
  const double difference = 0.05;
  int covered = 0;
  double widest = 0;
  for (int sample = 0; sample < 400; ++sample) {
    std::vector<std::string> texts;
    std::vector<TextSum> a, b;
    for (int t = 0; t < 12; ++t) {
      const double hard = difficulty(random);
      texts.push_back(std::to_string(t));
      a.push_back({100 * (hard + noise(random)), 100});
      b.push_back({100 * (hard + difference + noise(random)), 100});
    }
    const auto found =
        differences_of(losses("a", texts, a), losses("b", texts, b), analysis::Draws());
    const protocol::Interval& interval = found.at(0).difference;
    covered += interval.low.value() <= difference && difference <= interval.high.value();
    widest = std::max(widest, *interval.high - *interval.low);
  }
  EXPECT_GT(covered, 400 * (0.95 - 0.044 - 0.03));
  EXPECT_LT(covered, 400 * 0.995);
  EXPECT_LT(widest, 1);  // unpaired it would be about 2 * 2.2 * 5 * sqrt(2 / 12) = 9
}

}  // namespace
}  // namespace phasescope::training
