#include "tests/kernels/device_probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/bucket_truth.h"

namespace phasescope::kernels::testing {
namespace {

/// What the probes of one row should be, from its true scores and weights.
struct TrueRow {
  double entropy = 0, score = -std::numeric_limits<double>::infinity(), top1 = 0, first = 0,
         distance = 0, windows[kMaxWindows] = {};

  TrueRow(const Reference<double>& truth, std::int64_t row, const RowProbes& rows) {
    const AttentionShape& s = truth.s;
    for (std::int64_t j = 0; j < s.keys; ++j) {
      const double p = truth.weight[static_cast<std::size_t>(row * s.keys + j)];
      const std::int64_t lambda = truth.distance(row % s.queries, j);
      if (p > 0) entropy -= p * std::log(p);
      score = std::max(score, truth.score[static_cast<std::size_t>(row * s.keys + j)]);
      top1 = std::max(top1, p);
      if (j == 0) first = p;
      distance += p * static_cast<double>(lambda);
      for (std::size_t n = 0; n < kMaxWindows; ++n) {
        if (std::abs(lambda) < rows.windows[n]) windows[n] += p;
      }
    }
  }
};

}  // namespace

DeviceProbes::DeviceProbes(const CudaAttention& attention, std::int64_t top_count)
    : heads_(static_cast<std::size_t>(attention.shape.batch * attention.shape.heads)),
      rows_(heads_ * static_cast<std::size_t>(attention.shape.queries)),
      top_count_(top_count),
      entropy_(rows_),
      score_(rows_),
      top1_(rows_),
      first_(rows_),
      distance_(rows_),
      sink_(rows_),
      top_weight_(rows_ * static_cast<std::size_t>(top_count)),
      key_(rows_),
      top_key_(rows_ * static_cast<std::size_t>(top_count)),
      bucket_pairs_(heads_ * kBuckets),
      bucket_weight_(heads_ * kBuckets),
      bucket_score_(heads_ * kBuckets),
      bucket_square_(heads_ * kBuckets),
      bucket_content_(heads_ * kBuckets),
      bucket_content_square_(heads_ * kBuckets),
      bucket_term_(heads_ * kBuckets),
      bucket_term_square_(heads_ * kBuckets),
      workspace_(cuda_bucket_workspace(attention, bucket_probes())) {
  for (int n = 0; n < kMaxWindows; ++n) windows_.emplace_back(rows_);
}

void DeviceProbes::put(CudaForwardOutputs& outputs) const {
  outputs.rows = row_probes();
  outputs.buckets = bucket_probes();
  outputs.workspace = workspace_.data();
}

void DeviceProbes::expect_right(const Problem& problem, const Reference<double>& truth) const {
  // Float32 arithmetic on rows of at most some hundred keys; TAPA's phases of hundreds of radians
  // carry their rounding as an absolute error into the cosine.
  const double bound = has_phase(problem.kind) ? 2e-3 : 1e-4;
  expect_rows(bound, truth);
  expect_buckets(bound, truth);
  expect_top_keys(top_keys(), truth, bound);
}

TopKeys DeviceProbes::top_keys() const {
  return {top_count_, top_key_.values(), top_weight_.values()};
}

std::vector<char> DeviceProbes::bytes() const {
  std::vector<char> all;
  const auto add = [&](const auto& array) {
    const auto values = array.values();
    const auto* first = reinterpret_cast<const char*>(values.data());
    all.insert(all.end(), first, first + values.size() * sizeof(values[0]));
  };
  for (const auto* array :
       {&entropy_, &score_, &top1_, &first_, &distance_, &sink_, &top_weight_}) {
    add(*array);
  }
  for (const auto& window : windows_) add(window);
  for (const auto* array : {&key_, &top_key_}) add(*array);
  add(bucket_pairs_);
  for (const auto* array : {&bucket_weight_, &bucket_score_, &bucket_square_, &bucket_content_,
                            &bucket_content_square_, &bucket_term_, &bucket_term_square_}) {
    add(*array);
  }
  return all;
}

RowProbes DeviceProbes::row_probes() const {
  RowProbes rows{entropy_.data(), score_.data(),    key_.data(), top1_.data(),
                 first_.data(),   distance_.data(), sink_.data()};
  rows.windows = {3, 16, 100};
  for (std::size_t n = 0; n < kMaxWindows; ++n) rows.window_mass[n] = windows_[n].data();
  rows.top_count = top_count_;
  rows.top_key = top_key_.data();
  rows.top_weight = top_weight_.data();
  return rows;
}

BucketProbes DeviceProbes::bucket_probes() const {
  return {.edges = edges_.data(),
          .count = static_cast<std::int64_t>(kBuckets),
          .pairs = bucket_pairs_.data(),
          .weight = bucket_weight_.data(),
          .score = bucket_score_.data(),
          .score_square = bucket_square_.data(),
          .content = bucket_content_.data(),
          .content_square = bucket_content_square_.data(),
          .term = bucket_term_.data(),
          .term_square = bucket_term_square_.data()};
}

void DeviceProbes::expect_rows(double bound, const Reference<double>& truth) const {
  const RowProbes rows = row_probes();
  const auto entropy = entropy_.values(), score = score_.values(), top1 = top1_.values(),
             first = first_.values(), distance = distance_.values(), sink = sink_.values();
  const auto key = key_.values();
  std::vector<std::vector<float>> windows;
  for (const DeviceArray<float>& window : windows_) windows.push_back(window.values());
  for (std::size_t r = 0; r < rows_; ++r) {
    const TrueRow expected(truth, static_cast<std::int64_t>(r), rows);
    EXPECT_NEAR(entropy[r], expected.entropy, bound);
    EXPECT_NEAR(top1[r], expected.top1, bound);
    EXPECT_NEAR(first[r], expected.first, bound);
    EXPECT_NEAR(sink[r], truth.sink_weight.empty() ? 0 : truth.sink_weight[r], bound);
    EXPECT_NEAR(distance[r], expected.distance, bound * (1 + std::abs(expected.distance)));
    for (std::size_t n = 0; n < kMaxWindows; ++n) {
      EXPECT_NEAR(windows[n][r], expected.windows[n], bound);
    }
    if (std::isinf(expected.score)) {
      EXPECT_EQ(score[r], -std::numeric_limits<float>::infinity());
      EXPECT_EQ(key[r], -1);
      continue;
    }
    EXPECT_NEAR(score[r], expected.score, bound * (1 + std::abs(expected.score)));
    ASSERT_GE(key[r], 0);
    const double there =
        truth.score[r * static_cast<std::size_t>(truth.s.keys) + static_cast<std::size_t>(key[r])];
    EXPECT_NEAR(there, expected.score, bound * (1 + std::abs(expected.score)));
  }
}

void DeviceProbes::expect_buckets(double bound, const Reference<double>& truth) const {
  const AttentionShape& s = truth.s;
  const auto pairs = bucket_pairs_.values();
  const auto weight = bucket_weight_.values(), score = bucket_score_.values(),
             square = bucket_square_.values(), content = bucket_content_.values(),
             content_square = bucket_content_square_.values(), term = bucket_term_.values(),
             term_square = bucket_term_square_.values();
  for (std::size_t head = 0; head < heads_; ++head) {
    const std::int64_t b = static_cast<std::int64_t>(head) / s.heads;
    const std::int64_t h = static_cast<std::int64_t>(head) % s.heads;
    std::vector<BucketTruth> expected(kBuckets);
    for (std::int64_t n = 0; n < s.queries * s.keys; ++n) {
      const std::int64_t i = n / s.keys, j = n % s.keys, far = std::abs(truth.distance(i, j));
      const auto next = std::upper_bound(steps_.begin(), steps_.end(), far);
      if (next == steps_.end()) continue;
      expected[static_cast<std::size_t>(next - steps_.begin()) - 1].add(truth, b, h, i, j);
    }
    for (std::size_t n = 0; n < kBuckets; ++n) {
      SCOPED_TRACE("bucket " + std::to_string(n));
      const BucketTruth& sum = expected[n];
      const std::size_t at = head * kBuckets + n;
      EXPECT_EQ(pairs[at], static_cast<std::int64_t>(sum.pairs));
      EXPECT_NEAR(weight[at], sum.weight, bound * (1 + sum.weight));
      EXPECT_NEAR(score[at], sum.score, bound * (1 + sum.size));
      EXPECT_NEAR(square[at], sum.square, bound * (1 + sum.square));
      // Products of up to 128 channels, summed over up to 64 pairs and some tiles in float32.
      EXPECT_NEAR(content[at], sum.content, 1e-5 * (1 + sum.content_size));
      EXPECT_NEAR(content_square[at], sum.content_square, 1e-5 * (1 + sum.content_square));
      // With the roundings of both.
      EXPECT_NEAR(term[at], sum.term, bound * (1 + sum.size + sum.content_size));
      EXPECT_NEAR(term_square[at], sum.term_square, bound * (1 + sum.square + sum.content_square));
    }
  }
}

}  // namespace phasescope::kernels::testing
