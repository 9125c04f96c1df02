// Row probes and distance buckets against sums over the reference's full matrices.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/buckets.h"
#include "kernels/cpu/targets.h"
#include "tests/kernels/bucket_truth.h"
#include "tests/kernels/case_probes.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/row_truth.h"

namespace phasescope::kernels::testing {
namespace {

using Edges = std::vector<std::int64_t>;

/// The sums of each bucket [edges[n], edges[n + 1]) of a head (batch included).
std::vector<BucketTruth> bucket_truths(const Reference<double>& ref, std::int64_t head,
                                       const Edges& edges) {
  std::vector<BucketTruth> sums(edges.size() - 1);
  const AttentionShape& s = ref.s;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    for (std::int64_t j = 0; j < s.keys; ++j) {
      const auto above = std::ranges::upper_bound(edges, std::abs(ref.distance(i, j)));
      if (above == edges.begin() || above == edges.end()) continue;
      sums[static_cast<std::size_t>(above - edges.begin() - 1)].add(ref, head / s.heads,
                                                                    head % s.heads, i, j);
    }
  }
  return sums;
}

/// The sums of each bucket of each head.
std::vector<BucketTruth> bucket_truths(const Reference<double>& ref, const Edges& edges) {
  std::vector<BucketTruth> all;
  for (std::int64_t head = 0; head < ref.s.batch * ref.s.heads; ++head) {
    const std::vector<BucketTruth> of_head = bucket_truths(ref, head, edges);
    all.insert(all.end(), of_head.begin(), of_head.end());
  }
  return all;
}

/// The bucket probes of a case that ran.
void expect_sums(const Problem& problem, const Probes& probes,
                 const std::vector<BucketTruth>& wanted) {
  ASSERT_EQ(probes.pairs.size(), wanted.size());
  const std::size_t count = probes.edges.size() - 1;
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    const BucketTruth& want = wanted[at];
    EXPECT_EQ(probes.pairs[at], static_cast<std::int64_t>(want.pairs)) << "bucket " << at % count;
    // Float32 scores and weights, a few roundings each, that stay by themselves in the sums, and
    // scores' sums relative to one of their like: no more of it. A phase of 50 radians carries a
    // relative rounding into its cosine as an absolute one.
    const double phase = has_phase(problem.kind) ? 4 : 1;
    const double scale = phase * problem.magnitude * (1 + want.pairs);
    EXPECT_NEAR(probes.weight[at], want.weight, 4e-6 * (problem.magnitude + want.weight));
    EXPECT_NEAR(probes.score[at], want.score, 2e-6 * scale);
    EXPECT_NEAR(probes.square[at], want.square, 4e-6 * (scale + want.square));
    if (probes.content.empty()) continue;
    // A product alone: no phase, and of the magnitude of q.
    const double plain = problem.magnitude * (1 + want.pairs);
    EXPECT_NEAR(probes.content[at], want.content, 2e-6 * plain);
    EXPECT_NEAR(probes.content_square[at], want.content_square,
                4e-6 * (plain + want.content_square));
    // A difference of the two, with both their roundings.
    EXPECT_NEAR(probes.term[at], want.term, 3e-6 * scale);
    EXPECT_NEAR(probes.term_square[at], want.term_square, 6e-6 * (scale + want.term_square));
  }
}

/// The bucket sums of a problem, whose truth, most of the time of such a test, is made once.
class Buckets {
 public:
  explicit Buckets(const Problem& problem) : problem_(problem) {}

  /// With sums of content scores and without.
  void expect(const Edges& edges) const {
    const std::vector<BucketTruth> wanted = bucket_truths(truth_, edges);
    for (const bool with_content : {true, false}) {
      SCOPED_TRACE(problem_name(problem_) + (with_content ? "" : ", no content"));
      Case c(problem_);
      const Probes probes(c, edges, with_content);
      c.forward();
      expect_sums(problem_, probes, wanted);
    }
  }

  /// The same sums where the log-sum-exp of an earlier pass is given.
  void expect_again(const Edges& edges) const {
    const std::vector<BucketTruth> wanted = bucket_truths(truth_, edges);
    for (const bool with_content : {true, false}) {
      SCOPED_TRACE(problem_name(problem_) + ", known lse" + (with_content ? "" : ", no content"));
      Case c(problem_);
      c.forward();
      const std::vector<float> known = c.lse;
      const Probes probes(c, edges, with_content);
      c.outputs.known_lse = known.data();
      c.forward();
      expect_sums(problem_, probes, wanted);
      EXPECT_EQ(std::memcmp(known.data(), c.lse.data(), known.size() * sizeof(float)), 0);
    }
  }

 private:
  Problem problem_;
  Case case_{problem_};
  Reference<double> truth_{case_.inputs};
};

void expect_probes(const Problem& problem, const Edges& edges) {
  SCOPED_TRACE(problem_name(problem));
  Case c(problem);
  Probes probes(c, edges);
  c.forward();
  Reference<double> truth(c.inputs);
  Reference<float> plain(c.inputs);
  const RowTruth<double> rows(truth);
  const RowTruth<float> plain_rows(plain);
  // A phase of hundreds of radians carries its relative rounding as an absolute error into its
  // cosine.
  const double floor = has_phase(problem.kind) ? 32 : 8;
  // A score's rounding is a share of a weight.
  const double size = std::max(1.0, static_cast<double>(problem.magnitude));
  round_to(problem.storage, plain.out);
  expect_close("out", c.out, plain.out, truth.out, floor, size);
  expect_close("entropy", probes.entropy, plain_rows.entropy, rows.entropy, 2 * floor, size);
  expect_close("max_score", probes.max_score, plain_rows.max_score, rows.max_score, floor, 1);
  expect_close("top1", probes.top1, plain_rows.top1, rows.top1, floor, size);
  expect_close("first", probes.first, plain_rows.first, rows.first, floor, size);
  expect_close("distance", probes.distance, plain_rows.distance, rows.distance, floor, size);
  for (int n = 0; n < 3; ++n) {
    expect_close("window", probes.windows[n], plain_rows.windows[n], rows.windows[n], floor, size);
  }
  const std::vector<float> nothing(probes.sink.size());
  if (c.sinks.empty()) {
    EXPECT_EQ(probes.sink, nothing);
  } else {
    expect_close("sink", probes.sink, plain.sink_weight, truth.sink_weight, floor, size);
  }
  const AttentionShape& s = problem.shape;
  for (std::size_t r = 0; r < probes.max_key.size(); ++r) {
    const std::int32_t key = probes.max_key[r];
    if (std::isinf(rows.max_score[r])) {
      EXPECT_EQ(key, -1);
      continue;
    }
    ASSERT_TRUE(key >= 0 && key < s.keys);
    // The key named holds the maximum, up to rounding of scores that nearly tie.
    const double there =
        truth.score[r * static_cast<std::size_t>(s.keys) + static_cast<std::size_t>(key)];
    EXPECT_NEAR(there, rows.max_score[r], 1e-4 * (1 + std::abs(rows.max_score[r])));
  }
  const std::vector<BucketTruth> wanted = bucket_truths(truth, edges);
  expect_sums(problem, probes, wanted);
  Case again(problem);
  const Probes without_content(again, edges, false);
  again.forward();
  expect_sums(problem, without_content, wanted);
}

class EveryProbe : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryProbe, IsRightAtEverySize) {
  const std::vector<std::int64_t> log_spaced{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::vector<std::int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.push_back(300);
  auto turn = static_cast<std::size_t>(GetParam());
  for (const std::int64_t size : sizes) {
    Problem problem{GetParam()};
    problem.shape = {1, 2, 1, size, size, kDims[turn % std::size(kDims)]};
    problem.storage = kStorages[turn++ % std::size(kStorages)];
    expect_probes(problem, log_spaced);
  }
}

// Every size with every dimension and storage; groups, and causal or not, in turn; the long size
// with two of the dimensions. By the label `long` alone.
class LongEveryProbe : public ::testing::TestWithParam<Kind> {};

TEST_P(LongEveryProbe, IsRightInEveryCombination) {
  std::vector<std::int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.push_back(kLongSize);
  std::size_t turn = 0;
  for (const std::int64_t size : sizes) {
    for (const std::int64_t dim : kDims) {
      if (size == kLongSize && dim != 32 && dim != 128) continue;
      for (const Storage storage : kStorages) {
        Problem problem{.kind = GetParam(), .storage = storage};
        problem.shape = {1, kGroups[turn % 3], 1, size, size, dim};
        problem.shape.causal = turn / 3 % 2 == 0;
        expect_probes(problem, {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
        ++turn;
      }
      ++turn;  // other storages for the same groups
    }
  }
}

TEST_P(EveryProbe, IsRightWithScoresOfTenThousand) {
  if (has_phase(GetParam())) GTEST_SKIP() << "a phase of 1e6 radians is noise in float32";
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 200, 200, 32};
  problem.magnitude = 1e4f;
  expect_probes(problem, {0, 1, 8, 64, 256});
}

TEST_P(EveryProbe, SumsOverDenseDistancesAndKeysAfterTheQuery) {
  std::vector<std::int64_t> dense;
  for (std::int64_t n = 0; n <= 90; ++n) dense.push_back(n);
  Problem problem{GetParam()};
  problem.shape = {2, 2, 2, 70, 90, 16};
  problem.shape.query_offset = 20;
  expect_probes(problem, dense);
  problem.shape.causal = false;
  expect_probes(problem, dense);
}

TEST_P(EveryProbe, HoldsWithRowsThatSeeNoKey) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 100, 40, 16};
  problem.shape.query_offset = -60;
  expect_probes(problem, {0, 8, 64});
}

TEST_P(EveryProbe, HoldsWithWindowPaddingAndCap) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 1, 230, 230, 16};
  problem.shape.window = 75;
  expect_probes(problem, {0, 1, 2, 8, 64, 1024});
  problem.padding = Padding::holes;
  expect_probes(problem, {0, 1, 2, 8, 64, 1024});
  problem.shape.causal = false;
  problem.shape.window = 0;
  problem.padding = Padding::left;
  problem.soft_cap = 2;
  expect_probes(problem, {0, 3, 100, 1024});
  // Buckets wider than a block, and a window that ends within one.
  problem.shape = {1, 2, 1, 700, 700, 16};
  problem.shape.window = 450;
  Buckets(problem).expect({0, 1, 2, 260, 600});
}

TEST_P(EveryProbe, HoldsWithSinks) {
  for (const Sinks sinks : {Sinks::even, Sinks::large}) {
    Problem problem{GetParam()};
    problem.sinks = sinks;
    problem.shape = {2, 2, 1, 230, 230, 16};
    expect_probes(problem, {0, 1, 2, 8, 64, 1024});
    problem.padding = Padding::left;  // rows that see no key
    problem.shape.window = 75;
    expect_probes(problem, {0, 1, 2, 8, 64, 1024});
    // Buckets wider than a block, and many narrow ones, whose weights are kept or computed again.
    problem.shape = {1, 2, 1, 460, 460, 16};
    std::vector<std::int64_t> edges;
    for (std::int64_t n = 0; n <= 100; ++n) edges.push_back(n);
    edges.push_back(400);
    const Buckets buckets(problem);
    buckets.expect(edges);
    buckets.expect_again(edges);
    set_kept_bytes(0);
    buckets.expect(edges);
    set_kept_bytes(kKeptBytes);
  }
}

TEST_P(EveryProbe, HoldsWithDocuments) {
  for (const Documents documents : {Documents::packed, Documents::in_turn, Documents::mixed}) {
    Problem problem{GetParam()};
    problem.documents = documents;
    problem.shape = {2, 2, 1, 230, 230, 16};
    expect_probes(problem, {0, 1, 2, 8, 64, 1024});
    problem.shape.causal = false;
    problem.shape.window = 90;
    problem.padding = Padding::holes;
    expect_probes(problem, {0, 3, 100, 1024});
    // Other numbers of queries than keys, and buckets wider than a block.
    problem.shape = {1, 2, 1, 500, 560, 16};
    problem.shape.query_offset = 60;
    const Buckets buckets(problem);
    buckets.expect({0, 1, 2, 260, 600});
    buckets.expect_again({0, 1, 2, 260, 600});
  }
}

TEST_P(EveryProbe, SumsOverBucketsWiderThanABlock) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 700, 700, 16};
  // Maxima that grow along a row: sums of earlier blocks are relative to another reference.
  if (!has_phase(GetParam())) problem.magnitude = 30;
  const Buckets buckets(problem);
  buckets.expect({0, 300, 2000});
  buckets.expect({3, 40, 260, 600});
  problem.shape = {1, 2, 2, 450, 700, 16};
  problem.shape.query_offset = 50;
  problem.shape.causal = false;
  Buckets(problem).expect({0, 1, 2, 250, 600});
}

// Several edges in a block: as near to each other as a vector of queries is wide and nearer, some
// of them before the first bucket or behind the last.
TEST_P(EveryProbe, SumsOverBucketsNarrowerThanABlock) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 420, 420, 16};
  if (!has_phase(GetParam())) problem.magnitude = 30;
  const std::vector<std::int64_t> many{5, 21, 37, 54, 90, 106, 125, 200, 216, 300, 340};
  const Buckets plain(problem);
  plain.expect(many);
  plain.expect_again(many);
  plain.expect({0, 16, 32, 40, 56, 72, 73, 90, 130, 150, 380});
  problem.shape.window = 210;
  problem.padding = Padding::right;
  Buckets(problem).expect(many);
  problem.shape = {1, 2, 2, 260, 420, 16};
  problem.shape.query_offset = 150;
  problem.shape.causal = false;
  problem.padding = Padding::left;
  const Buckets other(problem);
  other.expect(many);
  other.expect_again({0, 30, 60, 76, 92, 120, 420});
}

TEST_P(EveryProbe, SumsTheSameWithALogSumExpOfBefore) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 1, 330, 330, 16};
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n <= 100; ++n) edges.push_back(n);
  edges.push_back(300);  // and one wider than a block
  Buckets(problem).expect_again(edges);
  problem.shape.window = 120;
  problem.padding = Padding::left;  // rows that see no key
  Buckets(problem).expect_again(edges);
  problem.shape = {1, 2, 2, 100, 40, 16};
  problem.shape.query_offset = -60;
  problem.padding = Padding::none;
  Buckets(problem).expect_again({0, 1, 2, 3, 64});
}

TEST_P(EveryProbe, SumsTheSameWithoutMemoryForWeights) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 460, 460, 16};
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n <= 250; ++n) edges.push_back(n);
  edges.push_back(460);
  const Buckets buckets(problem);
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{300} << 10}) {
    set_kept_bytes(bytes);
    buckets.expect(edges);
  }
  // Sums by query for the wider half of these alone.
  set_kept_bytes(7000);
  buckets.expect({0, 16, 32, 48, 64, 104, 144, 224, 460});
  set_kept_bytes(kKeptBytes);
}

/// The row probes of a case that runs with these of the windows alone.
struct OfWindows {
  OfWindows(const Problem& problem, bool narrow, bool wide) : c(problem), probes(c, {0, 1}) {
    RowProbes& rows = c.outputs.rows;
    rows.window_mass[0] = nullptr;
    if (!narrow) rows.window_mass[1] = nullptr;
    if (!wide) rows.window_mass[2] = nullptr;
    c.forward();
  }

  Case c;
  Probes probes;
};

TEST(Probes, GiveAWindowTheSameBitsWithoutTheOthers) {
  Problem problem{Kind::plain};
  problem.shape = {1, 2, 1, 300, 300, 16};
  for (const bool causal : {true, false}) {
    problem.shape.causal = causal;
    const OfWindows both(problem, true, true), narrow(problem, true, false),
        wide(problem, false, true);
    EXPECT_EQ(both.probes.windows[1], narrow.probes.windows[1]);
    EXPECT_EQ(both.probes.windows[2], wide.probes.windows[2]);
    EXPECT_NE(both.probes.windows[1], both.probes.windows[2]);
    const std::vector<float> untouched(narrow.probes.windows[2].size());
    EXPECT_EQ(narrow.probes.windows[2], untouched);
    EXPECT_EQ(narrow.probes.entropy, wide.probes.entropy);
  }
}

// Two values of scores: every seventh key has the larger one. Of equals the first key is named.
TEST(Probes, NameTheFirstKeyOfEqualMaxima) {
  Problem problem{Kind::plain};
  problem.shape = {1, 1, 1, 200, 200, 16};
  problem.shape.window = 100;
  Case c(problem);
  std::fill(c.q.begin(), c.q.end(), 1.0f);
  for (std::size_t n = 0; n < c.k.size(); ++n) c.k[n] = n / 16 % 7 == 5 ? 1.0f : 0.0f;
  const Probes probes(c, {0, 1});
  c.forward();
  for (std::int32_t i = 0; i < 200; ++i) {
    const std::int32_t first = std::max(0, i - 99), large = first + (12 - first % 7) % 7;
    EXPECT_EQ(probes.max_key[static_cast<std::size_t>(i)], large <= i ? large : first) << i;
  }
}

// A content score taken back out of a score of a million would be right to a hundredth at best.
TEST(Probes, TakeTheContentBeforeALargeBias) {
  Problem problem{Kind::table};
  problem.shape = {1, 2, 2, 400, 400, 16};
  Case c(problem);
  const std::size_t length = c.table.size() / 2;
  for (std::size_t n = 0; n < c.table.size(); ++n) {
    c.table[n] = -2500.0f * static_cast<float>(n % length);
  }
  const Probes probes(c, {0, 1, 2, 40, 200, 400});
  c.forward();
  const Reference<double> truth(c.inputs);
  std::vector<BucketTruth> wanted;
  for (std::size_t n = 0; n < probes.content.size(); ++n) {
    if (n % 5 == 0) wanted = bucket_truths(truth, static_cast<std::int64_t>(n / 5), probes.edges);
    const BucketTruth& want = wanted[n % 5];
    EXPECT_NEAR(probes.content[n], want.content, 2e-6 * (1 + want.pairs));
    EXPECT_NEAR(probes.content_square[n], want.content_square, 6e-6 * (1 + want.pairs));
  }
}

double deviation(double sum, double square, double pairs) {
  const double mean = sum / pairs;
  return std::sqrt(std::max(0.0, square / pairs - mean * mean));
}

/// Every bucket's deviation of scores, of one head: within `rounding` (of a score) of what it is.
void expect_deviations(const Case& c, const Probes& probes, double rounding) {
  const Reference<double> truth(c.inputs);
  const std::vector<BucketTruth> wanted = bucket_truths(truth, 0, probes.edges);
  for (std::size_t b = 0; b < wanted.size(); ++b) {
    const BucketTruth& want = wanted[b];
    const double expected = deviation(want.score, want.square, want.pairs);
    EXPECT_NEAR(deviation(probes.score[b], probes.square[b], want.pairs), expected,
                rounding * (1 + expected))
        << probes.edges[b];
  }
}

// Far from the diagonal a bias of thousands hides scores that differ by one: squares that were
// rounded to float32 would give a deviation of several, or 0.
TEST(Probes, GiveScoresUnderALargeBiasTheirDeviation) {
  constexpr std::int64_t kTokens = 700;
  Problem problem{Kind::table};
  problem.shape = {1, 1, 1, kTokens, kTokens, 16};
  // Each distance to 300, then buckets wider than a block.
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n <= 300; ++n) edges.push_back(n);
  edges.insert(edges.end(), {500, kTokens});
  for (const bool with_content : {true, false}) {
    Case c(problem);
    for (std::size_t n = 0; n < c.table.size(); ++n) c.table[n] = -8.0f * static_cast<float>(n);
    const Probes probes(c, edges, with_content);
    c.forward();
    expect_deviations(c, probes, 5e-4);  // scores are rounded to that at most, each by itself
  }
}

// A table may all but mask what lies beyond a distance: scores on one side of the step say nothing
// of how those on the other differ.
TEST(Probes, GiveScoresBesideAStepTheirDeviation) {
  constexpr std::int64_t kTokens = 700, kStep = 150;
  Problem problem{Kind::table};
  problem.shape = {1, 1, 1, kTokens, kTokens, 16};
  std::vector<std::int64_t> narrow;
  for (std::int64_t n = 0; n <= kTokens; n += 5) narrow.push_back(n);
  const std::vector<std::int64_t> wide{0, 1, 20, 60, 100, kStep, 200, 260, kTokens};
  for (const auto& edges : {narrow, wide, std::vector<std::int64_t>{0, kStep, kTokens}}) {
    for (const bool with_content : {true, false}) {
      Case c(problem);
      for (std::size_t n = 0; n < c.table.size(); ++n) c.table[n] = n < kStep ? 0.0f : -20000.0f;
      const Probes probes(c, edges, with_content);
      c.forward();
      expect_deviations(c, probes, 1e-3);  // likewise
    }
  }
}

// ALiBi's term is -m lambda of every pair of a distance: no deviation but what a score's rounding
// leaves, 1e-7 of it. As float32 sums of squares it would be a thousandth of the term.
TEST(Probes, GiveATermOfTheDistanceAloneNoDeviation) {
  constexpr std::int64_t kTokens = 700;
  Problem problem{Kind::table};
  problem.shape = {1, 1, 1, kTokens, kTokens, 16};
  Case c(problem);
  for (std::size_t n = 0; n < c.table.size(); ++n) c.table[n] = -0.5f * static_cast<float>(n);
  // Each distance to 300, then buckets wider than a block.
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n <= 300; ++n) edges.push_back(n);
  edges.insert(edges.end(), {500, kTokens});
  const Probes probes(c, edges);
  c.forward();
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    double mean = 0, square = 0, pairs = 0;
    for (std::int64_t d = edges[b]; d < edges[b + 1]; ++d) {
      const auto n = static_cast<double>(kTokens - d), term = -0.5 * static_cast<double>(d);
      pairs += n, mean += n * term, square += n * term * term;
    }
    mean /= pairs, square /= pairs;
    const double rounding = 4e-7 * (1 - mean);
    EXPECT_NEAR(probes.term[b] / pairs, mean, rounding) << edges[b];
    // Of float64, the root of what the difference of two squares loses.
    EXPECT_NEAR(deviation(probes.term[b], probes.term_square[b], pairs),
                std::sqrt(std::max(0.0, square - mean * mean)), rounding + 1e-7 * (1 - mean))
        << edges[b];
  }
}

TEST(Probes, CountNoPairOfAMaskedDistance) {
  for (const Kind kind : {Kind::table, Kind::table_signed}) {
    Problem problem{kind};
    problem.infinite_table = true;
    problem.shape = {2, 2, 2, 130, 190, 16};
    problem.shape.query_offset = 60;
    Buckets(problem).expect({0, 1, 2, 3, 17, 64, 128, 1000});
    problem.shape.causal = false;
    Buckets(problem).expect({0, 1, 2, 3, 17, 64, 128, 1000});
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryProbe, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Kernels, LongEveryProbe, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
