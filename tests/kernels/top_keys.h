#pragma once
// The keys of a row's largest weights, held against the reference's rows sorted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {

/// What the probe found of every row: (B, heads, queries, count).
struct TopKeys {
  std::int64_t count;
  std::vector<std::int32_t> key;
  std::vector<float> weight;
};

/// One row of `keys` keys, with the reference's scores and weights.
inline void expect_top_row(const TopKeys& top, std::size_t row, const double* score,
                           const double* weight, std::int64_t keys, double tolerance) {
  std::vector<std::int64_t> order;
  for (std::int64_t j = 0; j < keys; ++j) {
    if (!std::isinf(score[j])) order.push_back(j);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
  std::set<std::int32_t> seen;
  for (std::int64_t n = 0; n < top.count; ++n) {
    const std::size_t at = row * static_cast<std::size_t>(top.count) + static_cast<std::size_t>(n);
    const std::int32_t key = top.key[at];
    if (n >= static_cast<std::int64_t>(order.size())) {
      EXPECT_EQ(key, -1) << "rank " << n;
      EXPECT_EQ(top.weight[at], 0) << "rank " << n;
      continue;
    }
    ASSERT_TRUE(key >= 0 && key < keys && seen.insert(key).second) << "rank " << n;
    // Another key than the reference's only where float32 scores tie, nearly.
    const std::int64_t wanted = order[static_cast<std::size_t>(n)];
    ASSERT_NEAR(score[key], score[wanted], tolerance * (1 + std::abs(score[wanted])));
    // A weight carries its score's error as a relative one.
    ASSERT_NEAR(top.weight[at], weight[key], 2 * tolerance * (1 + std::abs(score[wanted])));
  }
}

inline void expect_top_keys(const TopKeys& top, const Reference<double>& truth, double tolerance) {
  for (std::size_t row = 0; row < truth.lse.size(); ++row) {
    const auto at = static_cast<std::ptrdiff_t>(row) * truth.s.keys;
    expect_top_row(top, row, truth.score.data() + at, truth.weight.data() + at, truth.s.keys,
                   tolerance);
  }
}

}  // namespace phasescope::kernels::testing
