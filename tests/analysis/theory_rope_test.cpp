// The checks on RoPE's sums against the reference results, and on inputs built to break them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/texts.h"
#include "analysis/theory/rope_base_shrinks_gap.h"
#include "analysis/theory/rope_instability.h"
#include "analysis/theory/rope_lemma.h"
#include "analysis/theory/rope_local_gap.h"
#include "golden_tape.h"
#include "theory_runs.h"

namespace phasescope::analysis {
namespace {

using formats::Json;
using testing::expect_near;
using testing::run_alone;
using testing::theory_json;

protocol::NoProgress quiet;

LemmaPoint point_of(const Json& row) {
  return {row["base"].get<double>(), row["D"].get<std::int64_t>(), row["lambda"].get<double>()};
}

void expect_lemma_row(const Json& row) {
  const LemmaPoint point = point_of(row);
  const CosSin sums = sums_of(point), limit = limit_sums(point.lambda, std::log(point.base));
  const LemmaBounds bounds = lemma_bounds(point);
  const double allowed = 1e-15 * point.lambda + 1e-12;  // the reference's own
  EXPECT_NEAR(sums.c, row["C"].get<double>(), allowed);
  EXPECT_NEAR(sums.s, row["S"].get<double>(), allowed);
  EXPECT_NEAR(limit.c, row["C_limit"].get<double>(), 1e-12) << row.dump();
  EXPECT_NEAR(limit.s, row["S_limit"].get<double>(), 1e-12) << row.dump();
  expect_near(bounds.c, row["bound_C"], 1e-12, 1e-12);
  expect_near(bounds.s, row["bound_S"], 1e-12, 1e-12);
  expect_near(lemma_epsilon(point.lambda, std::log(point.base), point.dim), row["eps"], 1e-12, 0);
  for (const Json& low : row["lower"]) {
    expect_near(lemma_lower_bound(point, low["e0"]), low["bound"], 1e-12, 1e-12);
  }
}

TEST(RopeLemma, SumsAndBoundsAreTheReferences) {
  for (const Json& row : Json(theory_json("rope_sums.json")["rows"])) expect_lemma_row(row);
  for (const Json& row : Json(theory_json("rope_more.json")["lemma_rows"]["rows"])) {
    expect_lemma_row(row);
  }
}

TEST(RopeLemma, KnowsTheSmallestSizeThatSpeaks) {
  for (const Json& row : Json(theory_json("rope_more.json")["lemma_reach"])) {
    const double base = row["base"];
    const auto dim = row["smallest power of two D whose bound on |C| is below 1/2 somewhere"];
    EXPECT_EQ(smallest_speaking_dim(base), dim.get<std::int64_t>());
    expect_near(smallest_lemma_bound(base, dim), row["bound there"], 1e-9, 0);
  }
}

TEST(RopeLemma, HoldsAndFailsWhereAllPlanesTurnAlike) {
  testing::expect_holds_alone("rope.lemma");
  std::vector<LemmaPoint> points;
  for (const Json& row : Json(theory_json("rope_more.json")["lemma_rows"]["rows"])) {
    points.push_back(point_of(row));
    points.back().lambda = std::ceil(points.back().lambda);
  }
  EXPECT_EQ(judge_lemma(points, sums_of, &quiet).verdict, "holds");
  const auto alike = [](const LemmaPoint& point) {
    const double angle = 2 * std::numbers::pi * (point.lambda - std::floor(point.lambda));
    return CosSin{std::cos(angle) / 2, std::sin(angle) / 2};
  };
  const CheckResult wrong = judge_lemma(points, alike, &quiet);
  EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
  // Where no bound speaks nothing is said.
  EXPECT_EQ(judge_lemma({{1e4, 128, 100}}, alike, &quiet).verdict, "premise_not_met");
}

// A model's own sums are drawn below bounds that say nothing at its size.
TEST(RopeLemma, IsDrawnOnAModel) {
  const auto model = testing::small_model("rope");
  const Texts texts = random_texts(1, 24, 32, 1);
  CheckContext context;
  context.model = model, context.texts = &texts, context.progress = &quiet;
  const CheckResult got = run_check(select_checks({"rope.lemma"}).at(0), context);
  EXPECT_EQ(got.verdict, "premise_not_met");
  ASSERT_EQ(got.curves.size(), 2u);
  const auto dim = model->config().head_dim;
  for (const std::size_t n : {0u, 40u, 119u}) {
    const double lambda = got.curves[0].x[n];
    double sum = 0;
    for (std::int64_t d = 0; d < dim / 2; ++d) {
      sum += std::cos(2 * std::numbers::pi * lambda *
                      std::pow(1e4, -2 * static_cast<double>(d) / static_cast<double>(dim)));
    }
    // Angles up to 2 pi 10^7, each to a unit in its last place.
    EXPECT_NEAR(got.curves[0].y[n], std::abs(sum / static_cast<double>(dim)), 1e-7) << lambda;
    EXPECT_GE(got.curves[0].bound[n], 0.99 * *got.value);  // the least of another grid
  }
}

// ---- rope.instability ---------------------------------------------------------------------------

void expect_extremes(const Json& row) {
  const auto angles = row["paper_angles"].get<bool>() ? Angles::paper : Angles::model;
  const InstabilitySum sum = rope_sum(row["base"], row["D"], angles, row["mu"], row["nu"]);
  const Extremes got = extremes_of(sum, row["from"], row["to"], &quiet);
  EXPECT_EQ(got.to, row["to"].get<std::int64_t>());
  EXPECT_NEAR(got.largest, row["largest"]["of_r"].get<double>(), 1e-7);
  EXPECT_NEAR(got.smallest, row["smallest"]["of_r"].get<double>(), 1e-7);
  expect_near(got.rms * sum.radius(), row["rms"], 1e-9, 0);
}

TEST(RopeInstability, ExtremesAreTheReferences) {
  for (const Json& row : Json(theory_json("rope_instability.json")["rows"])) {
    const Dependence dependence = dependence_of(row["base"], row["D"].get<std::int64_t>() / 2);
    EXPECT_EQ(dependence.independent(), row["linearly_independent"].get<bool>());
    EXPECT_EQ(dependence.groups_of, row["groups_of"].get<std::int64_t>());
    const auto reach =
        reach_of(dependence, std::atan2(row["nu"].get<double>(), row["mu"].get<double>()));
    EXPECT_NEAR(reach[0], row["limit_range_of_r"][0].get<double>(), 1e-9) << row.dump();
    EXPECT_NEAR(reach[1], row["limit_range_of_r"][1].get<double>(), 1e-9) << row.dump();
    if (row["to"].get<double>() < 2e7) expect_extremes(row);
  }
}

// Every integer up to 10^8: seconds a row.
TEST(TheorySlow, ExtremesUpToAHundredMillion) {
  for (const Json& row : Json(theory_json("rope_instability.json")["rows"])) {
    if (row["to"].get<double>() > 2e7) expect_extremes(row);
  }
  for (const Json& row : Json(theory_json("rope_more.json")["instability"]["windows"])) {
    const InstabilitySum sum = rope_sum(row["base"], row["D"], Angles::model, 1, 0);
    const Extremes got = extremes_of(sum, row["from"], row["to"], &quiet);
    expect_near(got.largest, row["largest of r"], 1e-9, 0);
    expect_near(got.smallest, row["smallest of r"], 1e-9, 0);
    expect_near(got.rms * std::sqrt(row["D"].get<double>()), row["rms over r/sqrt D"], 1e-9, 0);
  }
  testing::expect_holds_alone("rope.instability");
}

TEST(RopeInstability, JudgesTheWindows) {
  // The reference's own numbers.
  for (const Json& row : Json(theory_json("rope_more.json")["instability"]["windows"])) {
    Extremes window{row["from"], row["to"], row["largest of r"], row["smallest of r"], 0, 0, 0};
    const std::int64_t dim = row["D"];
    window.rms = row["rms over r/sqrt D"].get<double>() / std::sqrt(static_cast<double>(dim));
    EXPECT_EQ(judge_instability({window}, dim).verdict, "holds");
    window.smallest = -2.9 / std::sqrt(static_cast<double>(dim));
    EXPECT_EQ(judge_instability({window}, dim).verdict, "fails");
  }
}

TEST(RopeInstability, FailsOnWholeTurnsAndOnADecay) {
  InstabilitySum turns = rope_sum(1e4, 64, Angles::model, 1, 0);
  std::fill(turns.turns.begin(), turns.turns.end(), 1.0L);  // frequencies 2 pi
  const Extremes whole = extremes_of(turns, 1'000'000, 1'100'000, &quiet);
  EXPECT_NEAR(whole.largest, 1, 1e-9);
  EXPECT_NEAR(whole.smallest, 1, 1e-9);
  EXPECT_EQ(judge_instability({whole}, 64).verdict, "fails");
  InstabilitySum decaying = rope_sum(1e4, 64, Angles::model, 1, 0);
  for (int d = 0; d < 32; ++d) {  // xPos, scale base 512
    decaying.damping.push_back(-std::log((2 * d + 0.4 * 64) / (1.4 * 64)) / 512);
  }
  const Extremes gone = extremes_of(decaying, 1'000'000, 1'100'000, &quiet);
  EXPECT_LT(gone.largest, 1e-20);
  EXPECT_EQ(judge_instability({gone}, 64).verdict, "fails");
}

// ---- rope.local_gap -----------------------------------------------------------------------------

std::vector<GapCase> golden_cases() {
  std::vector<GapCase> cases;
  for (const Json& row : Json(theory_json("rope_gap.json")["premise_met"])) {
    cases.push_back({row["mu"], row["nu"], row["minus_ln_theta0"], row["lambda"], row["Lambda"]});
  }
  return cases;
}

TEST(RopeLocalGap, GapsAreTheReferences) {
  const Json golden = theory_json("rope_gap.json");
  const std::vector<GapCase> cases = golden_cases();
  for (std::size_t n = 0; n < cases.size(); ++n) {
    const Json& row = golden["premise_met"][n];
    expect_near(limit_gap(cases[n]), row["gap_limit"], 1e-10, 0, row.dump());
    expect_near(finite_gap(cases[n], row["D"]), row["gap"], 1e-9, 0, row.dump());
  }
  expect_near(counterexample_gap(), golden["for_every_Lambda_is_false"]["gap"], 1e-9, 0);
  for (const Json& row : golden["common_bases"]) {
    for (const int which : {0, 1}) {
      const CosSin got =
          frequency_sums(row[which == 0 ? "lambda" : "Lambda"], std::log(row["base"].get<double>()),
                         row["D"], Angles::model);
      // The logarithm of the base is a double, whose rounding the distance multiplies.
      const double allowed = 1e-9 + 4e-15 * row[which == 0 ? "lambda" : "Lambda"].get<double>();
      EXPECT_NEAR(got.c, row["C"][which].get<double>(), allowed);
      EXPECT_NEAR(got.s, row["S"][which].get<double>(), allowed);
    }
  }
}

TEST(RopeLocalGap, FailsWithPlanesAlikeAndWithTheSignTurned) {
  testing::expect_holds_alone("rope.local_gap");
  const std::vector<GapCase> cases = golden_cases();
  EXPECT_EQ(judge_gaps(cases, limit_gap).verdict, "holds");
  const auto alike = [](const GapCase&) { return 0.0; };  // half a turn more is the same phase
  EXPECT_EQ(judge_gaps(cases, alike).verdict, "fails");
  const auto turned = [](const GapCase& gap) { return -limit_gap(gap); };
  EXPECT_EQ(judge_gaps(cases, turned).verdict, "fails");
  const auto none = [](const GapCase&) { return std::nan(""); };
  EXPECT_EQ(judge_gaps(cases, none).verdict, "fails");
}

// ---- rope.base_shrinks_gap ----------------------------------------------------------------------

TEST(RopeBaseShrinksGap, SweepIsTheReferences) {
  for (const Json& row : Json(theory_json("rope_gap.json")["base_sweep"])) {
    const BaseGapCase gap{row["D"], row["lambda"], row["Lambda"]};
    const double ten = row["log10_base"];
    const CosSin near = sums_of_base(gap.near, ten, gap.dim),
                 far = sums_of_base(gap.far, ten, gap.dim), bounds = base_gap_bounds(gap, ten);
    EXPECT_NEAR(near.c - far.c, row["dC"].get<double>(), 1e-9);
    EXPECT_NEAR(near.s - far.s, row["dS"].get<double>(), 1e-9);
    expect_near(bounds.c, row["bound_dC"], 1e-9, 0);
    expect_near(bounds.s, row["bound_dS"], 1e-9, 0);
  }
  const Json more = theory_json("rope_more.json")["gap"];
  const BaseGapCase gap{more["interpolation"]["D"], more["interpolation"]["lambda"],
                        more["interpolation"]["Lambda"]};
  for (const Json& row : more["interpolation"]["rows"]) {
    EXPECT_NEAR(interpolated_gap(gap, 4, row["f"]), row["dC"].get<double>(), 1e-12);
  }
  for (const Json& row : more["limit of the base"]) {
    expect_near(base_limit(gap.near, gap.dim), row["limit"], 1e-9, 0);
    expect_near(base_limit_bound(gap.near, gap.dim, row["log10_base"]), row["bound"], 1e-9, 0);
  }
}

TEST(RopeBaseShrinksGap, FailsWhereTheBaseIsStuck) {
  testing::expect_holds_alone("rope.base_shrinks_gap");
  const auto stuck = [](double distance, double, std::int64_t dim) {
    return sums_of_base(distance, 4, dim);
  };
  const CheckResult wrong = judge_base_gap({}, stuck);
  EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
}

}  // namespace
}  // namespace phasescope::analysis
