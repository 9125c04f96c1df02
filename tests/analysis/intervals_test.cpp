#include "analysis/intervals/intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "analysis/intervals/smooth.h"
#include "analysis/intervals/student_t.h"
#include "analysis/random.h"

// 17.A5: one rule for every number. Values of other code are those of numpy 2.4.6 and scipy 1.17.1,
// whose t quantiles are good to 1e-11 of themselves.
namespace phasescope::analysis {
namespace {

constexpr double kScipy = 1e-9;

const Draws& draws() {
  static const Draws same(7);
  return same;
}

void expect_interval(const Interval& got, double value, double low, double high,
                     const char* method) {
  EXPECT_NEAR(got.mean, value, kScipy);
  ASSERT_TRUE(got.low && got.high) << got.method;
  EXPECT_NEAR(*got.low, low, kScipy);
  EXPECT_NEAR(*got.high, high, kScipy);
  EXPECT_EQ(got.method, method);
}

void expect_none(const Interval& got) {
  EXPECT_FALSE(got.low.has_value());
  EXPECT_FALSE(got.high.has_value());
  EXPECT_EQ(got.method, method::kNone);
}

const std::vector<Part> kParts{{3.1, 2}, {-0.4, 1}, {2.2, 3}, {7.9, 5},
                               {1.5, 1}, {0.3, 2},  {4.8, 4}};

TEST(StudentT, EqualsItsClosedForms) {
  for (const double p : {0.6, 0.975, 0.9995}) {
    EXPECT_NEAR(student_t_quantile(p, 1) / std::tan((p - 0.5) * std::numbers::pi), 1, 1e-12);
    const double a = 4 * p * (1 - p), root = std::sqrt(a);
    EXPECT_NEAR(student_t_quantile(p, 2) / ((2 * p - 1) * std::sqrt(2 / a)), 1, 1e-12);
    const double q = std::cos(std::acos(root) / 3) / root;
    EXPECT_NEAR(student_t_quantile(p, 4) / (2 * std::sqrt(q - 1)), 1, 1e-11);
    EXPECT_NEAR(student_t_quantile(1 - p, 4), -student_t_quantile(p, 4), 1e-10);
  }
  EXPECT_NEAR(student_t_quantile(0.975, 11), 2.200985160091640, 1e-12);  // mpmath, 30 digits
  EXPECT_NEAR(student_t_quantile(0.5, 5), 0, 1e-12);
  EXPECT_EQ(two_sided_t(11), student_t_quantile(0.975, 11));
}

TEST(Intervals, MeanOfFewTextsIsStudentT) {
  std::vector<double> values;
  for (const Part& part : kParts) values.push_back(part.sum);
  const Interval got = mean_interval(values, draws());
  expect_interval(got, 2.771428571428572, 0.13834314051989782, 5.404514002337246, "Student t");
  EXPECT_EQ(got.n, 7);
  EXPECT_EQ(got.unit, "texts");
}

TEST(Intervals, RatioOfFewTextsIsTheJackknife) {
  const Interval got = ratio_interval(kParts, draws());
  expect_interval(got, 1.077777777777778, 0.48636667937500533, 1.6691888761805505, "jackknife t");
  // A text without a sample is no text.
  std::vector<Part> with_empty = kParts;
  with_empty.push_back({0, 0});
  EXPECT_EQ(ratio_interval(with_empty, draws()).n, 7);
}

TEST(Intervals, ShareIsWilsonOfTheSamplesThatTheTextsAreWorth) {
  const std::vector<Part> parts{{12, 40}, {30, 40}, {7, 20}, {22, 50},
                                {18, 40}, {25, 30}, {9, 40}, {40, 60}};
  expect_interval(share_interval(parts, draws()), 0.509375, 0.34015499492265183, 0.6764735282112138,
                  "Wilson");
  // A share of 0 is worth as many samples as texts, however many samples there are.
  std::vector<Part> none = parts;
  for (Part& part : none) part.sum = 0;
  expect_interval(share_interval(none, draws()), 0, 0, 0.41139457049960504, "Wilson");
  // No end lies beyond the share by what rounding leaves.
  for (std::size_t units = 2; units < 9; ++units) {
    const std::span<const Part> few{none.data(), units};
    EXPECT_EQ(*share_interval(few, draws()).low, 0) << units;
    std::vector<Part> all(units, {3, 3});
    EXPECT_EQ(*share_interval(all, draws()).high, 1) << units;
  }
}

TEST(Intervals, RatioOfDifferencesNeedsADenominatorOffZero) {
  const std::vector<Part> parts{{0.5, 1.0}, {0.9, 1.4}, {0.4, 0.9},
                                {0.7, 1.6}, {0.6, 1.2}, {1.1, 1.5}};
  expect_interval(ratio_of_differences(parts, draws()), 0.5526315789473684, 0.4098194375831089,
                  0.6954437203116278, "jackknife t");
  const std::vector<Part> nothing{{0.5, -1.0}, {0.9, 1.4}, {0.4, 0.1}, {0.7, -0.2}};
  expect_none(ratio_of_differences(nothing, draws()));
}

TEST(Intervals, ShapeIsThatOfAllSamplesByText) {
  const Clusters samples{
      {{1, 2, 4}, {0.5, -1, 3, 2}, {6, 1}, {2.5, 2.5, -0.5, 1, 0}, {}, {3, 3.5, -2}}};
  const ShapeIntervals got = shape_intervals(samples, {}, draws());
  expect_interval(got.mean, 1.6764705882352942, 0.6645928992170278, 2.6883482772535605,
                  "jackknife t");
  expect_interval(got.sigma, 1.9322432594890402, 1.0740292996654488, 2.7904572193126316,
                  "jackknife t");
  EXPECT_NEAR(got.skewness.mean, 0.15333010252411974, 1e-12);
  expect_none(got.skewness);  // below 30 texts the jackknife covers it far too seldom
  EXPECT_EQ(got.share_positive.method, "Wilson");
  EXPECT_EQ(got.skewness.n, 5);  // one text has no sample
}

// Of three texts the jackknife's standard error is 1.28 of a deviation of 1.86, and t of 2
// degrees 4.30.
TEST(Intervals, NoDeviationIsBelowZero) {
  const Interval sigma = shape_intervals({{{1}, {5}, {1.1}}}, {}, draws()).sigma;
  ASSERT_TRUE(sigma.low && sigma.high);
  EXPECT_EQ(*sigma.low, 0);
  EXPECT_NEAR(*sigma.high, 1.86 + 4.30 * 1.28, 0.05);  // digits of the numbers above
}

// 2 000 000 draws of other code: their quantiles of T are -2.591 and 1.727, of the ratio -3.187 and
// 1.660. Those of 1999 draws are off by sqrt(.025 * .975 / 1999) / density, the density at these
// places being about .03 and .07 (low) and .08 (high): four of that.
TEST(Intervals, ManyTextsAreStudentised) {
  std::vector<double> values;
  std::vector<Part> parts;
  for (int i = 0; i < 40; ++i) {
    values.push_back(-std::log(1 - (i + 0.5) / 40));
    const double weight = 1 + i % 5;
    parts.push_back({weight * values.back(), weight});
  }
  const Interval mean = mean_interval(values, draws());
  const double error = 0.15320715989254982;
  EXPECT_EQ(mean.method, "bootstrap-t");
  EXPECT_NEAR(mean.mean, 0.9913617009604192, 1e-12);
  EXPECT_NEAR((mean.mean - *mean.low) / error, 1.727, 0.17);
  EXPECT_NEAR((*mean.high - mean.mean) / error, 2.591, 0.35);
  const Interval ratio = ratio_interval(parts, draws());
  const double ratio_error = 0.19803077780585862;
  EXPECT_EQ(ratio.method, "bootstrap-t of the ratio");
  EXPECT_NEAR((ratio.mean - *ratio.low) / ratio_error, 1.660, 0.17);
  EXPECT_NEAR((*ratio.high - ratio.mean) / ratio_error, 3.187, 0.45);
  // The same draws for every interval of a seed, and others for another seed.
  EXPECT_EQ(mean.low, mean_interval(values, Draws(7)).low);
  EXPECT_NE(mean.low, mean_interval(values, Draws(8)).low);
}

// 30 values of which one differs: a draw without it, (1 - 1/30)^30 = 36 % of all, has no spread.
TEST(Intervals, TooManyDrawsWithoutSpreadLeaveStudentT) {
  std::vector<double> values(30, 1.0);
  values[3] = 2;
  const Interval got = mean_interval(values, draws());
  const double half = two_sided_t(29) * std::sqrt(1.0 / 30) / std::sqrt(30.0);
  expect_interval(got, 31.0 / 30, 31.0 / 30 - half, 31.0 / 30 + half, "Student t");
}

// The same of numbers whose sums are rounded, so that such a draw's spread is some 10^-17: the
// deviation of n values of which one is d above the others is d / sqrt(n).
TEST(Intervals, WhatRoundingLeavesOfADrawIsNoSpread) {
  for (const std::size_t n : {30u, 33u, 70u}) {
    std::vector<double> values(n, 0.1);
    values[3] = 0.37;
    const auto units = static_cast<double>(n);
    const double mean = 0.1 + 0.27 / units;
    const double half = two_sided_t(static_cast<int>(n) - 1) * 0.27 / units;
    expect_interval(mean_interval(values, draws()), mean, mean - half, mean + half, "Student t");
  }
  std::vector<Part> parts;
  for (int n = 0; n < 40; ++n) parts.push_back({0.1 * (1 + n % 7), 1.0 + n % 7});
  parts[3].sum = 0.37 * parts[3].weight;
  const Interval ratio = ratio_interval(parts, draws());
  EXPECT_EQ(ratio.method, "jackknife t");
  // Nobody's quotient is beyond these, and an interval of 40 is no wider than they are.
  EXPECT_GT(*ratio.low, 0.1 - 0.27);
  EXPECT_LT(*ratio.high, 0.37);
}

TEST(Intervals, EqualUnitsAreAConstant) {
  for (const std::size_t n : {2u, 10u, 40u}) {
    const Interval got = mean_interval(std::vector<double>(n, 0.1), draws());
    EXPECT_EQ(got.method, "constant");
    EXPECT_EQ(got.mean, 0.1);
    EXPECT_EQ(got.low, got.high);
  }
  EXPECT_EQ(ratio_interval(std::vector<Part>{{1, 2}, {2, 4}, {3, 6}}, draws()).method, "constant");
}

// One text says nothing of other texts: no rule makes a width of 0 of it.
TEST(Intervals, OneUnitHasNone) {
  const std::vector<double> one{3};
  const std::vector<Part> part{{3, 4}};
  expect_none(mean_interval(one, draws()));
  expect_none(ratio_interval(part, draws()));
  expect_none(share_interval(part, draws()));
  expect_none(ratio_of_differences(part, draws()));
  expect_none(median_interval(one));
  expect_none(pooled_quantile_interval({{{1, 2, 3}}}, 0.5));
  const ShapeIntervals shape = shape_intervals({{{1, 2, 3}, {}}}, {}, draws());
  for (const Interval& got : {shape.mean, shape.sigma, shape.skewness, shape.share_positive}) {
    expect_none(got);
    EXPECT_EQ(got.n, 1);
  }
  EXPECT_EQ(mean_interval(one, draws()).mean, 3);
  EXPECT_EQ(mean_interval({}, draws()).n, 0);
  EXPECT_TRUE(std::isnan(mean_interval({}, draws()).mean));
}

// What is not finite is never left out, and has no interval.
TEST(Intervals, ANaNIsNoText) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Interval mean = mean_interval(std::vector<double>{1, bad, 3}, draws());
    EXPECT_FALSE(std::isfinite(mean.mean));
    expect_none(mean);
    expect_none(ratio_interval(std::vector<Part>{{1, 1}, {bad, 1}, {2, 2}}, draws()));
    expect_none(shape_intervals({{{1, 2}, {bad}, {2, 3}}}, {}, draws()).sigma);
    expect_none(median_interval(std::vector<double>{1, 2, 3, 4, 5, 6, bad}));
    expect_none(rows_interval(std::vector<double>(80, bad)));
  }
}

TEST(Intervals, MediansAreOrderStatistics) {
  std::vector<double> values{5, 3, 1, 2, 4};
  expect_none(median_interval(values));
  EXPECT_EQ(median_interval(values).mean, 3);
  values.push_back(6);
  expect_interval(median_interval(values), 3.5, 1, 6, "order statistics");
  // P(Bin(30, 1/2) <= 9) = .0214 and of 10 .0494: the 10th from either end. Of 70: 26 of .0206.
  std::vector<double> many;
  for (int i = 1; i <= 30; ++i) many.push_back(i);
  expect_interval(median_interval(many), 15.5, 10, 21, "order statistics");
  for (int i = 31; i <= 70; ++i) many.push_back(i);
  expect_interval(median_interval(many), 35.5, 27, 44, "order statistics");
  // Of 4000 texts 2^-n is no float64; the normal limit is 2000 - 1.96 sqrt(1000) = 1938.
  many.clear();
  for (int i = 1; i <= 4000; ++i) many.push_back(i);
  EXPECT_NEAR(*median_interval(many).low, 1938, 2);
}

TEST(Intervals, PooledQuantilesReadBackTheSharesOfTexts) {
  // Ten texts of the same hundred values: every text has the same share below, so the ends meet.
  Clusters same;
  for (int text = 0; text < 10; ++text) {
    std::vector<double>& list = same.values.emplace_back();
    for (int i = 0; i < 100; ++i) list.push_back(i);
  }
  const Interval equal = pooled_quantile_interval(same, 0.5);
  EXPECT_NEAR(equal.mean, 49.5, 0.5);
  EXPECT_NEAR(*equal.low, *equal.high, 1);
  // Two texts far apart: a share of 0 in one and 1 in the other leaves both ends open.
  const Interval open = pooled_quantile_interval({{{1, 2, 3}, {11, 12, 13}}}, 0.5);
  EXPECT_EQ(open.mean, 7);
  EXPECT_FALSE(open.low || open.high);
}

TEST(Intervals, OneTextHasEightBlocks) {
  std::vector<double> rows;
  for (int i = 0; i < 70; ++i) rows.push_back(std::sin(0.3 * i) + 0.01 * i);
  const Interval got = rows_interval(rows);  // the last 6 rows are in no block
  expect_interval(got, 0.4121716902686918, -0.0372977373001418, 0.8616411178375254,
                  "8 blocks of one text");
  EXPECT_EQ(got.n, 8);
  EXPECT_EQ(got.unit, "blocks");
  rows.resize(63);
  expect_none(rows_interval(rows));
  EXPECT_EQ(rows_interval(rows).n, 1);
  EXPECT_EQ(rows_interval(rows).unit, "texts");
}

// Wilson's interval of a share of so many samples, z standard errors wide.
std::pair<double, double> wilson_of(double share, double samples, double z) {
  const double centre = share + z * z / (2 * samples), whole = 1 + z * z / samples;
  const double half =
      z * std::sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples));
  return {(centre - half) / whole, (centre + half) / whole};
}

// A share of one text is never without width: what no row has may be seen in another stretch of it.
TEST(Intervals, AShareOfOneTextIsThatOfItsBlocks) {
  const double z = two_sided_t(7);
  std::vector<double> rows(128, 0.0);
  expect_interval(rows_share(rows), 0, 0, wilson_of(0, 8, z).second, "8 blocks of one text");
  // Blocks of 16 rows: shares of 1/16, 2/16, ... 8/16, whose mean has the error sd / sqrt(8).
  double square = 0;
  for (int block = 0; block < 8; ++block) {
    for (int row = 0; row <= block; ++row) rows[static_cast<std::size_t>(16 * block + row)] = 1;
    square += std::pow((block + 1) / 16.0 - 4.5 / 16, 2);
  }
  const double share = 4.5 / 16;
  const auto [low, high] = wilson_of(share, share * (1 - share) / (square / (8 * 7)), z);
  const Interval got = rows_share(rows);
  expect_interval(got, share, low, high, "8 blocks of one text");
  EXPECT_EQ(got.n, 8);
  EXPECT_EQ(got.unit, "blocks");
  // The one row that has it is in no block.
  std::vector<double> last(66, 0.0);
  last.back() = 1;
  const auto [below, above] = wilson_of(1.0 / 66, 8, z);
  expect_interval(rows_share(last), 1.0 / 66, below, above, "8 blocks of one text");
  expect_none(rows_share(std::vector<double>(63, 0.0)));
  expect_none(rows_share(std::vector<double>(80, std::nan(""))));
  // Pairs of blocks likewise.
  Clusters pairs;
  for (int block = 0; block < 8; ++block) pairs.values.push_back({-1.0 - block, 2.0 + block});
  const Interval positive = shape_intervals(pairs, {true, 128}, draws()).share_positive;
  const auto [least, most] = wilson_of(0.5, 8, z);
  expect_interval(positive, 0.5, least, most, "8 blocks of one text");
}

TEST(Intervals, InsideTheRangeTheyStayAsTheyAre) {
  const Interval got = mean_interval(std::vector<double>{.4, .5, .6, .45}, draws());
  for (const ValueRange& range : {kShare, kFromZero, ValueRange{}}) {
    const Interval same = bounded(range, got);
    EXPECT_EQ(same.low, got.low);
    EXPECT_EQ(same.high, got.high);
    EXPECT_EQ(same.method, got.method);
  }
  expect_none(bounded(kShare, mean_interval(std::vector<double>{.5}, draws())));
  EXPECT_EQ(bounded(kShare, mean_interval(std::vector<double>{1, 1}, draws())).method, "constant");
}

// Student's t of these four is [-.038, .348]; the numbers are the formula's by other code.
TEST(Intervals, OfAShareThatLeavesItsRangeIsThatOfTheLogit) {
  const Interval got =
      bounded(kShare, mean_interval(std::vector<double>{.1, .2, .02, .3}, draws()));
  expect_interval(got, .155, .04022372873799666, .44532453093094027, "Student t (logit)");
  EXPECT_EQ(got.n, 4);
  // Beyond 1 likewise, and in a range of another place and width.
  const Interval other =
      bounded(kShare, mean_interval(std::vector<double>{.9, .8, .98, .7}, draws()));
  expect_interval(other, .845, 1 - .44532453093094027, 1 - .04022372873799666, "Student t (logit)");
  const Interval wide =
      bounded(kDifference, mean_interval(std::vector<double>{.9, .99, .8}, draws()));
  expect_interval(wide, .8966666666666668, .24517830183776113, .9902547118732175,
                  "Student t (logit)");
  // The blocks of one text keep their unit.
  std::vector<double> rows(64, 0.0);
  for (int row = 0; row < 8; ++row) rows[static_cast<std::size_t>(row)] = 1;
  const Interval blocks = bounded(kShare, rows_interval(rows));
  EXPECT_EQ(words_of(blocks), "8 blocks of one text (logit)");
}

// A sink rate of 0 in one text and of 15/16 in the other: t of 1 degree is 12.7.
TEST(Intervals, BeyondBothEndsNothingIsKnown) {
  const Interval got = bounded(kShare, mean_interval(std::vector<double>{0, .9375}, draws()));
  expect_interval(got, .46875, 0, 1, "too few to tell");
  EXPECT_EQ(words_of(got), "too few to tell, n = 2 texts");
}

TEST(Intervals, WithOneEndTheyAreCutThere) {
  const Interval whole = mean_interval(std::vector<double>{1, 5}, draws());
  ASSERT_LT(*whole.low, 0);
  const Interval got = bounded(kFromZero, whole);
  expect_interval(got, 3, 0, *whole.high, "Student t");
}

// Of numbers that are all at an end, but for rounding.
TEST(Intervals, AMeanAtAnEndStaysWithinItsInterval) {
  const Interval got = bounded(kShare, {1 + 2e-16, 1 - 1e-15, 1 + 2e-15, 3, "Student t"});
  EXPECT_LE(*got.low, got.mean);
  EXPECT_GE(*got.high, got.mean);
}

// Of rows of float32 weights that sum to 1, and of differences that are 0: made for the logit, the
// first would reach down to 0 and the second up to 1.
TEST(Intervals, RoundingAtAnEndIsNoSpread) {
  const Interval whole = mean_interval(std::vector<double>{1 + 1e-7, 1 - 1.2e-7}, draws());
  const Interval rows = bounded(kShare, whole);
  expect_interval(rows, whole.mean, *whole.low, 1, "Student t");
  EXPECT_GT(*rows.low, 1 - 2e-6);
  const Interval none =
      bounded(kShare, mean_interval(std::vector<double>{-1e-17, 1.2e-17}, draws()));
  EXPECT_EQ(none.low, protocol::IntervalEnd(0));
  EXPECT_LT(*none.high, 1e-15);
  // A mean beyond an end stays in its interval, of which no more is beyond.
  const Interval beyond = bounded(kShare, mean_interval(std::vector<double>{1 + 1e-7, 1}, draws()));
  EXPECT_EQ(*beyond.high, beyond.mean);
  // More than rounding.
  const Interval share = bounded(kShare, mean_interval(std::vector<double>{1, 1 - 1e-4}, draws()));
  EXPECT_EQ(share.method, "Student t (logit)");
}

TEST(Intervals, OtherUnitsOfTheValueMoveTheEnds) {
  const Interval got =
      transformed(ratio_interval(kParts, draws()), [](double x) { return std::exp(x); });
  EXPECT_DOUBLE_EQ(got.mean, std::exp(1.077777777777778));
  EXPECT_NEAR(*got.low, std::exp(0.48636667937500533), 1e-9);
  expect_none(
      transformed(mean_interval(std::vector<double>{1}, draws()), [](double x) { return 2 * x; }));
}

}  // namespace
}  // namespace phasescope::analysis
