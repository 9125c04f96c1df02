// 16-bit storage: the conversions against IEEE 754, and every pass against float32 storage of the
// same numbers, whose results it must give rounded, bit for bit: the arithmetic is the same.

#include "kernels/cpu/storage.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/targets.h"
#include "tests/kernels/case_probes.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/half_types.h"

namespace phasescope::kernels::testing {
namespace {

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Not inlined: the compiler would look at float32's branch with an array of 16-bit numbers.
[[gnu::noinline]] void read(Storage storage, const void* from, std::vector<float>& to) {
  read_numbers(storage, from, static_cast<std::int64_t>(to.size()), to.data());
}
[[gnu::noinline]] void write(Storage storage, const std::vector<float>& from, void* to) {
  write_numbers(storage, from.data(), static_cast<std::int64_t>(from.size()), to);
}

class EveryNarrowStorage : public ::testing::TestWithParam<Storage> {};

TEST_P(EveryNarrowStorage, ReadsEveryBitPattern) {
  std::vector<std::uint16_t> bits(0x10000);
  for (std::size_t n = 0; n < bits.size(); ++n) bits[n] = static_cast<std::uint16_t>(n);
  std::vector<float> values(bits.size());
  read(GetParam(), bits.data(), values);
  for (std::size_t n = 0; n < bits.size(); ++n) {
    const float want = half_type(GetParam()).from(bits[n]);
    ASSERT_EQ(std::isnan(values[n]), std::isnan(want)) << n;
    if (std::isnan(want)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[n]), std::bit_cast<std::uint32_t>(want)) << n;
  }
}

// All signs, exponents and leading digits; of what follows, nothing, halfway cases and their
// neighbours.
TEST_P(EveryNarrowStorage, RoundsToNearestEven) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x2FFFu, 0x3000u,
                                    0x7FFFu, 0x8000u, 0x8001u, 0xEFFFu, 0xF000u, 0xFFFFu}) {
      values.push_back(std::bit_cast<float>((high << 16) | low));
    }
  }
  std::vector<std::uint16_t> bits(values.size());
  write(GetParam(), values, bits.data());
  for (std::size_t n = 0; n < bits.size(); ++n) {
    const float got = half_type(GetParam()).from(bits[n]);
    ASSERT_EQ(std::isnan(got), std::isnan(values[n])) << values[n];
    if (std::isnan(got)) continue;
    ASSERT_EQ(bits[n], half_type(GetParam()).to(values[n])) << values[n];
  }
}

/// Every probe of a case, with its forward pass; a region and a map of weights of its last head.
struct Measured {
  explicit Measured(Case& c) : probes(c, {0, 1, 5, 40, 1000}, true, 3) {
    c.forward();
    const AttentionShape& s = c.inputs.shape;
    const Region region{s.batch - 1, s.heads - 1, 1, s.queries - 40, s.queries, 5, 75};
    attention_region(c.inputs, c.lse.data(), region, scores.data(), weights.data());
    MapOutputs map;
    map.height = 6;
    map.width = 11;
    map.mean = mean.data();
    map.maximum = maximum.data();
    attention_map(c.inputs, c.lse.data(), region, map);
  }

  static constexpr std::size_t kPairs = 40 * 70, kCells = 6 * 11;
  Probes probes;
  std::vector<float> scores = std::vector<float>(kPairs), weights = scores;
  std::vector<float> mean = std::vector<float>(kCells), maximum = mean;
};

void expect_same(const Measured& ours, const Measured& theirs) {
  const Probes &a = ours.probes, &b = theirs.probes;
  EXPECT_TRUE(same(a.entropy, b.entropy) && same(a.max_score, b.max_score));
  EXPECT_TRUE(same(a.max_key, b.max_key) && same(a.top1, b.top1) && same(a.first, b.first));
  EXPECT_TRUE(same(a.distance, b.distance));
  for (std::size_t w = 0; w < 3; ++w) EXPECT_TRUE(same(a.windows[w], b.windows[w])) << w;
  EXPECT_TRUE(same(a.top_key, b.top_key) && same(a.top_weight, b.top_weight));
  EXPECT_TRUE(same(a.pairs, b.pairs) && same(a.weight, b.weight));
  EXPECT_TRUE(same(a.score, b.score) && same(a.square, b.square));
  EXPECT_TRUE(same(a.content, b.content) && same(a.content_square, b.content_square));
  EXPECT_TRUE(same(a.term, b.term) && same(a.term_square, b.term_square));
  EXPECT_TRUE(same(ours.scores, theirs.scores) && same(ours.weights, theirs.weights));
  EXPECT_TRUE(same(ours.mean, theirs.mean) && same(ours.maximum, theirs.maximum));
}

void expect_rounded(Storage storage, const char* what, const std::vector<float>& narrow,
                    std::vector<float> wide) {
  round_to(storage, wide);
  EXPECT_TRUE(same(narrow, wide)) << what;
}

/// value_scale, gradient_scale: of v and d_out.
void expect_as_float32(Problem problem, float value_scale = 1, float gradient_scale = 1) {
  SCOPED_TRACE(problem_name(problem));
  Case narrow(problem);
  for (float& x : narrow.v) x *= value_scale;
  for (float& x : narrow.d_out) x *= gradient_scale;
  round_to(problem.storage, narrow.v);
  round_to(problem.storage, narrow.d_out);
  problem.storage = Storage::float32;
  Case wide(problem);
  wide.q = narrow.q;
  wide.k = narrow.k;
  wide.v = narrow.v;
  wide.state = narrow.state;
  wide.d_out = narrow.d_out;
  wide.d_out_state = narrow.d_out_state;
  wide.far_q = narrow.far_q;
  wide.far_k = narrow.far_k;
  const Storage storage = narrow.inputs.q.storage;
  const Measured ours(narrow), theirs(wide);
  expect_rounded(storage, "out", narrow.out, wide.out);
  expect_rounded(storage, "out_state", narrow.out_state, wide.out_state);
  EXPECT_TRUE(same(narrow.lse, wide.lse));
  expect_same(ours, theirs);
  wide.out = narrow.out;
  wide.out_state = narrow.out_state;
  narrow.backward();
  wide.backward();
  expect_rounded(storage, "dq", narrow.dq, wide.dq);
  expect_rounded(storage, "dk", narrow.dk, wide.dk);
  expect_rounded(storage, "dv", narrow.dv, wide.dv);
  expect_rounded(storage, "d_state", narrow.d_state, wide.d_state);
  expect_rounded(storage, "d_far_q", narrow.d_far_q, wide.d_far_q);
  expect_rounded(storage, "d_far_k", narrow.d_far_k, wide.d_far_k);
  EXPECT_TRUE(same(narrow.d_table, wide.d_table));
  EXPECT_TRUE(same(narrow.d_w1, wide.d_w1) && same(narrow.d_b1, wide.d_b1));
  EXPECT_TRUE(same(narrow.d_w2, wide.d_w2) && same(narrow.d_b2, wide.d_b2));
  EXPECT_TRUE(same(narrow.d_factor, wide.d_factor) && same(narrow.d_slope, wide.d_slope));
  EXPECT_TRUE(same(narrow.d_intercept, wide.d_intercept));
}

/// A text with groups of heads; one with masks and small values; one of other numbers of queries
/// than keys, odd dimensions and large gradients. Values of about 2^-16 are below float16's least
/// exponent, and so are most results; gradients of 2^13 times as much pass its largest number.
void expect_as_float32(Kind kind, Storage storage, std::size_t which) {
  Problem problem{.kind = kind, .storage = storage};
  problem.shape = {2, 4, 2, 230, 230, 24};
  if (which == 0) {
    expect_as_float32(problem);
  } else if (which == 1) {
    problem.shape.window = 90;
    problem.padding = Padding::holes;
    problem.soft_cap = 3;
    expect_as_float32(problem, 0x1p-16f);
  } else {
    problem.shape = {2, 2, 1, 60, 330, 21};
    problem.shape.value_dim = 13;
    problem.shape.query_offset = 270;
    problem.shape.causal = false;
    expect_as_float32(problem, 1, 0x1p13f);
  }
}

// All three on the best instruction set; on each of the others, which take the same path with other
// vectors, one, by the variant.
TEST_P(EveryNarrowStorage, GivesTheRoundedResultsOfFloat32) {
  const Target best = current_target();
  std::size_t turn = 0;
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    SCOPED_TRACE(target_name(target));
    for (const Kind kind : all_kinds()) {
      for (std::size_t which = 0; which < 3; ++which) {
        if (target != best && (turn + static_cast<std::size_t>(kind)) % 3 != which) continue;
        expect_as_float32(kind, GetParam(), which);
      }
    }
    ++turn;
  }
  choose_target(best);
}

// The tensors of one call each in their own storage.
TEST_P(EveryNarrowStorage, MixesWithFloat32) {
  for (const Kind kind : all_kinds()) {
    Problem problem{.kind = kind, .shape = {1, 4, 2, 150, 150, 24}, .storage = GetParam()};
    SCOPED_TRACE(problem_name(problem));
    Case narrow(problem), mixed(problem);
    problem.storage = Storage::float32;
    Case wide(problem);
    wide.k = narrow.k;
    wide.d_out = narrow.d_out;
    mixed.inputs.k = wide.inputs.k;
    mixed.saved.d_out = wide.saved.d_out;
    mixed.gradients.dv = wide.gradients.dv;
    for (Case* c : {&narrow, &mixed}) {
      c->forward();
      c->backward();
    }
    EXPECT_TRUE(same(mixed.out, narrow.out) && same(mixed.lse, narrow.lse));
    EXPECT_TRUE(same(mixed.dq, narrow.dq) && same(mixed.dk, narrow.dk));
    expect_rounded(GetParam(), "dv", narrow.dv, wide.dv);
  }
}

// A result above 65504, and one that is no number.
TEST(NarrowStorage, KeepsInfinityAndNaN) {
  Problem problem;
  problem.shape = {1, 1, 1, 3, 3, 8};
  problem.storage = Storage::float16;
  Case c(problem);
  c.v[0] = std::numeric_limits<float>::infinity();
  c.v[1] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t n = 0; n < 3; ++n) c.d_out[n * 8 + 2] = 65504;
  c.forward();
  EXPECT_EQ(c.out[0], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(c.out[1]));
  EXPECT_TRUE(std::isfinite(c.out[2]));
  c.backward();
  // Key 0 has the weight 1 of row 0 and parts of the others'.
  EXPECT_EQ(c.dv[2], std::numeric_limits<float>::infinity());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryNarrowStorage,
                         ::testing::Values(Storage::bfloat16, Storage::float16),
                         [](const auto& info) {
                           return info.param == Storage::bfloat16 ? "bfloat16" : "float16";
                         });

}  // namespace phasescope::kernels::testing
