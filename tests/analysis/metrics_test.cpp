// Statistics of maps whose answers are known by construction.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "analysis/metrics/registry.h"
#include "analysis/metrics/repeated.h"
#include "formats/error.h"
#include "map_reading.h"

namespace phasescope::analysis {
namespace {

using testing::reading_of_map;
using Weight = std::function<double(std::int64_t q, std::int64_t k)>;

std::vector<double> map_of(std::int64_t tokens, const Weight& weight) {
  std::vector<double> map(static_cast<std::size_t>(tokens * tokens));
  for (std::int64_t q = 0; q < tokens; ++q) {
    for (std::int64_t k = 0; k <= q; ++k) {
      map[static_cast<std::size_t>(q * tokens + k)] = weight(q, k);
    }
  }
  return map;
}

std::vector<double> sink_map(std::int64_t tokens) {
  return map_of(tokens, [](auto, auto k) { return k == 0 ? 1.0 : 0.0; });
}
std::vector<double> uniform_map(std::int64_t tokens) {
  return map_of(tokens, [](auto q, auto) { return 1.0 / static_cast<double>(q + 1); });
}
// All weight `back` tokens ago; on itself where that is before the text.
std::vector<double> diagonal_map(std::int64_t tokens, std::int64_t back) {
  return map_of(tokens,
                [back](auto q, auto k) { return k == (q >= back ? q - back : q) ? 1.0 : 0.0; });
}

double value_of(const std::string& key, const MetricInput& input) {
  return select_metrics({key}).at(0).value(input);
}
double text_value(const std::string& key, const std::vector<double>& map, std::int64_t tokens) {
  const HeadReading reading = reading_of_map(map, tokens);
  return value_of(key, {&reading, nullptr, 0});
}
double repeated_value(const std::string& key, const std::vector<double>& map, std::int64_t period) {
  const HeadReading reading = reading_of_map(map, 2 * period);
  return value_of(key, {nullptr, &reading, period});
}

TEST(Metrics, UniformRows) {
  const std::int64_t n = 300;
  const auto map = uniform_map(n);
  double entropy = 0, harmonic = 0, distance = 0, window = 0, without_first = 0, rest = 0;
  for (std::int64_t q = 0; q < n; ++q) {
    const double keys = static_cast<double>(q + 1);
    entropy += std::log(keys) / static_cast<double>(n - 1);
    harmonic += 1 / keys / static_cast<double>(n);
    distance += static_cast<double>(q) / 2 / static_cast<double>(n);
    window += std::min(1.0, 64 / keys) / static_cast<double>(n);
    without_first += static_cast<double>(q * (q - 1)) / 2 / keys;
    rest += static_cast<double>(q) / keys;
  }
  EXPECT_NEAR(text_value("entropy", map, n), entropy, 1e-5);
  EXPECT_NEAR(text_value("entropy_normalised", map, n), 1, 1e-6);
  EXPECT_NEAR(text_value("sink", map, n), harmonic, 1e-6);
  EXPECT_NEAR(text_value("top1_mass", map, n), harmonic, 1e-6);
  EXPECT_NEAR(text_value("mean_distance", map, n), distance, 1e-4);
  EXPECT_NEAR(text_value("mean_distance_without_first", map, n), without_first / rest, 1e-4);
  EXPECT_NEAR(text_value("window_mass_64", map, n), window, 1e-6);
  EXPECT_NEAR(text_value("effective_keys", map, n), static_cast<double>(n + 1) / 2, 1e-3);
}

// Row q beside a learned sink of weight s: where its keys share the rest evenly, its entropy is
// (1 - s) (ln(q + 1) - ln(1 - s)), which of two keys alone is more than ln 2, at most 2/e.
TEST(Metrics, EntropyBesideALearnedSinkStaysAShare) {
  const auto value = [](std::int64_t tokens, double sink) {
    const auto map =
        map_of(tokens, [&](auto q, auto) { return (1 - sink) / static_cast<double>(q + 1); });
    HeadReading reading = reading_of_map(map, tokens);
    reading.sink_weight.assign(static_cast<std::size_t>(tokens), sink);
    return value_of("entropy_normalised", {&reading, nullptr, 0});
  };
  EXPECT_NEAR(value(2, 1 - 2 / std::numbers::e), 1, 1e-12);  // 1.06 of ln 2
  EXPECT_NEAR(value(2, 0), std::numbers::ln2 * std::numbers::e / 2, 1e-12);
  const double kept = 0.9, expected = (kept * std::log(2 / kept) * std::numbers::e / 2 +
                                       kept * std::log(3 / kept) / std::log(3)) /
                                      2;
  EXPECT_NEAR(value(3, 1 - kept), expected, 1e-12);
  for (int n = 0; n < 100; ++n) EXPECT_LE(value(2, 0.01 * n), 1) << n;
}

TEST(Metrics, PureSink) {
  const auto map = sink_map(40);
  EXPECT_EQ(text_value("sink", map, 40), 1);
  EXPECT_EQ(text_value("entropy", map, 40), 0);
  EXPECT_EQ(text_value("top1_mass", map, 40), 1);
  EXPECT_EQ(text_value("effective_keys", map, 40), 1);
  EXPECT_NEAR(text_value("mean_distance", map, 40), 39.0 / 2, 1e-6);
  EXPECT_TRUE(std::isnan(text_value("mean_distance_without_first", map, 40)));
  // What float32 leaves beside the sink is rounding, whose mean distance means nothing.
  auto rounded = map;
  for (std::size_t q = 1; q < 40; ++q) {
    rounded[q * 40] = 1 - 0x1p-23;
    rounded[q * 40 + 1] = 0x1p-23;
  }
  EXPECT_TRUE(std::isnan(text_value("mean_distance_without_first", rounded, 40)));
  EXPECT_NEAR(text_value("previous_token", map, 40), 1.0 / 39, 1e-7);  // row 1 alone
  // 16 of 40 rows see key 0 among their last 16 keys.
  EXPECT_NEAR(text_value("window_mass_16", map, 40), 16.0 / 40, 1e-6);
}

TEST(Metrics, PreviousToken) {
  const auto map = diagonal_map(50, 1);
  EXPECT_EQ(text_value("previous_token", map, 50), 1);
  EXPECT_NEAR(text_value("mean_distance", map, 50), 49.0 / 50, 1e-6);
  EXPECT_NEAR(text_value("sink", map, 50), 2.0 / 50, 1e-7);  // rows 0 and 1
  EXPECT_EQ(text_value("window_mass_16", map, 50), 1);
}

TEST(Metrics, InductionUsesTheExactIndexSet) {
  const std::int64_t period = 12;
  EXPECT_EQ(repeated_value("induction", diagonal_map(2 * period, period - 1), period), 1);
  EXPECT_EQ(repeated_value("duplicate_token", diagonal_map(2 * period, period), period), 1);
  // A matrix diagonal holds the pair (S-1, 0) too and would give 1/(S+1).
  EXPECT_EQ(repeated_value("induction", sink_map(2 * period), period), 0);
  // Row S alone has key 0 at distance S.
  EXPECT_NEAR(repeated_value("duplicate_token", sink_map(2 * period), period), 1.0 / 12, 1e-7);
}

TEST(Metrics, RepeatedTokensRepeat) {
  const auto ids = repeated_tokens(30, 0, 256, 9);
  ASSERT_EQ(ids.size(), 60u);
  for (std::size_t n = 0; n < 30; ++n) {
    EXPECT_EQ(ids[n], ids[n + 30]);
    EXPECT_GE(ids[n], 1);
    EXPECT_LT(ids[n], 256);
  }
  EXPECT_EQ(ids, repeated_tokens(30, 0, 256, 9));
  EXPECT_NE(ids, repeated_tokens(30, 0, 256, 10));
}

TEST(Metrics, ProfileCountsFallWithDistance) {
  const HeadReading reading = reading_of_map(uniform_map(20), 20);
  ASSERT_EQ(reading.by_distance.size(), 20u);
  double sum = 0;
  for (std::size_t d = 0; d < 20; ++d) {
    EXPECT_EQ(reading.by_distance.pairs[d], static_cast<std::int64_t>(20 - d));
    sum += reading.by_distance.weight[d];
  }
  EXPECT_NEAR(sum, 20, 1e-5);  // every row sums to 1
}

TEST(Metrics, RowsInBlocksGiveTheSame) {
  const std::int64_t n = 37;
  const auto map = uniform_map(n);
  HeadReading blocks(n, distance_edges(n));
  const std::span<const double> all(map);
  add_rows(blocks, 0, all.first(10 * n));
  add_rows(blocks, 10, all.subspan(10 * n));
  const HeadReading whole = reading_of_map(map, n);
  EXPECT_EQ(blocks.entropy, whole.entropy);
  EXPECT_EQ(blocks.by_distance.weight, whole.by_distance.weight);
}

TEST(Metrics, EdgesCoverEveryDistanceOnce) {
  for (const std::int64_t tokens : {1, 2, 100, 2048, 2049, 40000}) {
    const auto edges = distance_edges(tokens);
    EXPECT_EQ(edges.front(), 0);
    EXPECT_EQ(edges.back(), tokens);
    for (std::size_t b = 1; b < edges.size(); ++b) EXPECT_GT(edges[b], edges[b - 1]);
  }
}

TEST(Metrics, RegistryHasDistinctDescribedKeys) {
  std::vector<std::string> keys;
  for (const HeadMetric& metric : head_metrics()) {
    EXPECT_FALSE(metric.info.title.empty());
    EXPECT_FALSE(metric.info.formula.empty());
    EXPECT_EQ(std::ranges::count(keys, metric.info.key), 0);
    keys.push_back(metric.info.key);
  }
  EXPECT_EQ(select_metrics({}).size(), head_metrics().size());
  EXPECT_EQ(select_metrics({"window_mass"}).size(), 3u);
  EXPECT_EQ(select_metrics({"entropy"}).size(), 1u);
  EXPECT_EQ(select_metrics({"entropy", "entropy", "window_mass"}).size(), 4u);  // each once
  EXPECT_THROW(select_metrics({"no_such"}), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
