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
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

/// The plain operation in a 16-bit type: weights and results are rounded to it.
struct PlainForward {
  PlainForward(const HalfType& type, const AttentionInputs& inputs) : plain(inputs) {
    for (float& p : plain.weight) p = type.round(p);
    plain.out = plain.average(plain.v);
    if (plain.gate.dim() > 0) {
      plain.ungated = plain.out;
      for (float& x : plain.ungated) x = type.round(x);
      plain.apply_gate();
    }
    if (plain.state.dim() > 0) plain.out_state = plain.average(plain.state);
    for (auto* results : {&plain.out, &plain.out_state}) {
      for (float& x : *results) x = type.round(x);
    }
  }
  Reference<float> plain;
};

/// The plain backward operation in a 16-bit type: weights, their gradients and those of the scores
/// are rounded to it, and the results.
struct PlainBackward {
  PlainBackward(const HalfType& type, Reference<float>& weights, const InputTensor& d_out,
                const InputTensor& d_out_state)
      : plain(weights) {
    const AttentionShape& s = plain.s;
    plain.clear_gradients();
    Rows<float> d_values = plain.of_queries(d_out, plain.values());
    if (plain.gate.dim() > 0) {
      plain.gate_gradients(d_values);
      d_values.for_each([&](float& x) { x = type.round(x); });
    }
    const Rows<float> d_states = plain.of_queries(d_out_state, plain.state.dim());
    for (std::int64_t n = 0; n < s.batch * s.queries; ++n) {
      row(type, n / s.queries, n % s.queries, d_values, d_states);
    }
    for (auto* results : {&plain.dq, &plain.dk, &plain.dv, &plain.d_state, &plain.d_gate,
                          &plain.d_far_q, &plain.d_far_k}) {
      for (float& x : *results) x = type.round(x);
    }
  }

  void row(const HalfType& type, std::int64_t b, std::int64_t i, const Rows<float>& d_out,
           const Rows<float>& d_out_state) {
    const AttentionShape& s = plain.s;
    std::vector<float> d_score(static_cast<std::size_t>(s.heads * s.keys));
    for (std::int64_t h = 0; h < s.heads; ++h) {
      float* ds = d_score.data() + h * s.keys;
      const float* p = plain.weight.data() + plain.at(b, h, i, 0);
      float mean = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        if (p[j] == 0) continue;
        ds[j] = plain.value_gradient(b, h, i, j, p[j], d_out, plain.v, plain.dv);
        if (d_out_state.dim() > 0) {
          ds[j] += plain.value_gradient(b, h, i, j, p[j], d_out_state, plain.state, plain.d_state);
        }
        ds[j] = type.round(ds[j]);
        mean += p[j] * ds[j];
      }
      if (plain.in.sinks) {
        plain.d_sinks[static_cast<std::size_t>(h)] -=
            plain.sink_weight[static_cast<std::size_t>(plain.row(b, h, i))] * mean;
      }
      for (std::int64_t j = 0; j < s.keys; ++j) {
        ds[j] = type.round(p[j] * (ds[j] - mean)) * plain.cap_slope(plain.at(b, h, i, j));
        if (p[j] == 0) ds[j] = 0;
      }
    }
    for (std::int64_t j = 0; j < s.keys; ++j) {
      if (plain.visible(b, i, j)) plain.pair_gradient(b, i, j, d_score);
    }
  }

  Reference<float>& plain;
};

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
  SCOPED_TRACE(std::string(type.name) + " " + problem_name(problem));
  DeviceCase device(type, c);
  if (with_probes || cape_bytes > 0) {
    device.attention.cape_bytes = std::max<std::size_t>(cape_bytes, 1);
  }
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
  device.backward();
  expect_right_gradients(type, c, truth, twin.plain, result_floor(type));
}

namespace {

class Cuda : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
  }

  /// Types in turn, and probes every other time.
  void check(const Problem& problem) {
    expect_right(kTypes[turn_ % 2], problem, turn_ / 2 % 2 == 1);
    ++turn_;
  }
  std::size_t turn_ = static_cast<std::size_t>(GetParam());
};

// Pairwise: each size with one of the dimensions and groups.
TEST_P(Cuda, IsRightAtEverySize) {
  for (const std::int64_t size : {1, 2, 17, 64, 65, 81, 129}) {
    Problem problem{GetParam()};
    const std::int64_t dims[] = {16, 64, 80, 128};
    problem.shape = {1, size > 100 ? 2 : kGroups[turn_ % 3], 1, size, size, dims[turn_ % 4]};
    check(problem);
  }
}

TEST_P(Cuda, IsRightAtEveryHeadDimension) {
  for (const HalfType& type : kTypes) {
    for (const std::int64_t dim : {16, 48, 64, 80, 96, 128}) {
      Problem problem{GetParam()};
      problem.shape = {1, 2, 2, 19, 70, dim};
      problem.shape.query_offset = 51;
      expect_right(type, problem, dim % 32 == 0);
    }
  }
}

TEST_P(Cuda, IsRightForOtherNumbersOfQueriesThanKeys) {
  Problem problem{GetParam()};
  // An offset that lets a block of keys end one past what the first query of a warp sees.
  problem.shape = {1, 4, 2, 70, 150, 32};
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
  Problem problem{GetParam()};
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
  for (const Problem& problem : window_problems(GetParam(), kMasks)) check(problem);
}

TEST_P(Cuda, IsRightWithPadding) {
  for (const Problem& problem : padding_problems(GetParam(), kMasks)) check(problem);
}

TEST_P(Cuda, IsRightWithDocuments) {
  for (const Problem& problem : document_problems(GetParam(), kMasks)) check(problem);
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
  for (const Problem& problem : problems_in_turns_of_tiles(GetParam())) {
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
  for (Problem problem : problems_in_turns_of_tiles(GetParam())) {
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
  for (const Problem& problem : soft_cap_problems(GetParam(), kMasks)) check(problem);
}

TEST_P(Cuda, IsRightWithSinks) {
  for (const Problem& problem : sink_problems(GetParam(), kMasks)) {
    expect_right(kTypes[turn_ % 2], problem, turn_ % 3 != 0);
    ++turn_;
  }
}

TEST_P(Cuda, IsRightWithGates) {
  for (const Problem& problem : gate_problems(GetParam(), kMasks)) check(problem);
}

// Tiles 1 and 3 of the keys are padding as a whole, tile 2 in part: as above, by queries. What sums
// by key or over distances goes over these tiles all the same.
TEST_P(Cuda, LeavesOutTilesOfPadding) {
  if (is_cape(GetParam())) GTEST_SKIP() << "its pairs go through a network, whatever is masked";
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 270, 270, 16};
  problem.padding = Padding::right;
  Case whole(problem), spoilt(problem);
  for (Case* c : {&whole, &spoilt}) {
    for (std::size_t n = 0; n < c->real.size(); ++n) {
      c->real[n] = n / 64 % 2 == 0 && (n / 64 != 2 || n % 3 > 0);
    }
  }
  for (auto* values : {&spoilt.k, &spoilt.v, &spoilt.state}) {
    const std::size_t row = std::max<std::size_t>(values->size() / 270, 1);
    for (std::size_t n = 0; n < values->size(); ++n) {
      if (n / row / 64 % 2 == 1) (*values)[n] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  for (Case* c : {&whole, &spoilt}) {
    DeviceCase device(kTypes[turn_ % 2], *c);
    device.forward();
    device.backward();
  }
  EXPECT_TRUE(std::isfinite(whole.lse[269]));
  for (const auto result : {&Case::out, &Case::out_state, &Case::lse, &Case::dq}) {
    EXPECT_TRUE(spoilt.*result == whole.*result);
  }
}

TEST_P(Cuda, GivesTheSameBitsEveryTime) {
  Problem problem{GetParam()};
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
    Problem problem{GetParam()};
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
        EXPECT_TRUE(std::isfinite(x) || (has_phase(GetParam()) && std::isinf(x)));
      }
    }
    if (has_phase(GetParam())) continue;  // phases of 1e5 radians are noise in float32
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
  Problem problem{GetParam()};
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
  for (const Problem& problem : paired_problems(GetParam())) check(problem);
}

TEST_P(Cuda, LongIsRightInLongTexts) {
  for (const HalfType& type : kTypes) {
    for (const std::int64_t dim : {64, 128}) {
      Problem problem{GetParam()};
      problem.shape = {1, 2, 1, 1000, 1000, dim};
      expect_right(type, problem, true);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Cuda, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

class CudaTables : public Cuda {};

TEST_P(CudaTables, MaskWithMinusInfinity) {
  Problem problem{GetParam()};
  problem.infinite_table = true;
  for (const std::int64_t size : {1, 17, 130}) {
    problem.shape = {2, 2, 2, size, size, 16};
    check(problem);
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaTables, ::testing::Values(Kind::table, Kind::table_signed),
                         [](const auto& info) { return kind_name(info.param); });

class CudaFire : public Cuda {};

// No knot, one, as many as an MLP of 33 units has, and the most; u that falls along a diagonal.
TEST_P(CudaFire, IsRightForEveryNumberOfKnots) {
  Problem problem{GetParam()};
  for (const std::int64_t knots : {0, 1, 33, 63}) {
    problem.knots = knots;
    problem.steep = false;
    problem.shape = {2, 2, 1, 130, 130, 16};
    check(problem);
    problem.steep = true;
    problem.shape = {1, 1, 1, 190, 190, 16};
    check(problem);
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaFire, ::testing::Values(Kind::fire),
                         [](const auto& info) { return kind_name(info.param); });

// One document among 23 of 100 tokens each: in the first, the middle and the last of 36 tiles, of
// which a warp asks for 32 at a time.
TEST(CudaChecks, FindADocumentAmongManyTiles) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  for (const std::int32_t document : {0, 11, 22}) {
    for (const bool among_keys : {true, false}) {
      Problem problem{.kind = Kind::plain, .documents = Documents::mixed};
      problem.shape = {1, 1, 1, among_keys ? 10 : 2300, among_keys ? 2300 : 10, 16};
      problem.shape.query_offset = among_keys ? 2290 : 0;
      Case c(problem);
      std::vector<std::int32_t>& few = among_keys ? c.query_documents : c.key_documents;
      std::vector<std::int32_t>& many = among_keys ? c.key_documents : c.query_documents;
      std::fill(few.begin(), few.end(), document);
      for (std::size_t n = 0; n < many.size(); ++n) many[n] = static_cast<std::int32_t>(n / 100);
      expect_right(kTypes[0], problem, c, true);
    }
  }
}

// Where a score is a dot product times a positive number, the kernel keeps dot products: others are
// scaled first.
TEST(CudaChecks, ScaleByZeroAndByLess) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  for (const float scale : {0.0f, -0.4f}) {
    for (const bool with_probes : {true, false}) {
      Problem problem{Kind::plain};
      problem.shape = {1, 2, 1, 150, 150, 32};
      Case c(problem);
      c.inputs.scale = scale;
      expect_right(kTypes[1], problem, c, with_probes);
    }
  }
}

TEST(CudaChecks, RefuseWhatTheKernelsCannotDo) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::table};
  problem.shape = {1, 2, 1, 20, 20, 64};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  const DeviceArray<std::int32_t> documents(20);
  const auto refuses = [&](auto change) {
    CudaAttention attention = device.attention;
    change(attention);
    EXPECT_THROW(cuda_attention_forward(attention, device.outputs), std::invalid_argument);
  };
  refuses([](CudaAttention& a) { a.shape.head_dim = 20; });
  refuses([](CudaAttention& a) { a.shape.head_dim = 136; });
  refuses([](CudaAttention& a) { a.shape.kv_heads = 3; });
  refuses([](CudaAttention& a) { a.k.row = 65; });
  refuses([](CudaAttention& a) { a.soft_cap = -1; });
  refuses([&](CudaAttention& a) { a.key_documents = documents.data(); });
  refuses([&](CudaAttention& a) { a.query_documents = a.key_documents = documents.data(); });
  refuses([](CudaAttention& a) { std::get<TableVariant>(a.variant).length = 10; });
  refuses([](CudaAttention& a) { a.variant = TapaVariant{}; });
  refuses([](CudaAttention& a) { a.variant = FireVariant{}; });
  refuses([](CudaAttention& a) { a.variant = CapeVariant{}; });
  refuses([](CudaAttention& a) { a.variant = TapeVariant{a.k, 136}; });
}

TEST(CudaChecks, RefuseClampsWithoutTheirArraysAndGatesOfOtherWidths) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{.kind = Kind::clamp, .shape = {1, 2, 1, 20, 20, 64}};
  Case clamp(problem);
  DeviceCase far(kTypes[0], clamp);
  far.forward();
  const DeviceArray<char> workspace(cuda_backward_workspace(far.attention));
  CudaGradients gradients = far.gradients(workspace.data());
  gradients.variant = std::monostate{};
  EXPECT_THROW(cuda_attention_backward(far.attention, far.saved(), gradients),
               std::invalid_argument);
  std::get<ClampVariant>(far.attention.variant).limits = nullptr;
  EXPECT_THROW(far.forward(), std::invalid_argument);
  problem.kind = Kind::plain, problem.gates = Gates::by_channel;
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.attention.gate_dim = 8;
  EXPECT_THROW(device.forward(), std::invalid_argument);
}

TEST(CudaChecks, RefuseMoreOfFireAndCapeThanTheyKeep) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem fire{Kind::fire};
  fire.shape = {1, 2, 1, 20, 20, 64};
  fire.knots = 64;
  Case many(fire);
  EXPECT_THROW(DeviceCase(kTypes[0], many).forward(), std::invalid_argument);
  fire.knots = 2;
  Case full(fire);
  DeviceCase uncausal(kTypes[0], full);
  uncausal.attention.shape.causal = false;
  EXPECT_THROW(uncausal.forward(), std::invalid_argument);

  Problem cape{Kind::cape};
  cape.shape = {1, 2, 1, 20, 20, 64};
  cape.hidden = 65;
  Case wide(cape);
  EXPECT_THROW(DeviceCase(kTypes[0], wide).forward(), std::invalid_argument);
  // The forward pass has room for these, the network's gradients have not.
  cape.shape.heads = 64;
  cape.hidden = 64;
  Case large(cape);
  DeviceCase device(kTypes[0], large);
  device.forward();
  EXPECT_THROW(device.backward(), std::invalid_argument);
  device.outputs.score_workspace = nullptr;
  EXPECT_THROW(cuda_attention_forward(device.attention, device.outputs), std::invalid_argument);
  const auto last = std::get<CapeVariant>(device.attention.variant).length;
  std::get<CapeVariant>(device.attention.variant).length = std::min<std::int64_t>(last, 19);
  EXPECT_THROW(device.forward(), std::invalid_argument);
  std::get<CapeVariant>(device.attention.variant).length = last;
  EXPECT_NO_THROW(device.forward());
  std::get<CapeVariant>(device.attention.variant).fire.emplace();  // without its arrays
  EXPECT_THROW(device.forward(), std::invalid_argument);
}

}  // namespace
}  // namespace phasescope::kernels::testing
