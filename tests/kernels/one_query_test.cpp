// One query of heads that share keys, which go into the lanes (kernels/cpu/heads_in_lanes.h):
// against float64, and what goes so.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/heads_in_lanes.h"
#include "kernels/cpu/targets.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/half_types.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/row_truth.h"

namespace phasescope::kernels::testing {
namespace {

/// Scores that are dot products with a table or numbers of tokens beside them.
const Kind kInLanes[] = {Kind::plain,      Kind::table,  Kind::table_signed, Kind::table_multiplied,
                         Kind::forgetting, Kind::tokens, Kind::table_tokens};

/// The last query of a text, of two texts.
Problem last_query(Kind kind, std::int64_t heads, std::int64_t kv_heads, std::int64_t keys) {
  Problem problem{kind};
  problem.shape = {2, heads, kv_heads, 1, keys, 24};
  problem.shape.value_dim = 13;
  problem.shape.query_offset = keys - 1;
  return problem;
}

/// Groups of less than a vector and of more than a block of rows; keys about a tile and a block;
/// masks, sinks and gates alone and together; a query that others follow, and rows that see no key.
std::vector<Problem> one_query_problems(Kind kind) {
  std::vector<Problem> problems;
  for (const std::int64_t keys : {1, 7, 128, 300}) {
    for (const std::int64_t group : {2, 7}) {
      problems.push_back(last_query(kind, 2 * group, 2, keys));
    }
  }
  problems.push_back(last_query(kind, 200, 1, 130));
  Problem few = last_query(kind, 6, 3, 290);
  const auto add = [&](const auto& change) {
    problems.push_back(few);
    change(problems.back());
  };
  for (const std::int64_t window : {1, 30, 200}) {
    add([&](Problem& p) { p.shape.window = window; });
    add([&](Problem& p) { p.shape.window = window, p.shape.query_offset = 140; });
    add([&](Problem& p) {
      p.shape.window = window, p.shape.query_offset = 140, p.shape.causal = false;
      p.padding = Padding::holes;
    });
  }
  for (const std::int64_t offset : {-1, 0, 9}) {
    add([&](Problem& p) { p.shape.query_offset = offset, p.sinks = Sinks::even; });
  }
  for (const Padding padding : {Padding::left, Padding::right, Padding::holes}) {
    add([&](Problem& p) { p.padding = padding; });
  }
  for (const Documents documents : {Documents::packed, Documents::in_turn, Documents::mixed}) {
    add([&](Problem& p) { p.documents = documents, p.shape.window = 250; });
  }
  for (const Sinks sinks : {Sinks::even, Sinks::large, Sinks::off}) {
    add([&](Problem& p) { p.sinks = sinks; });
    add([&](Problem& p) { p.sinks = sinks, p.soft_cap = 1.5f, p.gates = Gates::by_channel; });
  }
  add([&](Problem& p) { p.gates = Gates::by_row, p.padding = Padding::right; });
  add([&](Problem& p) { p.magnitude = 1e3f; });
  if (kind == Kind::table || kind == Kind::table_signed) {
    add([&](Problem& p) { p.infinite_table = true; });
    // Some of whose rows see a key that the table masks, and no other.
    add([&](Problem& p) {
      p.infinite_table = true, p.sinks = Sinks::even;
      p.shape.keys = 1, p.shape.query_offset = 0;
    });
  }
  return problems;
}

/// What every forward pass leaves. plain: its results rounded to how the case's are stored.
void expect_right_outputs(const Problem& problem, const Case& c, const Reference<float>& plain,
                          const Reference<double>& truth) {
  // As in attention_test.cpp: a few roundings of scores, and half a unit of what is stored.
  const double stored =
      problem.storage == Storage::float32 ? 0 : half_type(problem.storage).epsilon / 0x1p-24;
  expect_close("out", c.out, plain.out, truth.out, 8 + stored, 1);
  expect_close("lse", c.lse, plain.lse, truth.lse, 8, 1);
  if (!c.gate.empty()) expect_close("ungated", c.ungated, plain.ungated, truth.ungated, 8 + stored);
}

/// Without probes, as in generation, and with those of rows that go by no key.
void expect_right_rows(const Problem& problem) {
  SCOPED_TRACE(problem_name(problem));
  Case c(problem);
  ASSERT_TRUE(fits_lanes(c.inputs, c.outputs));
  c.forward();
  const Reference<double> truth(c.inputs);
  Reference<float> plain(c.inputs);
  const RowTruth<double> rows(truth);
  const RowTruth<float> plain_rows(plain);
  round_to(problem.storage, plain.out);
  round_to(problem.storage, plain.ungated);
  expect_right_outputs(problem, c, plain, truth);

  Case probed(problem);
  std::vector<float> entropy(c.lse.size()), maximum(entropy), top1(entropy), sink_weight(entropy);
  probed.outputs.rows.entropy = entropy.data();
  probed.outputs.rows.max_score = maximum.data();
  probed.outputs.rows.top1_mass = top1.data();
  probed.outputs.rows.sink_weight = sink_weight.data();
  ASSERT_TRUE(fits_lanes(probed.inputs, probed.outputs));
  probed.forward();
  expect_right_outputs(problem, probed, plain, truth);
  // log l - sum p t / l: two numbers of the size of the largest difference of scores.
  const double size = std::max(10.0, 10.0 * static_cast<double>(problem.magnitude));
  expect_close("entropy", entropy, plain_rows.entropy, rows.entropy, 16, size);
  expect_close("max_score", maximum, plain_rows.max_score, rows.max_score, 8, 1);
  // A score's rounding is a share of a weight.
  expect_close("top1", top1, plain_rows.top1, rows.top1, 8,
               std::max(1.0, static_cast<double>(problem.magnitude)));
  if (!c.sinks.empty()) {
    expect_close("sink", sink_weight, plain.sink_weight, truth.sink_weight, 8, 1);
  }
}

class OneQuery : public ::testing::TestWithParam<Kind> {
 protected:
  ~OneQuery() override { choose_target(best_); }
  const Target best_ = current_target();
};

TEST_P(OneQuery, IsRightWithItsHeadsInLanes) {
  std::size_t turn = static_cast<std::size_t>(GetParam());
  for (Problem problem : one_query_problems(GetParam())) {
    expect_right_rows(problem);
    problem.storage = kStorages[++turn % std::size(kStorages)];
    if (!choose_target(kTargets[turn / std::size(kStorages) % std::size(kTargets)])) continue;
    expect_right_rows(problem);
    choose_target(best_);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OneQuery, ::testing::ValuesIn(kInLanes),
                         [](const auto& info) { return kind_name(info.param); });

// What asks for keys or distances, and scores of other kinds, keep a query a lane.
TEST(HeadsInLanes, AreForOneQueryOfHeadsThatShareKeys) {
  const auto fits = [](const Problem& problem) {
    const Case c(problem);
    return fits_lanes(c.inputs, c.outputs);
  };
  for (const Kind kind : all_kinds()) {
    const bool in_lanes = std::ranges::find(kInLanes, kind) != std::end(kInLanes);
    EXPECT_EQ(fits(last_query(kind, 4, 2, 30)), in_lanes) << kind_name(kind);
    EXPECT_FALSE(fits(last_query(kind, 4, 4, 30))) << kind_name(kind);
  }
  Problem two = last_query(Kind::plain, 4, 2, 30);
  two.shape.queries = 2;
  EXPECT_FALSE(fits(two));
  Case c(last_query(Kind::table, 4, 2, 30));
  std::vector<std::int32_t> keys(c.lse.size());
  c.outputs.rows.max_key = keys.data();
  EXPECT_FALSE(fits_lanes(c.inputs, c.outputs));
}

}  // namespace
}  // namespace phasescope::kernels::testing
