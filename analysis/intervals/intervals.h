#pragma once
// Intervals: one rule for every number shown, 95 % each. The units are independent of each other
// (texts, seeds); rows, pairs and heads inside of a unit are averaged first. Differences of models
// or treatments are made unit by unit, and then are values like any others (weights equal on both
// sides). Simulated coverage: docs/equations.md, "Intervals", and tests/analysis/coverage_test.cpp.
//
// Where there is no interval (one unit, too few rows, a value that is not finite) both ends are
// none and the method is "none"; a value whose units are all equal has width 0 and the method
// "constant". `unit` of the answer is "texts" unless the function says otherwise. What cannot have
// every value is given to bounded() with its range.
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "analysis/intervals/draws.h"
#include "analysis/statistics.h"
#include "protocol/messages/provenance.h"

namespace phasescope::analysis {

using protocol::Interval;

// The words of Interval::method.
namespace method {
inline constexpr const char* kNone = "none";
inline constexpr const char* kConstant = "constant";
inline constexpr const char* kStudentT = "Student t";
inline constexpr const char* kBootstrapT = "bootstrap-t";
inline constexpr const char* kJackknifeT = "jackknife t";
inline constexpr const char* kRatioBootstrapT = "bootstrap-t of the ratio";
inline constexpr const char* kWilson = "Wilson";
inline constexpr const char* kOrderStatistics = "order statistics";
inline constexpr const char* kSharesReadBack = "t of the shares below";
inline constexpr const char* kBlocks = "8 blocks of one text";
inline constexpr const char* kTooFew = "too few to tell";
inline constexpr const char* kOfTheLogit = " (logit)";  // behind the rule's word
}  // namespace method

// Below it a bootstrap-t is much wider than Student's t, from it on it covers skewed values better.
inline constexpr std::size_t kBootstrapFrom = 30;
inline constexpr std::int64_t kBlocks = 8;       // of one text
inline constexpr std::int64_t kFewestRows = 64;  // of a text that blocks are made of
inline constexpr std::size_t kFewestForMedian = 6;

// A unit's part in a weighted mean: the sum over its samples, and how many they are.
struct Part {
  double sum = 0, weight = 0;
};

// Mean of one value a unit: Student t with n - 1 degrees below 30 units, bootstrap-t from there.
Interval mean_interval(std::span<const double> values, const Draws& draws);

// sum of sums / sum of weights: jackknife over units and Student t below 30 units, bootstrap-t of
// the ratio from there. Units without weight are left out.
Interval ratio_interval(std::span<const Part> parts, const Draws& draws);

// The same of a share, `sum` of `weight` samples having a property: Wilson's interval with the
// number of independent samples that the standard error of the ratio speaks of.
Interval share_interval(std::span<const Part> parts, const Draws& draws);

// The same of a share that is no ratio of sums: `without[t]` is the share of all units but t, from
// which its standard error follows.
Interval share_interval(double share, std::span<const double> without);

// sum of differences / sum of other differences (a returned share), by the jackknife; none where
// the interval of the denominator holds 0.
Interval ratio_of_differences(std::span<const Part> parts, const Draws& draws);

// Median of one value a unit, from order statistics: the narrowest pair of which at most 2.5 % of
// samples have the median beyond each. None below 6 units.
Interval median_interval(std::span<const double> values);

// Quantile p of the samples of all units taken together: the share of each unit's samples below it
// has a Student-t interval, which the pooled quantiles read back. An end outside of them is open.
Interval pooled_quantile_interval(const Clusters& samples, double p);

// Sums over kBlocks blocks of consecutive rows of equal length, each with its number of rows; those
// left over are in none.
std::vector<Part> blocks_of(std::span<const double> rows);
// One text: the mean of its rows, and Student t with 7 degrees over 8 blocks of consecutive rows of
// equal length, about that mean. It speaks of this text alone. `unit` is "blocks", n is 8.
Interval rows_interval(std::span<const double> rows);
// The same where blocks have parts in a weighted mean of which `value` is the whole; `rows` is how
// many rows the blocks are made of.
Interval blocks_interval(double value, std::span<const Part> blocks, std::int64_t rows);
// rows_interval() of rows that are 1 or 0: Wilson's interval, as share_interval() of the blocks.
// Blocks of one share are worth as many samples as they are, so that a share of one text is never
// without width.
Interval rows_share(std::span<const double> rows);

// Whether the clusters of samples are texts, or the 8 blocks of one text of `rows` rows.
struct Sampled {
  bool blocks = false;
  std::int64_t rows = 0;
};
// Moments of the samples of all units together, with n units each.
struct ShapeIntervals {
  Interval mean, sigma, skewness, share_positive;
};
// The mean as ratio_interval, sigma and skewness (functions of sums over units as it is) likewise,
// but the latter from 30 units on alone; the share as share_interval.
ShapeIntervals shape_intervals(const Clusters& samples, const Sampled& sampled, const Draws& draws);

// The values that a quantity can have.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
inline constexpr ValueRange kFromZero{.low = 0};                // losses, distances, norms
inline constexpr ValueRange kFromOne{.low = 1};                 // numbers of keys, perplexities
inline constexpr ValueRange kShare{0, 1};                       // weights, and shares of something
inline constexpr ValueRange kDifference{-1, 1};                 // of two such
inline constexpr ValueRange kDivergence{0, std::numbers::ln2};  // Jensen-Shannon, in nats

// The interval of a quantity that has values of `range` alone; one that stays inside is left as it
// is. Of one that leaves a range of a single end what lies beyond is cut off: the truth was never
// there, so it covers what it covered. One that leaves a range [a, b] on one side is made anew for
// logit((x - a) / (b - a)), with the errors that the value's have there to first order
// (the derivative 1 / (u (1 - u))), which covers the truth more often than what would be left of
// the old one; but where the value is within a millionth of the range of one of its ends, so that
// rounding may be all its spread, it is cut too. One that leaves it on both sides says nothing of
// the quantity: the range itself, with the method "too few to tell".
Interval bounded(const ValueRange& range, Interval interval);

// An interval of f(value), f growing: perplexity of a loss, another unit.
template <class F>
Interval transformed(Interval interval, F f) {
  interval.mean = f(interval.mean);
  if (interval.low) interval.low = f(*interval.low);
  if (interval.high) interval.high = f(*interval.high);
  return interval;
}

// Counts of `n` of something else than texts.
inline Interval counted_in(const char* unit, Interval interval) {
  interval.unit = unit;
  return interval;
}

}  // namespace phasescope::analysis
