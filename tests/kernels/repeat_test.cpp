// The same bits twice and for any number of threads; gradients by finite differences; bad
// arguments; memory.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/chunks.h"
#include "kernels/scratch.h"
#include "tests/kernels/case_probes.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/threads.h"

namespace phasescope::kernels::testing {
namespace {

/// Every result of a case, one after the other.
std::vector<float> all_results(const Problem& problem, int threads) {
  const Threads scope(threads);
  Case c(problem);
  const std::vector<std::int64_t> edges{0, 1, 5, 40, 1000};
  std::vector<double> sums(static_cast<std::size_t>(problem.shape.batch * problem.shape.heads * 4));
  std::vector<double> weights = sums, contents = sums, terms = sums;
  std::vector<float> entropy(c.lse.size()), mean(7 * 5), top(3 * c.lse.size());
  c.outputs.rows.entropy = entropy.data();
  c.outputs.rows.top_count = 3;
  c.outputs.rows.top_weight = top.data();
  c.outputs.buckets.edges = edges.data();
  c.outputs.buckets.count = 4;
  c.outputs.buckets.score = sums.data();
  c.outputs.buckets.weight = weights.data();
  c.outputs.buckets.content = contents.data();
  c.outputs.buckets.term_square = terms.data();
  c.forward();
  std::vector<float> all(sums.begin(), sums.end());
  // Without contents scores are summed in another way.
  c.outputs.buckets.content = c.outputs.buckets.term_square = nullptr;
  c.forward();
  c.backward();
  MapOutputs map;
  map.height = 7;
  map.width = 5;
  map.mean = mean.data();
  const AttentionShape& s = problem.shape;
  attention_map(c.inputs, c.lse.data(), {0, 0, 1, 0, s.queries, 0, s.keys}, map);
  std::vector<float> columns(static_cast<std::size_t>(s.keys));
  map.height = 1;
  map.width = s.keys;
  map.mean = columns.data();
  attention_map(c.inputs, c.lse.data(), {0, 0, 1, 0, s.queries, 0, s.keys}, map);
  all.insert(all.end(), sums.begin(), sums.end());
  all.insert(all.end(), weights.begin(), weights.end());
  all.insert(all.end(), contents.begin(), contents.end());
  all.insert(all.end(), terms.begin(), terms.end());
  for (const auto* part :
       {&c.out,  &c.out_state, &c.lse,      &entropy,   &mean,          &columns,   &top,
        &c.dq,   &c.dk,        &c.dv,       &c.d_state, &c.d_table,     &c.d_w1,    &c.d_b1,
        &c.d_w2, &c.d_b2,      &c.d_factor, &c.d_slope, &c.d_intercept, &c.d_far_q, &c.d_far_k}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  all.insert(all.end(), c.score_gradients.begin(), c.score_gradients.end());
  return all;
}

void expect_same_bits(const Problem& problem) {
  const std::vector<float> once = all_results(problem, 1);
  EXPECT_TRUE(same_bits(once, all_results(problem, 1)));
  EXPECT_TRUE(same_bits(once, all_results(problem, 2)));
  EXPECT_TRUE(same_bits(once, all_results(problem, 3)));
}

class EveryVariantRepeats : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryVariantRepeats, GivesTheSameBitsForAnyNumberOfThreads) {
  Problem problem{GetParam()};
  problem.shape = {2, 4, 2, 450, 450, 16};
  expect_same_bits(problem);
  problem.shape.window = 130;
  problem.padding = Padding::right;
  problem.soft_cap = 3;
  problem.storage = Storage::bfloat16;
  expect_same_bits(problem);
  problem.documents = Documents::in_turn;
  expect_same_bits(problem);
}

/// sum of out * d_out (and the state's), in float64: the function whose gradient backward() gives.
double objective(const Case& c) {
  const Reference<double> ref(c.inputs);
  double sum = 0;
  for (std::size_t n = 0; n < ref.out.size(); ++n) {
    sum += ref.out[n] * static_cast<double>(c.d_out[n]);
  }
  for (std::size_t n = 0; n < ref.out_state.size(); ++n) {
    sum += ref.out_state[n] * static_cast<double>(c.d_out_state[n]);
  }
  return sum;
}

/// Central differences of a few entries of one array against its gradient.
void expect_gradient(Case& c, const char* what, std::vector<float>& values,
                     const std::vector<float>& gradient, std::size_t entries) {
  double scale = 1;
  for (const float g : gradient) scale = std::max(scale, std::abs(static_cast<double>(g)));
  for (std::size_t n = 0; n < std::min(entries, values.size()); ++n) {
    const std::size_t at = n * 7919 % values.size();
    const float before = values[at];
    // A small step, so that no unit of a rectifier changes side within it.
    const float up = before + 0x1p-14f, down = before - 0x1p-14f;
    values[at] = up;
    const double above = objective(c);
    values[at] = down;
    const double below = objective(c);
    values[at] = before;
    const double slope = (above - below) / (static_cast<double>(up) - static_cast<double>(down));
    // Float32 gradients, and the difference's own error where phases turn fast.
    EXPECT_NEAR(gradient[at], slope, 1e-3 * scale) << what << " " << at;
  }
}

/// (B, H, N, d) as (B, N, H, d).
std::vector<float> by_token(const AttentionShape& s, const std::vector<float>& values) {
  std::vector<float> result;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t n = 0; n < s.queries; ++n) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const auto from = values.begin() + ((b * s.heads + h) * s.queries + n) * s.head_dim;
        result.insert(result.end(), from, from + s.head_dim);
      }
    }
  }
  return result;
}

void expect_gradients(const Problem& problem) {
  Case c(problem);
  c.forward();
  c.backward();
  // Gradients are contiguous (B, H, N, d) and q, k, v lie as (B, N, H, d): with one kv head that is
  // the same order for k, v and the state.
  expect_gradient(c, "dq", c.q, by_token(problem.shape, c.dq), 12);
  expect_gradient(c, "dk", c.k, c.dk, 12);
  expect_gradient(c, "dv", c.v, c.dv, 12);
  expect_gradient(c, "d_state", c.state, c.d_state, 6);
  if (!c.d_table.empty() && problem.kind != Kind::cape_content) {
    expect_gradient(c, "d_table", c.table, c.d_table, 12);
  }
  expect_gradient(c, "d_w1", c.w1, c.d_w1, 12);
  expect_gradient(c, "d_b1", c.b1, c.d_b1, 8);
  expect_gradient(c, "d_w2", c.w2, c.d_w2, 12);
  expect_gradient(c, "d_b2", c.b2, c.d_b2, 2);
  expect_gradient(c, "d_factor", c.factor, c.d_factor, 6);
  expect_gradient(c, "d_slope", c.slope, c.d_slope, 20);
  expect_gradient(c, "d_intercept", c.intercept, c.d_intercept, 20);
}

TEST_P(EveryVariantRepeats, HasTheGradientOfFiniteDifferences) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 6, 6, 8};
  expect_gradients(problem);
}

TEST_P(EveryVariantRepeats, HasTheGradientOfFiniteDifferencesWithWindowPaddingAndCap) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 6, 6, 8};
  problem.shape.window = 4;
  problem.padding = Padding::holes;
  problem.soft_cap = 1.5f;
  expect_gradients(problem);
}

/// Largest difference, relative to the largest of `want`.
double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double most = 0, error = 0;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t n = 0; n < want.size(); ++n) {
    const double difference = std::abs(static_cast<double>(got[n]) - want[n]);
    most = std::max(most, std::abs(want[n]));
    if (!(difference <= error)) error = difference;
  }
  return error / most;
}

struct LongText {
  Kind kind;
  Storage storage;
  AttentionShape shape;
};

/// Every gradient of a case whose backward pass may hold so many bytes.
std::vector<float> gradients_within(std::int64_t bytes, const Problem& problem) {
  const Threads scope(3);
  Case c(problem);
  c.forward();
  backward_bytes() = bytes;
  c.backward();
  backward_bytes() = kBackwardBytes;
  std::vector<float> all;
  for (const auto* part :
       {&c.dq, &c.dk, &c.dv, &c.d_state, &c.d_table, &c.d_factor, &c.d_slope, &c.d_intercept}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

// 16 heads of keys and values, so that each is one item: dk and dv of one are 200 KB and more, dq
// of its two heads 38, and a thread needs 280 to 380 beside them. With the bytes below there are
// ranges of 512 and 1024 keys and all, one thread and more, and 16-bit dq waits or has a pass of
// its own. A problem comes with two of the four, each variant has all of them, and two that follow
// each other have each problem with each.
TEST_P(EveryVariantRepeats, GivesTheSameBitsForAnyRangesOfKeys) {
  if (is_cape(GetParam())) GTEST_SKIP() << "has no ranges of keys";
  Problem problem{GetParam()};
  problem.shape = {2, 16, 8, 300, 1600, 16, 0, true, 1300};
  auto turn = static_cast<std::size_t>(GetParam());
  const auto expect_same = [&] {
    const std::vector<float> whole = gradients_within(kBackwardBytes, problem);
    constexpr std::int64_t sizes[2][2] = {{1, 560}, {460, 800}};
    for (const std::int64_t kilobytes : sizes[turn++ % 2]) {
      EXPECT_TRUE(same_bits(whole, gradients_within(kilobytes << 10, problem))) << kilobytes;
    }
  };
  expect_same();
  problem.storage = Storage::bfloat16;
  problem.shape.window = 600;  // begins and ends within ranges
  expect_same();
  problem.documents = Documents::packed;
  problem.shape.query_offset = 100;  // rows before the first key, keys that no query sees
  expect_same();
}

class CapeInRanges : public ::testing::TestWithParam<LongText> {};

// CAPE's sums of dk and dv take so much here that keys are gone through in ranges, and dq waits in
// its own tensor, in scratch memory or, the last, for a pass of its own.
TEST_P(CapeInRanges, HasTheSameGradients) {
  Problem problem{GetParam().kind};
  problem.storage = GetParam().storage;
  problem.shape = GetParam().shape;
  Case c(problem);
  {
    const Threads scope(2);
    c.forward();
    c.backward();
  }
  Reference<double> truth(c.inputs);
  truth.backward(c.saved.d_out, {});
  // Float32 sums of hundreds of terms and weights of a float32 lse; 16-bit gradients are rounded,
  // and carry the rounding of the `out` that they were made from.
  const double bound = problem.storage == Storage::float32 ? 2e-5 : 0x1p-7;
  EXPECT_TRUE(relative_error(c.dq, truth.dq) <= bound) << relative_error(c.dq, truth.dq);
  EXPECT_TRUE(relative_error(c.dk, truth.dk) <= bound) << relative_error(c.dk, truth.dk);
  EXPECT_TRUE(relative_error(c.dv, truth.dv) <= bound) << relative_error(c.dv, truth.dv);
  EXPECT_TRUE(relative_error(c.d_w1, truth.d_w1) <= bound) << relative_error(c.d_w1, truth.d_w1);
  EXPECT_TRUE(relative_error(c.d_w2, truth.d_w2) <= bound) << relative_error(c.d_w2, truth.d_w2);
  if (problem.kind == Kind::cape) {
    EXPECT_TRUE(relative_error(c.d_table, truth.d_table) <= bound)
        << relative_error(c.d_table, truth.d_table);
  }
}

TEST_P(CapeInRanges, HasTheSameBitsForAnyNumberOfThreads) {
  Problem problem{GetParam().kind};
  problem.storage = GetParam().storage;
  problem.shape = GetParam().shape;
  const auto gradients = [&](int threads) {
    const Threads scope(threads);
    Case c(problem);
    c.forward();
    c.backward();
    std::vector<float> all;
    for (const auto* part : {&c.dq, &c.dk, &c.dv, &c.d_table, &c.d_w1, &c.d_b1, &c.d_w2, &c.d_b2,
                             &c.d_factor, &c.d_slope, &c.d_intercept}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  };
  const std::vector<float> one = gradients(1);
  // Sixteen are more than the items, so that each range has panels and parts of its keys apart.
  for (const int threads : {3, 16}) EXPECT_TRUE(same_bits(one, gradients(threads))) << threads;
}

TEST(Arguments, AreCheckedBeforeAnyWork) {
  Problem problem{Kind::table};
  problem.shape = {1, 2, 2, 20, 20, 16};
  Case good(problem);
  EXPECT_NO_THROW(good.forward());
  {
    Case c(problem);
    c.inputs.shape.kv_heads = 3;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    std::get<TableVariant>(c.inputs.variant).length = 19;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    c.inputs.shape.head_dim = 513;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    c.inputs.shape.window = -1;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);  // keys are numbered in float32
    c.inputs.shape.keys = (std::int64_t{1} << 24) + 1;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  // And so are distances: of the last query to the first key, of the first query to the last key.
  for (const std::int64_t offset : {(std::int64_t{1} << 24) - 19, 19 - (std::int64_t{1} << 24)}) {
    Case c(Problem{Kind::plain, problem.shape});
    c.inputs.shape.query_offset = offset;
    EXPECT_THROW(c.forward(), std::invalid_argument) << offset;
    c.inputs.shape.query_offset += offset > 0 ? -1 : 1;
    EXPECT_NO_THROW(c.forward()) << offset;
  }
  {
    Case c(Problem{Kind::plain, problem.shape});
    c.inputs.shape.queries = (std::int64_t{1} << 24) + 1;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    c.inputs.soft_cap = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    c.inputs.k.data = nullptr;
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  for (const std::int64_t count : {std::int64_t{0}, kMaxTopKeys + 1}) {
    Case c(problem);
    std::vector<float> top(c.lse.size());
    c.outputs.rows.top_count = count;
    c.outputs.rows.top_weight = top.data();
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    const std::vector<std::int32_t> documents(20);
    c.inputs.key_documents = documents.data();
    EXPECT_THROW(c.forward(), std::invalid_argument);
  }
  {
    Case c(problem);
    c.gradients.variant = CapeGradients{};
    EXPECT_THROW(c.backward(), std::invalid_argument);
  }
  const Region outside{0, 0, 1, 0, 21, 0, 20};
  EXPECT_THROW(attention_region(good.inputs, good.lse.data(), outside, nullptr, good.out.data()),
               std::invalid_argument);
  const Region inside{0, 0, 1, 0, 20, 0, 20};
  EXPECT_THROW(attention_region(good.inputs, nullptr, inside, nullptr, good.out.data()),
               std::invalid_argument);
}

class FireArguments : public ::testing::TestWithParam<Kind> {};

FireVariant& fire_of(Case& c) {
  if (auto* fire = std::get_if<FireVariant>(&c.inputs.variant)) return *fire;
  return *std::get<CapeVariant>(c.inputs.variant).fire;
}

TEST_P(FireArguments, AreCheckedBeforeAnyWork) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 20, 20, 16};
  const auto refuses = [&](const std::function<void(Case&, FireVariant&)>& spoil) {
    Case c(problem);
    spoil(c, fire_of(c));
    EXPECT_THROW(c.forward(), std::invalid_argument);
    for (const float x : c.out) EXPECT_EQ(x, 0.0f);
  };
  Case good(problem);
  EXPECT_NO_THROW(good.forward());
  refuses([](Case& c, FireVariant&) { c.inputs.shape.causal = false; });
  refuses([](Case&, FireVariant& fire) { fire.length = 19; });
  refuses([](Case&, FireVariant& fire) { fire.factor = nullptr; });
  refuses([](Case&, FireVariant& fire) { fire.knots = nullptr; });
  refuses([](Case&, FireVariant& fire) { fire.slope = nullptr; });
  refuses([](Case&, FireVariant& fire) { fire.segments = 0; });
  refuses([](Case& c, FireVariant&) { std::swap(c.knots[1], c.knots[8]); });
  good.gradients.variant = TableGradients{};
  EXPECT_THROW(good.backward(), std::invalid_argument);
}

TEST(Arguments, OfCapeOverFireMayNotHaveMorePiecesThanItKeeps) {
  Problem problem{Kind::cape_fire};
  problem.shape = {1, 4, 4, 2, 2, 8};
  problem.hidden = 1020;
  problem.knots = kCapePieces / 1024 - 1;
  EXPECT_NO_THROW(Case(problem).forward());
  problem.knots += 1;
  EXPECT_THROW(Case(problem).forward(), std::invalid_argument);
}

/// A line of /proc/self/status, in bytes: VmRSS is the memory in use, VmHWM its highest so far.
std::int64_t memory_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

/// How far `run` raised the memory in use at its highest, beyond what it could not have used again:
/// scratch and freed blocks of earlier calls are given back first.
template <class Run>
std::int64_t memory_of(const Run& run) {
  release_scratch();
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // forgets the highest so far
  const std::int64_t before = memory_line("VmRSS");
  run();
  return memory_line("VmHWM") - before;
}

/// Memory of a forward pass with every probe, beyond inputs and outputs.
std::int64_t memory_of_forward(Kind kind, std::int64_t heads, std::int64_t tokens, int threads,
                               std::int64_t dim = 8) {
  Problem problem{kind};
  problem.shape = {1, heads, heads, tokens, tokens, dim};
  Case c(problem);
  // As the head statistics ask: every distance to 2048, then wider and wider.
  std::vector<std::int64_t> edges;
  for (std::int64_t edge = 0; edge < tokens; edge += edge < 2048 ? 1 : edge / 6) {
    edges.push_back(edge);
  }
  edges.push_back(tokens);
  const Probes probes(c, edges, true, 8);
  const Threads scope(threads);
  const std::int64_t bytes = memory_of([&c] { c.forward(); });
  EXPECT_TRUE(std::isfinite(c.out.back()));
  double sum = 0;
  for (const double w : probes.weight) sum += w;
  EXPECT_NEAR(sum / static_cast<double>(heads * tokens), 1, 1e-5);  // a row's weights sum to 1
  return bytes;
}

/// Memory of a backward pass of `tokens` x 128, beyond inputs and outputs. They are 0 and one
/// array, and a window of one key makes it a matter of moments: neither changes what the pass
/// holds.
std::int64_t memory_of_backward(Kind kind, Storage storage, std::int64_t heads, std::int64_t tokens,
                                int threads) {
  constexpr std::int64_t kDim = 128;
  Problem problem{kind};
  problem.shape = {1, heads, heads, tokens, tokens, 1, 0, true, 0, 1};
  Case c(problem);
  c.inputs.shape.head_dim = kDim;
  const auto bytes = static_cast<std::size_t>(heads * tokens * kDim) *
                     (storage == Storage::float32 ? sizeof(float) : sizeof(std::uint16_t));
  const std::vector<char> zeros(bytes);
  std::vector<char> results(3 * bytes, 1);
  const auto place = [&](auto& tensor, auto* data) {
    tensor = {data, 0, tokens * kDim, kDim, storage};
  };
  for (InputTensor* tensor :
       {&c.inputs.q, &c.inputs.k, &c.inputs.v, &c.saved.out, &c.saved.d_out}) {
    place(*tensor, zeros.data());
  }
  std::size_t n = 0;
  for (OutputTensor* tensor : {&c.gradients.dq, &c.gradients.dk, &c.gradients.dv}) {
    place(*tensor, results.data() + n++ * bytes);
  }
  c.saved.lse = c.lse.data();
  c.gradients.scores = {};  // sums by distance are a question's alone
  const Threads scope(threads);
  const std::int64_t used = memory_of([&c] { attention_backward(c.inputs, c.saved, c.gradients); });
  EXPECT_EQ(std::count(results.begin(), results.end(), 1), 0);  // all of them are written
  return used;
}

void expect_backward_within(std::int64_t megabytes, const std::vector<Kind>& kinds,
                            std::int64_t heads, std::int64_t tokens, int threads) {
  for (const Kind kind : kinds) {
    for (const Storage storage : {Storage::float32, Storage::bfloat16}) {
      const std::int64_t bytes = memory_of_backward(kind, storage, heads, tokens, threads);
      EXPECT_LT(bytes, megabytes << 20)
          << kind_name(kind) << (storage == Storage::float32 ? "" : ", bfloat16");
    }
  }
}

TEST(Memory, OfTheBackwardPassIsBounded) {
  // As sums of dk and dv of every head it would be 268 MB.
  expect_backward_within(256, {Kind::plain, Kind::table, Kind::cape, Kind::cape_fire}, 32, 8192, 8);
}

TEST(Memory, OfTheBackwardPassIsBoundedForManyThreads) {
  // Were each thread to hold all of a head's dk and dv, it would be 320 MB.
  expect_backward_within(200, {Kind::plain, Kind::table}, 64, 4096, 64);
}

TEST(Memory, OfTheBackwardPassIsBoundedWhereThreadsOutnumberHeads) {
  // Sums of dk and dv for each part of the queries of 64 threads would be 256 MB alone.
  expect_backward_within(200, {Kind::plain, Kind::table}, 8, 4096, 64);
}

TEST(LongMemory, OfTheBackwardPassIsBounded) {
  // The threads' 192 MB, and by distance a table and float64 sums of all heads, 12 MB.
  expect_backward_within(216, {Kind::plain, Kind::table, Kind::fire, Kind::cape, Kind::cape_fire},
                         32, 32768, 16);
}

TEST(Memory, IsMeasured) {
  const std::int64_t bytes = memory_of([] {
    const std::vector<float> held(std::size_t{4} << 20, 1.0f);
    ASSERT_EQ(held.back(), 1.0f);
  });
  EXPECT_GE(bytes, std::int64_t{15} << 20);
  EXPECT_LE(bytes, std::int64_t{20} << 20);
}

TEST(Memory, HoldsNoMapOfTheWholeSequence) {
  // A map of one head would be 400 MB.
  for (const Kind kind : {Kind::table, Kind::cape, Kind::cape_fire}) {
    EXPECT_LT(memory_of_forward(kind, 2, 10000, 4), std::int64_t{64} << 20) << kind_name(kind);
  }
}

TEST(Memory, OfTheForwardPassIsBoundedForAnyNumberOfThreads) {
  // Without a bound 64 threads would hold twice as much, most of it sums by distance.
  EXPECT_LT(memory_of_forward(Kind::cape, 4, 10000, 64), std::int64_t{220} << 20);
}

TEST(Memory, HoldsNoFloat32CopyOfA16BitTensor) {
  // Each would be 16 MB. A window of one key makes it a matter of moments.
  Problem problem{.storage = Storage::bfloat16};
  problem.shape = {1, 16, 16, 4096, 4096, 64, 0, true, 0, 1};
  Case c(problem);
  const Threads scope(2);
  EXPECT_LT(memory_of([&c] { c.forward(); }), std::int64_t{8} << 20);
  EXPECT_LT(memory_of([&c] { c.backward(); }), std::int64_t{12} << 20);
}

// The full size: long, so by that label alone. As maps it would be 137 GB.
TEST(LongMemory, ReadsThirtyTwoHeadsOfThirtyTwoThousandTokens) {
  for (const Kind kind :
       {Kind::table, Kind::tapa, Kind::tape, Kind::fire, Kind::cape, Kind::cape_fire}) {
    const std::int64_t bytes = memory_of_forward(kind, 32, 32768, 16, 64);
    RecordProperty(kind_name(kind), std::to_string(bytes >> 20) + " MB");
    EXPECT_LT(bytes, std::int64_t{256} << 20) << kind_name(kind);
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, FireArguments, ::testing::Values(Kind::fire, Kind::cape_fire),
                         [](const auto& info) { return kind_name(info.param); });
// 16 heads of 512 channels are 64 KB of dk and dv a key.
INSTANTIATE_TEST_SUITE_P(
    Kernels, CapeInRanges,
    ::testing::Values(
        LongText{Kind::cape, Storage::float32, {1, 16, 16, 300, 300, 512, 0, true, 0, 40}},
        LongText{Kind::cape_fire, Storage::float32, {1, 16, 16, 300, 300, 512, 0, true, 0, 40}},
        LongText{Kind::cape, Storage::float32, {2, 16, 16, 120, 700, 512, 0, true, 580, 40}},
        LongText{Kind::cape, Storage::bfloat16, {1, 16, 16, 300, 300, 512, 0, true, 0, 40}}));
INSTANTIATE_TEST_SUITE_P(LongKernels, CapeInRanges,
                         ::testing::Values(LongText{Kind::cape,
                                                    Storage::bfloat16,
                                                    {1, 16, 2, 2100, 2100, 512, 0, true, 0, 8}}));
INSTANTIATE_TEST_SUITE_P(Kernels, EveryVariantRepeats, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
