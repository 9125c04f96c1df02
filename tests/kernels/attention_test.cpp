// Forward and backward of every variant against float64: sizes, head dimensions, groups, masks,
// large scores, every instruction set.

#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/problem.h"
#include "kernels/cpu/targets.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

void expect_network_gradients(const Problem& problem, const Case& c, const Reference<double>& truth,
                              const Reference<float>& plain, double floor, double size) {
  if (c.d_w1.empty()) return;
  // A row's d score sums to 0, so d_b2 is 0 but for the rounding of its rows, and the others are
  // the same sum with factors of either sign: 0 too where every row sees one key.
  const double rows = static_cast<double>(problem.shape.batch * problem.shape.queries);
  expect_close("d_w1", c.d_w1, plain.d_w1, truth.d_w1, floor, std::sqrt(rows) * size);
  expect_close("d_b1", c.d_b1, plain.d_b1, truth.d_b1, floor, std::sqrt(rows) * size);
  expect_close("d_w2", c.d_w2, plain.d_w2, truth.d_w2, floor, std::sqrt(rows) * size);
  expect_close("d_b2", c.d_b2, plain.d_b2, truth.d_b2, floor, std::sqrt(rows) * size);
}

/// Largest magnitude.
double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float x : values) most = std::max(most, std::abs(static_cast<double>(x)));
  return most;
}

/// What d score is multiplied by on its way to FIRE's distances, and to the entries of a table that
/// multiplies content scores (of about three deviations), or by queries' vectors to relative keys;
/// 1 for others, whose table is added.
double table_factor(const Problem& problem, const Case& c) {
  if (problem.kind == Kind::table_multiplied) return 3;
  if (!c.far_q.empty()) return std::max(1.0, largest(c.far_q));
  return c.slope.empty() ? 1 : std::max(1.0, largest(c.slope) * largest(c.factor));
}

void expect_fire_gradients(const Problem& problem, const Case& c, const Reference<double>& truth,
                           const Reference<float>& plain, double floor, double size) {
  if (c.d_slope.empty()) return;
  // Sums over all pairs of a head, whose d score cancel: see d_b2 above. u is below 1.
  const double rows = static_cast<double>(problem.shape.batch * problem.shape.queries);
  expect_close("d_slope", c.d_slope, plain.d_slope, truth.d_slope, floor, rows * size);
  expect_close("d_intercept", c.d_intercept, plain.d_intercept, truth.d_intercept, floor,
               rows * size);
  // Over batch and heads, each with a slope and a distance.
  const double heads = std::sqrt(static_cast<double>(problem.shape.batch * problem.shape.heads));
  const double factor = std::max(1.0, largest(c.slope) * largest(c.table));
  expect_close("d_factor", c.d_factor, plain.d_factor, truth.d_factor, floor,
               heads * factor * size);
}

void expect_token_gradients(const Problem& problem, const Case& c, const Reference<double>& truth,
                            const Reference<float>& plain, double floor, double size) {
  if (!has_tokens(problem.kind)) return;
  // A row's d score sums to 0; a key's is a sum over rows, as a sink's is.
  const double rows = std::sqrt(static_cast<double>(problem.shape.queries));
  const double factor = std::max(1.0, largest(c.query_factor));
  expect_close("d_query_bias", c.d_query_bias, plain.d_query_bias, truth.d_query_bias, floor,
               factor * size);
  expect_close("d_key_bias", c.d_key_bias, plain.d_key_bias, truth.d_key_bias, floor,
               rows * factor * size);
  // Times scores of about ten.
  expect_close("d_query_factor", c.d_query_factor, plain.d_query_factor, truth.d_query_factor,
               floor, 10 * size);
}

/// By distance, of the softmax's input: an entry sums over rows whose roundings have any sign, also
/// where each row's d score is 0, as with one key, and the plain operation finds that by luck.
void expect_score_gradients(const Problem& problem, const Case& c, const Reference<double>& truth,
                            const Reference<float>& plain, double floor, double size) {
  const auto floats = [](const std::vector<double>& from) {
    return std::vector<float>(from.begin(), from.end());
  };
  const std::int64_t length = c.score_distances();
  const double rows = std::sqrt(static_cast<double>(problem.shape.queries));
  expect_close("d_score", floats(c.score_gradients), floats(plain.score_gradients(length)),
               truth.score_gradients(length), floor, rows * size);
}

/// Rounding floor of what comes from scores. Phases here reach 200 radians: one rounding of such a
/// phase moves its cosine by 200 units, which the averages of a row make less of, and without fused
/// multiply-adds (SSE4) its dot product has twice as many roundings.
double score_floor(const Problem& problem) {
  // CAPE's score is a sum of about twenty terms of up to ten, FIRE's own among its inputs.
  if (is_cape(problem.kind) && is_on_fire(problem.kind)) return 16;
  return has_phase(problem.kind) ? 64 : 8;
}

/// Rounding floor of gradients in units of 2^-24. Weights come from scores computed once more
/// and the saved lse, a float32, so each carries the roundings of both, the latter up to |lse|
/// units; a phase of hundreds of radians carries its relative rounding as an absolute error
/// hundreds of times larger into sine and cosine.
double gradient_floor(const Problem& problem, const Reference<double>& truth) {
  double largest = 0;
  for (const double lse : truth.lse) {
    if (std::isfinite(lse)) largest = std::max(largest, std::abs(lse));
  }
  // CAPE's go through its network once more, of twenty terms either way.
  const double twice = is_cape(problem.kind) ? 32 : 2 * score_floor(problem);
  return (has_phase(problem.kind) ? 256 : twice) + largest;
}

/// Half a unit in the last place of what a storage holds beyond float32, in units of 2^-24.
double storage_floor(Storage storage) {
  return storage == Storage::float32 ? 0 : half_type(storage).epsilon / 0x1p-24;
}

/// Results of the plain operation as they are stored.
void store_forward(Storage storage, Reference<float>& plain) {
  round_to(storage, plain.out);
  round_to(storage, plain.ungated);
  round_to(storage, plain.out_state);
}
void store_backward(Storage storage, Reference<float>& plain) {
  for (auto* gradient : {&plain.dq, &plain.dk, &plain.dv, &plain.d_state, &plain.d_gate,
                         &plain.d_far_q, &plain.d_far_k}) {
    round_to(storage, *gradient);
  }
}

void expect_right(const Problem& problem) {
  SCOPED_TRACE(problem_name(problem));
  Case c(problem);
  c.forward();
  Reference<double> truth(c.inputs);
  Reference<float> plain(c.inputs);
  store_forward(problem.storage, plain);
  const double stored = storage_floor(problem.storage);
  expect_close("out", c.out, plain.out, truth.out, score_floor(problem) + stored, 1);
  expect_close("lse", c.lse, plain.lse, truth.lse, score_floor(problem), 1);
  if (!c.gate.empty()) {
    expect_close("ungated", c.ungated, plain.ungated, truth.ungated, score_floor(problem) + stored,
                 1);
  }
  if (problem.kind == Kind::tape) {
    expect_close("out_state", c.out_state, plain.out_state, truth.out_state, 8 + stored, 1);
  }
  c.backward();
  // Of a gradient that is stored, half a unit; of all, what d score loses because it is
  // p (d p - d_out . out) and out was rounded when it was stored: three standard deviations of that
  // are about another unit.
  const double floor = gradient_floor(problem, truth) + 4 * stored;
  const auto* tape = std::get_if<TapeGradients>(&c.gradients.variant);
  const InputTensor d_state = tape ? tape->d_out_state : InputTensor{};
  // d score is the difference of two sums of about this size, also where it is 0; times a gate.
  const double size =
      std::sqrt(static_cast<double>(2 * truth.values())) * std::max(1.0, largest(c.gate));
  // What a 16-bit out took from its row's d score is the same for all its pairs, and adds up over
  // rows.
  const double sums =
      stored == 0 ? 1 : std::sqrt(static_cast<double>(problem.shape.batch * problem.shape.queries));
  truth.backward(c.saved.d_out, d_state);
  plain.backward(c.saved.d_out, d_state);
  store_backward(problem.storage, plain);
  expect_close("dq", c.dq, plain.dq, truth.dq, floor, size);
  expect_close("dk", c.dk, plain.dk, truth.dk, floor, size);
  expect_close("dv", c.dv, plain.dv, truth.dv, floor, size);
  if (!c.d_state.empty()) {
    expect_close("d_state", c.d_state, plain.d_state, truth.d_state, floor, size);
  }
  if (!c.d_table.empty()) {
    expect_close("d_table", c.d_table, plain.d_table, truth.d_table, floor,
                 table_factor(problem, c) * sums * size);
  }
  if (!c.d_far_q.empty()) {
    expect_close("d_far_q", c.d_far_q, plain.d_far_q, truth.d_far_q, floor, size);
    expect_close("d_far_k", c.d_far_k, plain.d_far_k, truth.d_far_k, floor, size);
  }
  if (!c.d_gate.empty()) {
    expect_close("d_gate", c.d_gate, plain.d_gate, truth.d_gate, floor, size);
  }
  expect_score_gradients(problem, c, truth, plain, floor, sums * size);
  if (!c.d_sinks.empty()) {
    const double rows = static_cast<double>(problem.shape.batch * problem.shape.queries);
    expect_close("d_sinks", c.d_sinks, plain.d_sinks, truth.d_sinks, floor,
                 std::sqrt(rows) * sums * size);
  }
  expect_network_gradients(problem, c, truth, plain, floor, sums * size);
  expect_fire_gradients(problem, c, truth, plain, floor, sums * size);
  expect_token_gradients(problem, c, truth, plain, floor, sums * size);
}

/// Storages and instruction sets in turn; variants begin at different ones.
class InTurn {
 public:
  explicit InTurn(Kind kind) : turn_(static_cast<std::size_t>(kind)) {}
  ~InTurn() { choose_target(best_); }
  InTurn(const InTurn&) = delete;
  InTurn& operator=(const InTurn&) = delete;

  /// In one of the combinations.
  void expect_right_once(Problem problem) {
    constexpr std::size_t storages = std::size(kStorages), targets = std::size(kTargets);
    turn_ += 5;  // no divisor of their number, so that both change and all come
    problem.storage = kStorages[turn_ % storages];
    if (!choose_target(kTargets[turn_ / storages % targets])) choose_target(best_);
    SCOPED_TRACE(target_name(current_target()));
    testing::expect_right(problem);
    choose_target(best_);
  }

  /// In float32 on the best instruction set, and in one of the combinations.
  void expect_right(const Problem& problem) {
    testing::expect_right(problem);
    expect_right_once(problem);
  }

 private:
  std::size_t turn_;
  const Target best_ = current_target();
};

class EveryVariant : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryVariant, IsRightInEveryPairOfSizes) {
  InTurn turn(GetParam());
  for (const Problem& problem : paired_problems(GetParam())) turn.expect_right_once(problem);
}

// Each array by itself; the others are 0, 0 and 1.
TEST(Tokens, AreRightOneByOne) {
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    Problem problem{Kind::table_tokens};
    problem.shape = {1, 2, 2, 100, 100, 16};
    Case c(problem);
    if (which != 0) c.inputs.tokens.query = nullptr, c.gradients.tokens.query = nullptr;
    if (which != 1) c.inputs.tokens.key = nullptr, c.gradients.tokens.key = nullptr;
    if (which != 2) c.inputs.tokens.factor = nullptr, c.gradients.tokens.factor = nullptr;
    c.forward();
    c.backward();
    Reference<double> truth(c.inputs);
    Reference<float> plain(c.inputs);
    expect_close("out", c.out, plain.out, truth.out, 8, 1);
    truth.backward(c.saved.d_out, {});
    plain.backward(c.saved.d_out, {});
    const double floor = gradient_floor(problem, truth), size = 6;  // sqrt(2 x 16 channels)
    expect_close("dq", c.dq, plain.dq, truth.dq, floor, size);
    if (which == 0) {
      expect_close("d_query", c.d_query_bias, plain.d_query_bias, truth.d_query_bias, floor, size);
    } else if (which == 1) {
      expect_close("d_key", c.d_key_bias, plain.d_key_bias, truth.d_key_bias, floor, 10 * size);
    } else {
      expect_close("d_factor", c.d_query_factor, plain.d_query_factor, truth.d_query_factor, floor,
                   10 * size);
    }
  }
}

TEST(Tokens, AreRefusedBesideOtherVariants) {
  for (const Kind kind : {Kind::tapa, Kind::tape, Kind::fire, Kind::cape, Kind::table_multiplied}) {
    Problem problem{kind};
    problem.shape = {1, 2, 2, 20, 20, 16};
    Case c(problem);
    const std::vector<double> bias(40);
    c.inputs.tokens.query = bias.data();
    EXPECT_THROW(c.forward(), std::invalid_argument) << kind_name(kind);
  }
}

// 256 alone and in the long tests: CAPE's rectifiers bend within float32's rounding somewhere among
// so many numbers, which no bound on gradients foresees.
TEST_P(EveryVariant, IsRightAtEveryHeadDimension) {
  InTurn turn(GetParam());
  std::vector<std::int64_t> dims(std::begin(kDims), std::end(kDims));
  dims.insert(dims.end(), {112, 256});
  for (const std::int64_t dim : dims) {
    Problem problem{GetParam()};
    problem.shape = {2, 2, 2, 19, 19, dim};
    turn.expect_right(problem);
  }
  Problem odd{GetParam()};
  odd.shape = {1, 2, 1, 33, 33, 21};
  odd.shape.value_dim = 13;
  turn.expect_right(odd);
  // Latent attention's: a part with a position stands beside the content.
  Problem latent{GetParam()};
  latent.shape = {1, 2, 2, 19, 19, 192};
  latent.shape.value_dim = 128;
  turn.expect_right(latent);
}

TEST_P(EveryVariant, IsRightForOtherNumbersOfQueriesThanKeys) {
  Problem problem{GetParam()};
  InTurn turn(GetParam());
  problem.shape = {1, 2, 2, 50, 203, 16};
  problem.shape.query_offset = 153;
  turn.expect_right(problem);
  problem.shape.causal = false;
  turn.expect_right(problem);
  problem.shape = {1, 2, 2, 1, 300, 32};
  problem.shape.query_offset = 299;
  turn.expect_right(problem);
}

TEST_P(EveryVariant, IsRightWhereRowsSeeNoKey) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 120, 70, 16};
  problem.shape.query_offset = -70;  // rows 0 .. 69 come before key 0
  expect_right(problem);
  problem.shape.query_offset = -500;
  Case c(problem);
  c.forward();
  for (const float x : c.out) EXPECT_EQ(x, 0.0f);
  for (const float x : c.lse) EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
  c.backward();
  for (const float x : c.dq) EXPECT_EQ(x, 0.0f);
  for (const float x : c.dk) EXPECT_EQ(x, 0.0f);
}

// Windows shorter than a tile, of about a panel, across blocks, and longer than the text.
const MaskSizes kMasks{
    .window = {1, 2, 1, 290, 290, 16},
    .windows = {1, 3, 17, 64, 200, 1000},
    .late = {.batch = 1,
             .heads = 2,
             .kv_heads = 2,
             .queries = 40,
             .keys = 330,
             .head_dim = 24,
             .query_offset = 280,
             .window = 60},
    .padding = {3, 2, 1, 200, 200, 16},
    .padding_window = 70,
    .cap = {1, 2, 1, 131, 131, 16},
    .cap_and_masks = {2, 2, 2, 90, 90, 16, 0, true, 0, 40},
    .documents = {2, 2, 1, 330, 330, 16},
    .documents_window = 40,
};

TEST_P(EveryVariant, IsRightWithAWindow) {
  InTurn turn(GetParam());
  for (const Problem& problem : window_problems(GetParam(), kMasks)) turn.expect_right(problem);
}

TEST_P(EveryVariant, IsRightWithPadding) {
  InTurn turn(GetParam());
  for (const Problem& problem : padding_problems(GetParam(), kMasks)) turn.expect_right(problem);
}

TEST_P(EveryVariant, IsRightWithDocuments) {
  const Target best = current_target();
  InTurn turn(GetParam());
  for (const Problem& problem : document_problems(GetParam(), kMasks)) turn.expect_right(problem);
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    Problem problem{.kind = GetParam(), .shape = {1, 2, 1, 200, 200, 16}};
    problem.documents = Documents::in_turn;
    expect_right(problem);
  }
  choose_target(best);
}

TEST_P(EveryVariant, IsRightWithASoftCap) {
  InTurn turn(GetParam());
  for (const Problem& problem : soft_cap_problems(GetParam(), kMasks)) turn.expect_right(problem);
}

TEST_P(EveryVariant, IsRightWithSinks) {
  InTurn turn(GetParam());
  for (const Problem& problem : sink_problems(GetParam(), kMasks)) turn.expect_right(problem);
}

TEST_P(EveryVariant, IsRightWithGates) {
  InTurn turn(GetParam());
  for (const Problem& problem : gate_problems(GetParam(), kMasks)) turn.expect_right(problem);
}

TEST_P(EveryVariant, RefusesGatesOfOtherWidths) {
  Problem problem{.kind = GetParam(), .shape = {1, 2, 2, 20, 20, 16}, .gates = Gates::by_channel};
  Case c(problem);
  c.inputs.gate_dim = 8;
  EXPECT_THROW(c.forward(), std::invalid_argument);
  EXPECT_THROW(c.backward(), std::invalid_argument);
}

TEST_P(EveryVariant, TakesTheLargestWindowForNoneAndRefusesLargerOnes) {
  for (const bool causal : {true, false}) {
    // One query of each head goes into the lanes where the variant can.
    for (const std::int64_t queries : {20, 1}) {
      Problem problem{GetParam()};
      problem.shape = {1, 4, 2, queries, 20, 16};
      problem.shape.query_offset = 20 - queries;
      problem.shape.causal = causal;
      Case without(problem), with(problem), beyond(problem);
      without.forward();
      with.inputs.shape.window = kNoWindow;
      with.forward();
      EXPECT_EQ(with.out, without.out);
      EXPECT_EQ(with.lse, without.lse);
      for (const std::int64_t window : {kNoWindow + 1, std::numeric_limits<std::int64_t>::max()}) {
        beyond.inputs.shape.window = window;
        try {
          beyond.forward();
          ADD_FAILURE() << "a window of " << window;
        } catch (const std::invalid_argument& error) {
          EXPECT_EQ(
              std::string(error.what()),
              "[attention] expected a window of 0, for none, to 1099511627776 tokens but got " +
                  std::to_string(window));
        }
        EXPECT_THROW(beyond.backward(), std::invalid_argument);
      }
    }
  }
}

TEST(Clamp, RefusesLimitsBelowZeroAndWhatIsNotThere) {
  Problem problem{Kind::clamp};
  problem.shape = {1, 2, 1, 20, 20, 16};
  Case c(problem);
  c.limits[1] = -1;
  EXPECT_THROW(c.forward(), std::invalid_argument);
  c.limits[1] = 0;
  std::get<ClampVariant>(c.inputs.variant).k.data = nullptr;
  EXPECT_THROW(c.forward(), std::invalid_argument);
}

// out * sigmoid(lse - sink), and the log-sum-exp as it is without one.
TEST_P(EveryVariant, SharesItsRowsWithTheSink) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 1, 90, 90, 16};
  Case without(problem);
  without.forward();
  problem.sinks = Sinks::large;
  Case c(problem);
  c.forward();
  EXPECT_EQ(c.lse, without.lse);
  for (std::size_t n = 0; n < c.out.size(); ++n) {
    const std::size_t row = n / 16, head = row / 90 % 2;
    const double share =
        1 / (1 + std::exp(static_cast<double>(c.sinks[head]) - static_cast<double>(c.lse[row])));
    // Three roundings of a number of this size, each by 2^-24 of it at most, and of the weights
    // that it is the sum of.
    const double expected = share * static_cast<double>(without.out[n]);
    EXPECT_NEAR(c.out[n], expected, 3e-7 * std::max(1.0, std::abs(expected)));
  }
}

TEST_P(EveryVariant, IsRightOnEveryInstructionSet) {
  const Target best = current_target();
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    SCOPED_TRACE(target_name(target));
    Problem problem{GetParam()};
    problem.shape = {1, 2, 1, 131, 131, 40};
    for (const Storage storage : kStorages) {
      problem.storage = storage;
      expect_right(problem);
    }
  }
  choose_target(best);
}

TEST_P(EveryVariant, PassesNaNOn) {
  const Target best = current_target();
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    SCOPED_TRACE(target_name(target));
    for (const float soft_cap : {0.0f, 3.0f}) {
      Problem problem{GetParam()};
      problem.shape = {1, 2, 2, 70, 70, 16};
      problem.soft_cap = soft_cap;
      Case c(problem);
      // Row 40 of batch 0, head 0; q lies as (B, N, H, d).
      c.q[40 * 2 * 16] = std::numeric_limits<float>::quiet_NaN();
      c.forward();
      EXPECT_TRUE(std::isnan(c.out[40 * 16]));
      EXPECT_TRUE(std::isnan(c.lse[40]));
      EXPECT_TRUE(std::isfinite(c.out[39 * 16]));
      EXPECT_TRUE(std::isfinite(c.lse[41]));
      c.backward();
      EXPECT_TRUE(std::isnan(c.dq[40 * 16]));
      EXPECT_TRUE(std::isfinite(c.dq[39 * 16]));
      EXPECT_TRUE(std::isnan(c.dv[0]));
    }
  }
  choose_target(best);
}

// Every size with every dimension, group and storage, causal and not; the long size with one small
// and one large dimension. By the label `long` alone.
class LongEveryVariant : public ::testing::TestWithParam<Kind> {};

TEST_P(LongEveryVariant, IsRightInEveryCombination) {
  std::vector<std::int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.push_back(kLongSize);
  std::vector<std::int64_t> dims(std::begin(kDims), std::end(kDims));
  dims.push_back(256);
  for (const std::int64_t size : sizes) {
    for (const std::int64_t dim : dims) {
      if (size == kLongSize && dim != 32 && dim != 256) continue;
      for (const std::int64_t group : kGroups) {
        for (const Storage storage : kStorages) {
          for (const bool causal : {true, false}) {
            Problem problem{.kind = GetParam(), .storage = storage};
            problem.shape = {1, group, 1, size, size, dim};
            problem.shape.causal = causal;
            expect_right(problem);
          }
        }
      }
    }
  }
}

TEST_P(LongEveryVariant, IsRightWithEveryMask) {
  InTurn turn(GetParam());
  for (const Problem& problem : every_mask_problem(GetParam(), kMasks)) turn.expect_right(problem);
}

// As many heads as stay in registers have code of their own, more go through memory: 12 and 13 on
// the widest target, 5 and 6 on others.
TEST(Cape, IsRightForEveryNumberOfHeads) {
  const Target best = current_target();
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    SCOPED_TRACE(target_name(target));
    for (std::int64_t heads = 1; heads <= 14; ++heads) {
      const bool odd = heads % 2 == 1, on_fire = heads % 4 < 2;
      Problem problem{on_fire ? odd ? Kind::cape_fire : Kind::cape_fire_add_residual
                      : odd   ? Kind::cape
                              : Kind::cape_add_residual};
      problem.shape = {1, heads, heads % 2 ? 1 : heads / 2, 75, 75, 8};
      problem.shape.causal = heads % 3 != 0;
      expect_right(problem);
    }
  }
  choose_target(best);
}

class EveryFire : public ::testing::TestWithParam<Kind> {};

// No knot, a few and hundreds: tiles of one segment, tiles that one knot crosses and tiles that
// dozens do.
TEST_P(EveryFire, IsRightForEveryNumberOfKnots) {
  const Target best = current_target();
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    SCOPED_TRACE(target_name(target));
    for (const std::int64_t knots : {0, 1, 2, 32, 300}) {
      Problem problem{GetParam()};
      problem.knots = knots;
      SCOPED_TRACE(knots);
      problem.shape = {2, 2, 1, 270, 270, 16};
      expect_right(problem);
      problem.steep = true;
      expect_right(problem);
      problem.steep = false;
      problem.shape = {1, 1, 1, 60, 400, 16};
      problem.shape.query_offset = 340;
      expect_right(problem);
    }
  }
  choose_target(best);
  Problem problem{GetParam()};
  problem.knots = 300;
  problem.shape = {1, 1, 1, 1000, 1000, 16};
  expect_right(problem);
}

TEST(Table, MasksWithMinusInfinity) {
  for (const Kind kind : {Kind::table, Kind::table_signed}) {
    Problem problem{kind};
    problem.infinite_table = true;
    for (const std::int64_t size : {1, 2, 17, 130}) {
      problem.shape = {2, 2, 2, size, size, 16};
      expect_right(problem);
    }
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryVariant, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Kernels, EveryFire, ::testing::Values(Kind::fire, Kind::cape_fire),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Kernels, LongEveryVariant, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
