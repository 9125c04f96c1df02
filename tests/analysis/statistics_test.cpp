#include "analysis/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "analysis/near_far.h"
#include "analysis/random.h"
#include "formats/error.h"
#include "formats/json.h"

namespace phasescope::analysis {
namespace {

formats::Json golden(const std::string& name) {
  return formats::json_from_file(std::string(PHASESCOPE_TEST_DATA) + "/theory/" + name);
}

// near - far of tapa_histogram.json, one list a text.
Clusters golden_deltas(const formats::Json& file) {
  Clusters deltas;
  for (std::size_t t = 0; t < file["near"].size(); ++t) {
    std::vector<double>& list = deltas.values.emplace_back();
    for (std::size_t n = 0; n < file["near"][t].size(); ++n) {
      list.push_back(file["near"][t][n].get<double>() - file["far"][t][n].get<double>());
    }
  }
  return deltas;
}

TEST(NearFar, EqualsTheReferenceHistogram) {
  const formats::Json file = golden("tapa_histogram.json");
  const NearFar got = near_far_of({}, golden_deltas(file), {}, Draws());
  const double close = 1e-12;  // the reference is float64
  EXPECT_NEAR(got.mean, file["mean"].get<double>(), close);
  EXPECT_NEAR(got.sigma, file["sigma"].get<double>(), close);
  EXPECT_NEAR(got.skewness, file["skewness"].get<double>(), close);
  EXPECT_NEAR(got.share_positive, file["share_positive"].get<double>(), close);
  // The reference's Student quantile is off by 9e-12 (scipy's), ours is not.
  EXPECT_NEAR(*got.intervals.mean.low, file["interval_by_text"][0].get<double>(), 1e-11);
  EXPECT_NEAR(*got.intervals.mean.high, file["interval_by_text"][1].get<double>(), 1e-11);
  EXPECT_EQ(got.texts, 12);
  EXPECT_EQ(got.pairs, 480);
  std::int64_t counted = 0;
  for (const std::int64_t count : got.counts) counted += count;
  EXPECT_EQ(counted, got.pairs);
}

TEST(Statistics, MomentsOfASmallSample) {
  const std::vector<double> values{-1, 0, 4};
  const Moments m = moments_of(values);
  EXPECT_DOUBLE_EQ(m.mean, 1);
  EXPECT_DOUBLE_EQ(m.sigma, std::sqrt((4.0 + 1 + 9) / 3));
  EXPECT_NEAR(m.skewness, (-8.0 - 1 + 27) / 3 / std::pow(m.sigma, 3), 1e-12);
  EXPECT_DOUBLE_EQ(m.share_positive, 1.0 / 3);
  EXPECT_EQ(moments_of(std::vector<double>{2, 2}).skewness, 0);
  EXPECT_TRUE(std::isnan(moments_of({}).mean));
  const Moments alone = moments_of(std::vector<double>{3});
  EXPECT_EQ(alone.mean, 3);
  EXPECT_EQ(alone.share_positive, 1);
  EXPECT_TRUE(std::isnan(alone.sigma) && std::isnan(alone.skewness));
  // One value that is no number: neither a shape nor a share of the others is known.
  const Moments unknown = moments_of(std::vector<double>{1, -1, std::nan("")});
  EXPECT_TRUE(std::isnan(unknown.skewness));
  EXPECT_TRUE(std::isnan(unknown.share_positive));
  // Ten times 0.1 sum to less than 1, but equal values have no spread and no shape.
  const Moments equal = moments_of(std::vector<double>(10, 0.1));
  EXPECT_EQ(equal.mean, 0.1);
  EXPECT_EQ(equal.sigma, 0);
  EXPECT_EQ(equal.skewness, 0);
}

TEST(Statistics, HistogramOfEdgeCases) {
  const Histogram equal = histogram_of(std::vector<double>{3, 3, 3}, 4);
  EXPECT_EQ(equal.counts, (std::vector<std::int64_t>{0, 0, 3, 0}));
  EXPECT_EQ(equal.edges.front(), 2.5);
  EXPECT_TRUE(histogram_of({}).counts.empty());
  EXPECT_TRUE(histogram_of(std::vector<double>{1, std::nan("")}).counts.empty());
  const Histogram two = histogram_of(std::vector<double>{0, 1, 2}, 2);
  EXPECT_EQ(two.counts, (std::vector<std::int64_t>{1, 2}));
}

TEST(Statistics, DivergenceOfRows) {
  const std::vector<double> a{1, 0, 0}, b{0, 0.5, 0.5}, c{0.5, 0.5, 0};
  EXPECT_EQ(js_divergence(a, a), 0);
  EXPECT_NEAR(js_divergence(a, b), std::numbers::ln2, 1e-7);
  // (1, 0) and (1/2, 1/2): (ln(4/3) + (ln(2/3) + ln 2) / 2) / 2.
  const double expected = (std::log(4.0 / 3) + (std::log(2.0 / 3) + std::log(2.0)) / 2) / 2;
  EXPECT_NEAR(js_divergence(a, c), expected, 1e-7);
}

TEST(Statistics, LineThroughPoints) {
  const Line line = fit_line(std::vector<double>{0, 1, 2, 3}, std::vector<double>{1, 3, 5, 7});
  EXPECT_DOUBLE_EQ(line.slope, 2);
  EXPECT_DOUBLE_EQ(line.intercept, 1);
  EXPECT_NEAR(line.slope_error, 0, 1e-12);
}

TEST(NearFar, SamplesLieInTheirIntervals) {
  const NearFarSpec spec = default_near_far(256);
  EXPECT_EQ(spec.near_begin, 1);
  EXPECT_EQ(spec.near_end, 16);
  EXPECT_EQ(spec.far_begin, 240);
  EXPECT_EQ(spec.far_end, 256);
  NearFarSpec without_first = spec;
  without_first.first_key = 1;
  Random random(3);
  for (const PairSample& sample : draw_pairs(without_first, 256, 2000, random)) {
    EXPECT_GE(sample.far_key, 1);
    EXPECT_LT(sample.query, 256);
    EXPECT_GE(sample.query - sample.far_key, 240);
    EXPECT_GE(sample.query - sample.near_key, 1);
    EXPECT_LT(sample.query - sample.near_key, 16);
    // Queries 241 .. 255: 8 blocks of one, and seven left over.
    const std::int64_t block = block_of_query(without_first, 256, sample.query);
    EXPECT_EQ(block, sample.query < 249 ? sample.query - 241 : -1);
  }
  EXPECT_TRUE(draw_pairs(spec, 200, 10, random).empty());
}

TEST(NearFar, KeysOnBothSidesAreDrawn) {
  NearFarSpec spec = default_near_far(64, 1);
  spec.both_sides = true;
  spec.far_begin = 50;
  Random random(4);
  std::int64_t far_before = 0, crossing = 0;
  const auto samples = draw_pairs(spec, 64, 4000, random);
  ASSERT_EQ(samples.size(), 4000u);
  for (const PairSample& sample : samples) {
    for (const std::int64_t key : {sample.near_key, sample.far_key}) {
      EXPECT_GE(key, 1);
      EXPECT_LT(key, 64);
    }
    EXPECT_GE(std::abs(sample.query - sample.far_key), 50);
    EXPECT_GE(std::abs(sample.query - sample.near_key), 1);
    EXPECT_LT(std::abs(sample.query - sample.near_key), 4);
    const bool before = sample.far_key < sample.query;
    far_before += before;
    crossing += before != (sample.near_key < sample.query);
    EXPECT_EQ(block_of_query(spec, 64, sample.query), sample.query / 8);
  }
  // At far distance d there are 63 - d queries with such a key before them and 64 - d with one
  // after; of each side 63 - d - n have room for a near key at n on the other one, which half of
  // them take.
  double before = 0, other_side = 0;
  for (int d = 50; d < 63; ++d) {
    before += (63 - d) / (127.0 - 2 * d) / 13;
    for (int n = 1; n < 4; ++n) {
      other_side += std::max(0, 63 - d - n) / (127.0 - 2 * d) / (13 * 3);
    }
  }
  // Four standard deviations of a share of 4000 draws.
  EXPECT_NEAR(static_cast<double>(far_before) / 4000, before, 0.032);
  EXPECT_NEAR(static_cast<double>(crossing) / 4000, other_side, 0.032);
}

TEST(NearFar, ShortTextsHaveAFarInterval) {
  for (const std::int64_t tokens : {4, 8, 16, 17, 40}) {
    EXPECT_NO_THROW(check_near_far(default_near_far(tokens, 1), tokens)) << tokens;
  }
}

TEST(NearFar, NamesTheShortestText) {
  for (const std::int64_t first_key : {0, 1}) {
    const std::int64_t shortest = shortest_for_near_far(first_key);
    EXPECT_NO_THROW(check_near_far(default_near_far(shortest, first_key), shortest));
    for (std::int64_t tokens = 1; tokens < shortest; ++tokens) {
      try {
        check_near_far(default_near_far(tokens, first_key), tokens);
        FAIL() << tokens << " tokens were enough";
      } catch (const formats::Error& error) {
        EXPECT_EQ(error.message(), "near and far keys need a text of at least " +
                                       std::to_string(shortest) + " tokens, the longest here has " +
                                       std::to_string(tokens));
      }
    }
  }
}

TEST(NearFar, RefusesIntervalsThatDoNotFit) {
  NearFarSpec spec = default_near_far(256);
  EXPECT_NO_THROW(check_near_far(spec, 256));
  EXPECT_THROW(check_near_far(spec, 128), formats::Error);
  spec.far_begin = 4;
  EXPECT_THROW(check_near_far(spec, 256), formats::Error);
  spec = default_near_far(256);
  spec.near_end = spec.near_begin;
  EXPECT_THROW(check_near_far(spec, 256), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
