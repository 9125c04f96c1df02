// The CUDA form on the cases of the CPU tests, in both types, against float64. Compiled twice: for
// a device, and with kernels/cuda for the CPU (cuda_emulation/emulator.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/device_probes.h"
#include "tests/kernels/expect_right.h"
#include "tests/kernels/plain_half.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

double largest(const std::vector<float>& values) {
  float most = 0;
  for (const float x : values) most = std::max(most, std::abs(x));
  return static_cast<double>(most);
}

/// Sums over pairs of d score times up to |slope| factor, |slope| distance, u or 1. Like a table's
/// entry, each carries the rounding of d channels of out for each of its rows, here of all heads or
/// all distances.
void expect_right_fire(const Case& c, const Reference<double>& truth, const Reference<float>& plain,
                       double floor) {
  const AttentionShape& s = truth.s;
  const double rows = std::sqrt(static_cast<double>(s.head_dim * s.batch * s.queries));
  const double slope = largest(c.slope), heads = std::sqrt(static_cast<double>(s.heads));
  expect_close("d_distance", c.d_table, plain.d_table, truth.d_table, floor,
               rows * heads * slope * largest(c.factor));
  expect_close(
      "d_factor", c.d_factor, plain.d_factor, truth.d_factor, floor,
      std::sqrt(static_cast<double>(s.head_dim * s.batch)) * heads * slope * largest(c.table));
  expect_close("d_slope", c.d_slope, plain.d_slope, truth.d_slope, floor, rows);
  expect_close("d_intercept", c.d_intercept, plain.d_intercept, truth.d_intercept, floor, rows);
}

/// Sums over a row's or a column's pairs of d score, each with the rounding of d channels of its
/// row's out; a factor's times scores of about ten.
void expect_right_tokens(const Case& c, const Reference<double>& truth,
                         const Reference<float>& plain, double floor) {
  const double row = std::sqrt(static_cast<double>(truth.s.head_dim));
  const double column = row * std::sqrt(static_cast<double>(truth.s.queries));
  const double factor = std::max(1.0, largest(c.query_factor));
  expect_close("d_query_bias", c.d_query_bias, plain.d_query_bias, truth.d_query_bias, floor,
               factor * row);
  expect_close("d_key_bias", c.d_key_bias, plain.d_key_bias, truth.d_key_bias, floor,
               factor * column);
  expect_close("d_query_factor", c.d_query_factor, plain.d_query_factor, truth.d_query_factor,
               floor, 10 * row);
}

/// Sums over the pairs of all rows, whose scores' gradients carry the rounding of d channels of
/// out; of weights times an input or a hidden unit, which over FIRE are of the size of its slopes.
void expect_right_network(const Case& c, const Reference<double>& truth,
                          const Reference<float>& plain, double floor) {
  const AttentionShape& s = truth.s;
  const double rows = std::sqrt(static_cast<double>(s.head_dim * s.batch * s.queries));
  const auto& cape = std::get<CapeVariant>(c.inputs.variant);
  if (cape.form != CapeForm::content && !cape.fire) {
    expect_close("d_table", c.d_table, plain.d_table, truth.d_table, floor, rows);
  }
  const double units = cape.fire ? std::max(1.0, largest(c.slope)) : 1;
  expect_close("d_w1", c.d_w1, plain.d_w1, truth.d_w1, floor, rows * units);
  expect_close("d_b1", c.d_b1, plain.d_b1, truth.d_b1, floor, rows);
  expect_close("d_w2", c.d_w2, plain.d_w2, truth.d_w2, floor, rows * units);
  expect_close("d_b2", c.d_b2, plain.d_b2, truth.d_b2, floor, rows);
}

void expect_right_gradients(const HalfType& type, const Case& c, Reference<double>& truth,
                            Reference<float>& weights, double floor) {
  const auto* tape = std::get_if<TapeGradients>(&c.gradients.variant);
  const InputTensor d_out_state = tape ? tape->d_out_state : InputTensor{};
  truth.backward(c.saved.d_out, d_out_state);
  const PlainBackward twin(type, weights, c.saved.d_out, d_out_state);
  // d score is the difference of two sums of about this size, also where it is 0.
  const double gates = std::max(1.0, largest(c.gate));
  const double size = gates * std::sqrt(static_cast<double>(2 * truth.values()));
  if (!c.d_gate.empty()) {
    expect_close("d_gate", c.d_gate, twin.plain.d_gate, truth.d_gate, floor, size);
  }
  expect_close("dq", c.dq, twin.plain.dq, truth.dq, floor, size);
  expect_close("dk", c.dk, twin.plain.dk, truth.dk, floor, size);
  expect_close("dv", c.dv, twin.plain.dv, truth.dv, floor, size);
  if (!c.d_state.empty()) {
    expect_close("d_state", c.d_state, twin.plain.d_state, truth.d_state, floor, size);
  }
  if (!c.d_far_q.empty()) {
    expect_close("d_far_q", c.d_far_q, twin.plain.d_far_q, truth.d_far_q, floor, size);
    expect_close("d_far_k", c.d_far_k, twin.plain.d_far_k, truth.d_far_k, floor, size);
  }
  if (!c.d_sinks.empty()) {
    // Of each row the rounding of d channels of out.
    const double rows = static_cast<double>(truth.s.head_dim * truth.s.batch * truth.s.queries);
    expect_close("d_sinks", c.d_sinks, twin.plain.d_sinks, truth.d_sinks, floor, std::sqrt(rows));
  }
  if (!c.d_query_bias.empty()) expect_right_tokens(c, truth, twin.plain, floor);
  if (!c.d_factor.empty()) expect_right_fire(c, truth, twin.plain, floor);
  if (!c.d_w1.empty()) expect_right_network(c, truth, twin.plain, floor);
  if (std::holds_alternative<TableVariant>(c.inputs.variant)) {
    // An entry sums over rows whose delta = d_out . out carries the rounding of d channels of out
    // (the plain operation's delta is a sum of weights, and may have less).
    const AttentionShape& s = truth.s;
    const double rows = std::sqrt(static_cast<double>(s.head_dim * s.batch * s.queries));
    // Each times its content score, of up to three deviations, where the table multiplies.
    const double factor = std::get<TableVariant>(c.inputs.variant).multiplies
                              ? 3
                              : std::max(1.0, largest(c.query_factor));
    expect_close("d_table", c.d_table, twin.plain.d_table, truth.d_table, floor, factor * rows);
  }
  if (std::holds_alternative<QueryTableVariant>(c.inputs.variant)) {
    // Of one pair each: of its row the rounding of d channels of out.
    expect_close("d_table", c.d_table, twin.plain.d_table, truth.d_table, floor,
                 std::sqrt(static_cast<double>(truth.s.head_dim)));
  }
}

/// Rounding floor of results in the type, in units of 2^-24: four of its half units.
double result_floor(const HalfType& type) { return 4 * type.epsilon / 0x1p-24; }

/// lse is float32 from float32 scores. TAPA's phases here reach 200 radians, whose rounding alone
/// moves a cosine by 200 units.
double lse_floor(const Problem& problem) { return has_phase(problem.kind) ? 200 : 16; }

}  // namespace

void expect_right(const HalfType& type, const Problem& problem, bool with_probes,
                  std::size_t cape_bytes) {
  Case c(problem);
  expect_right(type, problem, c, with_probes, cape_bytes);
}

void expect_right(const HalfType& type, const Problem& problem, Case& c, bool with_probes,
                  std::size_t cape_bytes) {
  expect_right(type, problem, c, with_probes, [&](CudaAttention& attention) {
    if (with_probes || cape_bytes > 0) {
      attention.cape_bytes = std::max<std::size_t>(cape_bytes, 1);
    }
  });
}

void expect_right(const HalfType& type, const Problem& problem, Case& c, bool with_probes,
                  const DeviceChange& change) {
  SCOPED_TRACE(std::string(type.name) + " " + problem_name(problem));
  DeviceCase device(type, c);
  change(device.attention);
  std::unique_ptr<DeviceProbes> probes;
  if (with_probes) {
    probes = std::make_unique<DeviceProbes>(device.attention, 9);
    probes->put(device.outputs);
  }
  device.forward();
  Reference<double> truth(c.inputs);
  PlainForward twin(type, c.inputs);
  expect_close("out", c.out, twin.plain.out, truth.out, result_floor(type), 1);
  expect_close("lse", c.lse, twin.plain.lse, truth.lse, lse_floor(problem), 1);
  if (problem.kind == Kind::tape) {
    expect_close("out_state", c.out_state, twin.plain.out_state, truth.out_state,
                 result_floor(type), 1);
  }
  if (with_probes) probes->expect_right(problem, truth);
  // Where the backward pass has no Hopper form the same cases hold it without.
  if (in_hopper_form && !has_hopper_backward(problem.kind)) return;
  if (has_hopper_backward(problem.kind)) device.expect_hopper_backward();
  device.backward();
  expect_right_gradients(type, c, truth, twin.plain, result_floor(type));
}

namespace {

class Cuda : public InForm {
 protected:
  /// Types in turn, and probes every other time.
  void check(const Problem& problem) {
    expect_right(kTypes[turn_ % 2], problem, turn_ / 2 % 2 == 1);
    ++turn_;
  }
  std::size_t turn_ = static_cast<std::size_t>(kind());
};

// What the emulation takes grows with pairs of tiles, heads and padded channels, whatever a tile
// has of them: a second tile shows what a third would, two heads of one group what seven would, and
// each of these lists takes two of its factors together, not all.

// Each size with one of the dimensions; the short ones with one of the groups, others with two
// heads.
TEST_P(Cuda, IsRightAtEverySize) {
  for (const std::int64_t size : {1, 2, 17, 64, 65, 81, 129}) {
    Problem problem{kind()};
    const std::int64_t dims[] = {16, 64, 80, 128};
    problem.shape = {1, size > 20 ? 2 : kGroups[turn_ % 3], 1, size, size, dims[turn_ % 4]};
    check(problem);
  }
}

// Of both padded sizes, 64 and 128, each type, with probes and without.
TEST_P(Cuda, IsRightAtEveryHeadDimension) {
  for (const std::int64_t dim : {16, 48, 64, 80, 96, 128}) {
    Problem problem{kind()};
    problem.shape = {1, 2, 2, 19, 70, dim};
    problem.shape.query_offset = 51;
    check(problem);
  }
}

TEST_P(Cuda, IsRightForOtherNumbersOfQueriesThanKeys) {
  Problem problem{kind()};
  // An offset that lets a block of keys end one past what the first query of a warp sees.
  problem.shape = {1, 2, 1, 70, 150, 32};
  problem.shape.query_offset = 78;
  check(problem);
  problem.shape.causal = false;
  check(problem);
  // One pair in a tile of its own.
  problem.shape = {1, 2, 1, 70, 150, 32};
  problem.shape.query_offset = 65;
  check(problem);
  problem.shape = {1, 2, 2, 1, 140, 64};
  problem.shape.query_offset = 139;
  check(problem);
}

TEST_P(Cuda, IsRightWhereRowsSeeNoKey) {
  Problem problem{kind()};
  problem.shape = {1, 2, 2, 120, 70, 16};
  problem.shape.query_offset = -70;  // rows 0 .. 69 come before key 0
  check(problem);
  check(problem);
  problem.shape.query_offset = -500;
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.forward();
  device.backward();
  for (const float x : c.out) EXPECT_EQ(x, 0.0f);
  for (const float x : c.lse) EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
  for (const float x : c.dq) EXPECT_EQ(x, 0.0f);
  for (const float x : c.dk) EXPECT_EQ(x, 0.0f);
  for (const float x : c.dv) EXPECT_EQ(x, 0.0f);
}

// Windows of 2 and 66: one pair in a tile of its own.
const MaskSizes kMasks{
    .window = {1, 1, 1, 130, 130, 16},
    .windows = {1, 2, 17, 66},
    .late = {.batch = 1,
             .heads = 2,
             .kv_heads = 2,
             .queries = 40,
             .keys = 230,
             .head_dim = 48,
             .query_offset = 180,
             .window = 60},
    .padding = {3, 1, 1, 70, 70, 16},
    .padding_window = 30,
    .cap = {1, 2, 1, 81, 81, 16},
    .cap_and_masks = {2, 2, 2, 70, 70, 16, 0, true, 0, 40},
    .documents = {2, 1, 1, 90, 90, 16},
    .documents_window = 30,
};

TEST_P(Cuda, IsRightWithAWindow) {
  for (const Problem& problem : window_problems(kind(), kMasks)) check(problem);
}

TEST_P(Cuda, IsRightWithPadding) {
  for (const Problem& problem : padding_problems(kind(), kMasks)) check(problem);
}

TEST_P(Cuda, IsRightWithDocuments) {
  for (const Problem& problem : document_problems(kind(), kMasks)) check(problem);
}

/// Two documents whose tokens come in turns of 64: between the tokens of one of them lie whole
/// tiles of the other.
void put_in_turns_of_tiles(Case& c) {
  const auto tokens = static_cast<std::size_t>(c.inputs.shape.keys);
  for (std::size_t n = 0; n < c.key_documents.size(); ++n) {
    c.query_documents[n] = c.key_documents[n] = n % tokens / 64 % 2 == 0
                                                    ? std::numeric_limits<std::int32_t>::max()
                                                    : std::numeric_limits<std::int32_t>::min();
  }
}
std::vector<Problem> problems_in_turns_of_tiles(Kind kind) {
  Problem problem{.kind = kind, .shape = {1, 2, 1, 270, 270, 16}, .documents = Documents::mixed};
  std::vector<Problem> problems{problem};
  problem.shape = {1, 2, 2, 200, 200, 16};
  problem.shape.causal = false;
  problem.shape.window = 140;
  problems.push_back(problem);
  return problems;
}

TEST_P(Cuda, IsRightWithTilesOfOtherDocuments) {
  for (const Problem& problem : problems_in_turns_of_tiles(kind())) {
    Case c(problem);
    put_in_turns_of_tiles(c);
    expect_right(kTypes[turn_ % 2], problem, c, turn_ / 2 % 2 == 1);
    ++turn_;
  }
}

/// The tiles 1, 3, ... of tokens, of (.., tokens, row) numbers.
bool is_of_odd_tile(std::size_t n, std::int64_t tokens, std::int64_t row) {
  return static_cast<std::int64_t>(n) / row % tokens / 64 % 2 == 1;
}

// A weight of 0 times NaN would be NaN: the tiles are left out, not masked.
TEST_P(Cuda, LeavesOutTilesOfOtherDocuments) {
  for (Problem problem : problems_in_turns_of_tiles(kind())) {
    problem.shape.kv_heads = problem.shape.heads;
    const std::int64_t tokens = problem.shape.keys, batch = problem.shape.batch;
    Case whole(problem), spoilt(problem);
    const auto row = [&](const std::vector<float>& values, std::int64_t rows) {
      return std::max<std::int64_t>(static_cast<std::int64_t>(values.size()) / rows, 1);
    };
    const auto spoil = [&](std::vector<float>& values, std::int64_t rows) {
      for (std::size_t n = 0; n < values.size(); ++n) {
        if (is_of_odd_tile(n, tokens, row(values, rows))) {
          values[n] = std::numeric_limits<float>::quiet_NaN();
        }
      }
    };
    const std::int64_t rows = batch * problem.shape.heads * tokens;
    // (B, N, H, d), then (B, H, N, d).
    for (auto* values :
         {&spoilt.q, &spoilt.k, &spoilt.v, &spoilt.state, &spoilt.far_q, &spoilt.far_k}) {
      spoil(*values, batch * tokens);
    }
    for (auto* values : {&spoilt.d_out, &spoilt.d_out_state}) spoil(*values, rows);
    for (Case* c : {&whole, &spoilt}) {
      put_in_turns_of_tiles(*c);
      DeviceCase device(kTypes[turn_ % 2], *c);
      device.forward();
      device.backward();
    }
    ++turn_;
    for (const auto result : {&Case::out, &Case::out_state, &Case::lse, &Case::dq, &Case::dk,
                              &Case::dv, &Case::d_state, &Case::d_far_q, &Case::d_far_k}) {
      const std::vector<float>&expected = whole.*result, &got = spoilt.*result;
      for (std::size_t n = 0; n < got.size(); ++n) {
        if (is_of_odd_tile(n, tokens, row(got, rows))) continue;
        ASSERT_EQ(got[n], expected[n]) << n;
      }
    }
  }
}

TEST_P(Cuda, IsRightWithASoftCap) {
  for (const Problem& problem : soft_cap_problems(kind(), kMasks)) check(problem);
}

TEST_P(Cuda, IsRightWithSinks) {
  for (const Problem& problem : sink_problems(kind(), kMasks)) {
    expect_right(kTypes[turn_ % 2], problem, turn_ % 3 != 0);
    ++turn_;
  }
}

TEST_P(Cuda, IsRightWithGates) {
  for (const Problem& problem : gate_problems(kind(), kMasks)) check(problem);
}

TEST_P(Cuda, GivesTheSameBitsEveryTime) {
  Problem problem{kind()};
  problem.shape = {1, 4, 2, 129, 129, 32};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  std::vector<std::vector<float>> first;
  for (int n = 0; n < 3; ++n) {
    device.forward();
    device.backward();
    std::vector<std::vector<float>> results{
        c.out,     c.out_state,   c.lse,  c.dq,   c.dk,   c.dv,   c.d_state, c.d_table, c.d_factor,
        c.d_slope, c.d_intercept, c.d_w1, c.d_b1, c.d_w2, c.d_b2, c.d_far_q, c.d_far_k};
    if (n == 0) first = results;
    EXPECT_TRUE(results == first);
  }
}

// A score of s carries a rounding of 2^-24 s, which is that share of its weight, and the backward
// pass reads weights from a float32 log-sum-exp with a rounding of its own. Rows are near to one
// weight alone here: gradients of scores are small, those that the score's rounding makes of them
// (times q of 3000, in dk) are as large, so that of dk and of what the scores are made from nothing
// but finite numbers can be asked.
TEST_P(Cuda, IsRightWithScoresOfTenThousand) {
  for (const HalfType& type : kTypes) {
    SCOPED_TRACE(type.name);
    Problem problem{kind()};
    problem.shape = {1, 2, 2, 70, 70, 32};
    problem.magnitude = 3e3f;
    Case c(problem);
    DeviceCase device(type, c);
    device.forward();
    device.backward();
    for (const auto* values :
         {&c.out, &c.out_state, &c.dq, &c.dk, &c.dv, &c.d_state, &c.d_table, &c.d_factor,
          &c.d_slope, &c.d_intercept, &c.d_w1, &c.d_b1, &c.d_w2, &c.d_b2}) {
      // A gradient through a phase may be more than float16 holds.
      for (const float x : *values) {
        EXPECT_TRUE(std::isfinite(x) || (has_phase(kind()) && std::isinf(x)));
      }
    }
    if (has_phase(kind())) continue;  // phases of 1e5 radians are noise in float32
    Reference<double> truth(c.inputs);
    PlainForward twin(type, c.inputs);
    const double largest = *std::max_element(truth.lse.begin(), truth.lse.end());
    EXPECT_GT(largest, 8e3);
    const double floor = result_floor(type) + 2 * largest;  // a score's and the log-sum-exp's
    expect_close("out", c.out, twin.plain.out, truth.out, floor, 1);
    expect_close("lse", c.lse, twin.plain.lse, truth.lse, 16, 1);
    const auto* tape = std::get_if<TapeGradients>(&c.gradients.variant);
    const InputTensor d_state = tape ? tape->d_out_state : InputTensor{};
    truth.backward(c.saved.d_out, d_state);
    const PlainBackward back(type, twin.plain, c.saved.d_out, d_state);
    const double size = std::sqrt(static_cast<double>(2 * truth.values()));
    expect_close("dq", c.dq, back.plain.dq, truth.dq, floor, size);
    expect_close("dv", c.dv, back.plain.dv, truth.dv, floor, size);
  }
}

TEST_P(Cuda, PassesNaNOn) {
  Problem problem{kind()};
  problem.shape = {1, 2, 2, 70, 70, 16};
  Case c(problem);
  // Row 40 of batch 0, head 0; q lies as (B, N, H, d).
  c.q[40 * 2 * 16] = std::numeric_limits<float>::quiet_NaN();
  DeviceCase device(kTypes[0], c);
  device.forward();
  EXPECT_TRUE(std::isnan(c.out[40 * 16]));
  EXPECT_TRUE(std::isnan(c.lse[40]));
  EXPECT_TRUE(std::isfinite(c.out[39 * 16]));
  EXPECT_TRUE(std::isfinite(c.lse[41]));
  device.backward();
  EXPECT_TRUE(std::isnan(c.dq[40 * 16]));
  EXPECT_TRUE(std::isfinite(c.dq[39 * 16]));
  EXPECT_TRUE(std::isnan(c.dv[0]));
}

TEST_P(Cuda, LongIsRightInEveryPairOfSizes) {
  for (Problem problem : paired_problems(kind())) {
    // Half of 8 channels is no state that the kernels take.
    std::int64_t& dim = problem.shape.head_dim;
    if (kind() == Kind::tape && dim == 8 && problem.shape.keys % 2 == 0) dim = 16;
    check(problem);
  }
}

TEST_P(Cuda, LongIsRightWithEveryMask) {
  for (const Problem& problem : every_mask_problem(kind(), kMasks)) check(problem);
}

// A group of seven, and of each head dimension both types with probes and without.
TEST_P(Cuda, LongIsRightForEveryFormOfEachHeadDimension) {
  for (const HalfType& type : kTypes) {
    for (const std::int64_t dim : {16, 48, 64, 80, 96, 128}) {
      Problem problem{kind()};
      problem.shape = {1, 7, 1, 81, 150, dim};
      problem.shape.query_offset = 69;
      expect_right(type, problem, true);
      expect_right(type, problem, false);
    }
  }
}

TEST_P(Cuda, LongIsRightInLongTexts) {
  for (const HalfType& type : kTypes) {
    for (const std::int64_t dim : {64, 128}) {
      Problem problem{kind()};
      problem.shape = {1, 2, 1, 1000, 1000, dim};
      expect_right(type, problem, true);
    }
  }
}

const std::vector<Kind> kHopperKinds = {Kind::plain, Kind::table,       Kind::table_signed,
                                        Kind::tapa,  Kind::tapa_linear, Kind::tape};
INSTANTIATE_TEST_SUITE_P(Kernels, Cuda, ::testing::ValuesIn(in_form(false, kinds_on_cuda())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, Cuda, ::testing::ValuesIn(in_form(true, kHopperKinds)), name_of);

/// CAPE's pairs go through a network, whatever is masked.
class CudaTilesOfPadding : public Cuda {};

// Tiles 1 and 3 of the keys are padding as a whole, tile 2 in part: as above, by queries. What sums
// by key or over distances goes over these tiles all the same.
TEST_P(CudaTilesOfPadding, AreLeftOut) {
  constexpr std::size_t kTokens = 200;
  Problem problem{kind()};
  problem.shape = {1, 1, 1, kTokens, kTokens, 16};
  problem.padding = Padding::right;
  Case whole(problem), spoilt(problem);
  for (Case* c : {&whole, &spoilt}) {
    for (std::size_t n = 0; n < c->real.size(); ++n) {
      c->real[n] = n / 64 % 2 == 0 && (n / 64 != 2 || n % 3 > 0);
    }
  }
  for (auto* values : {&spoilt.k, &spoilt.v, &spoilt.state}) {
    const std::size_t row = std::max<std::size_t>(values->size() / kTokens, 1);
    for (std::size_t n = 0; n < values->size(); ++n) {
      if (n / row / 64 % 2 == 1) (*values)[n] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  for (Case* c : {&whole, &spoilt}) {
    DeviceCase device(kTypes[turn_ % 2], *c);
    device.forward();
    if (!in_hopper_form || has_hopper_backward(kind())) device.backward();
  }
  EXPECT_TRUE(std::isfinite(whole.lse[kTokens - 1]));
  for (const auto result : {&Case::out, &Case::out_state, &Case::lse, &Case::dq}) {
    EXPECT_TRUE(spoilt.*result == whole.*result);
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaTilesOfPadding,
                         ::testing::ValuesIn(in_form(false, kinds_but_cape())), name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, CudaTilesOfPadding,
                         ::testing::ValuesIn(in_form(true, kHopperKinds)), name_of);

class CudaTables : public Cuda {};

TEST_P(CudaTables, MaskWithMinusInfinity) {
  Problem problem{kind()};
  problem.infinite_table = true;
  for (const std::int64_t size : {1, 17, 130}) {
    problem.shape = {2, 2, 2, size, size, 16};
    check(problem);
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaTables,
                         ::testing::ValuesIn(in_form(false, {Kind::table, Kind::table_signed})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, CudaTables,
                         ::testing::ValuesIn(in_form(true, {Kind::table, Kind::table_signed})),
                         name_of);

class CudaFire : public Cuda {};

// No knot, one, as many as an MLP of 33 units has, and the most; of every other number, and of the
// most, u that falls along a diagonal.
TEST_P(CudaFire, IsRightForEveryNumberOfKnots) {
  Problem problem{kind()};
  for (const std::int64_t knots : {0, 1, 33, 63}) {
    problem.knots = knots;
    problem.steep = knots == 0 || knots == 33;
    problem.shape = {1, 2, 1, 130, 130, 16};
    check(problem);
  }
  problem.steep = true;
  problem.shape = {2, 1, 1, 190, 190, 16};
  check(problem);
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaFire, ::testing::Values(KindInForm{Kind::fire}), name_of);

}  // namespace
}  // namespace phasescope::kernels::testing
