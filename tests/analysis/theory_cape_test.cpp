// The checks on CAPE's correction, and those on RoPE that read a model's texts.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <random>

#include "analysis/intervals/intervals.h"
#include "analysis/random.h"
#include "analysis/tensors.h"
#include "analysis/theory/cape_adaptive.h"
#include "analysis/theory/cape_cost.h"
#include "analysis/theory/cape_expressive.h"
#include "analysis/theory/cape_reduces.h"
#include "analysis/theory/cape_surface.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/theory/rope_assumption.h"
#include "analysis/theory/rope_effective_context.h"
#include "formats/tensors/safetensors.h"
#include "golden_tape.h"
#include "model/checkpoints/tensor_io.h"
#include "theory_runs.h"

namespace phasescope::analysis {
namespace {

using formats::Json;
using testing::expect_near;
using testing::golden_tensor;
using testing::small_model;
using testing::theory_json;

protocol::NoProgress quiet;

// Of files that are too large for tests/data; undefined where nobody has them.
at::Tensor outside(const std::string& file, const std::string& name) {
  const auto path = golden_path("theory/" + file, true);
  if (path.empty()) return {};
  const auto opened = formats::SafetensorsFile::open(path.string());
  return model::read_tensor(opened, *opened.find(name));
}

CheckResult on_model(const std::string& id, const testing::ModelPointer& model,
                     std::int64_t texts = 70, std::int64_t length = 24) {
  const Texts all = random_texts(texts, length, model->config().vocab_size, 3);
  CheckContext context;
  context.model = model;
  context.texts = &all;
  context.progress = &quiet;
  return run_check(select_checks({id}).at(0), context);
}

testing::ModelPointer small_cape(const std::string& form) {
  auto config = testing::small_config("cape");
  config.encoding.options["form"] = form;
  return model::random_model(config, 5);
}

TEST(CapeReduces, HoldsAloneAndOnModelsAndFailsWithTheOutputLeft) {
  testing::expect_holds_alone("cape.reduces");
  for (const std::string form : {"concat_residual", "concat", "add_residual", "content", "conv"}) {
    const CheckResult got = on_model("cape.reduces", small_cape(form));
    EXPECT_EQ(got.verdict, "holds") << form << got.detail;
  }
  const at::NoGradGuard no_gradients;
  const auto left = small_cape("concat_residual");
  EXPECT_GT(
      difference_from_base(left->decoder, ids_tensor(std::vector<std::int64_t>{1, 2, 3, 4, 5})),
      1e-4);
  EXPECT_EQ(on_model("cape.reduces", small_model("alibi")).verdict, "premise_not_met");
}

TEST(CapeExpressive, FitsAreNoWorseThanTwiceTheReferences) {
  testing::expect_holds_alone("cape.expressive");
  const at::Tensor p = outside("cape.safetensors", "kerple_p"),
                   a = outside("cape.safetensors", "kerple_a");
  if (!p.defined()) GTEST_SKIP() << "needs ../shared/golden/theory";
  std::vector<BiasOfDistance> kerple, alibi;
  const std::int64_t heads = p.size(0);
  for (std::int64_t h = 0; h < heads; ++h) {
    kerple.push_back(kerple_bias(p[h].item<double>(), a[h].item<double>()));
    alibi.push_back(
        alibi_bias(std::pow(2, -8.0 * static_cast<double>(h + 1) / static_cast<double>(heads))));
  }
  for (const Json& row : Json(theory_json("cape.json")["expressive"])) {
    const bool to_alibi = row["case"] == "kerple to alibi";
    const ExpressiveFit got = fit_expressive(to_alibi ? kerple[0] : alibi[0],
                                             to_alibi ? alibi : kerple, 512, 4096, row["width"]);
    EXPECT_LT(got.worst, 2 * row["worst_to_512"].get<double>()) << row.dump();
    expect_near(got.largest, row["target_to_512"], 1e-9, 0);
    expect_near(got.largest_past, row["target_to_4096"], 1e-9, 0);
    if (row["width"] == 32) expect_near(got.worst_past, row["worst_513_to_4096"], 0.05, 0);
  }
}

TEST(CapeExpressive, WhatNoFunctionOfDistanceRealises) {
  const Json golden =
      theory_json("cape_more.json")["cannot"]["alibi slope 1/4 from T5's buckets, to 512"];
  std::vector<double> keys, values;
  for (int l = 0; l <= 512; ++l) keys.push_back(t5_bucket()(l)), values.push_back(-0.25 * l);
  expect_near(unreachable(keys, values), golden["no f below"], 1e-12, 0);
  const ExpressiveFit fit = fit_expressive(t5_bucket(), {alibi_bias(0.25)}, 512, 4096, 32);
  EXPECT_GE(fit.worst, golden["no f below"].get<double>() * (1 - 1e-12));
  EXPECT_EQ(judge_fit(fit).verdict, "fails");
}

TEST(CapeAdaptive, ClassesAndVariancesAreTheReferences) {
  const at::Tensor f = outside("cape_adaptive.safetensors", "f"),
                   base = outside("cape_adaptive.safetensors", "B");
  if (!f.defined()) GTEST_SKIP() << "needs ../shared/golden/theory";
  const Json golden = theory_json("cape_more.json")["adaptive"];
  for (const bool with_base : {false, true}) {
    const Json& row = golden[with_base ? "B + f" : "f alone"];
    for (std::int64_t h = 0; h < f.size(2); ++h) {
      AdaptiveBias bias;
      bias.distance = to_vector<double>(outside("cape_adaptive.safetensors", "distance"));
      for (std::int64_t c = 0; c < f.size(0); ++c) {
        const at::Tensor values = f[c].select(1, h);
        bias.values.push_back(to_vector<double>(with_base ? values + base.select(1, h) : values));
      }
      const AdaptiveHead got = adaptive_head(bias, 1);
      const auto n = static_cast<std::size_t>(h);
      EXPECT_EQ(got.kind, row["class"][n].get<std::string>()) << h;
      expect_near(got.slope.mean, row["slope"][n], 1e-9, 0);
      const double low = row["interval"][n][0], high = row["interval"][n][1];
      EXPECT_NEAR(*got.slope.low, low, 0.1 * (high - low));
      EXPECT_NEAR(*got.slope.high, high, 0.1 * (high - low));
      if (with_base) continue;
      expect_near(got.over_contexts, golden["variance_over_contexts"][n], 1e-9, 0);
      expect_near(got.over_distance, golden["variance_over_distance"][n], 1e-9, 0);
    }
  }
}

TEST(CapeAdaptive, TheShareOfAllContextsHasAnIntervalThatCovers) {
  // values = distance + deviation: the contexts' variance is 4, the distances' 1.25 plus what the
  // mean of 40 contexts keeps of the deviations, (1 - 1/4) 4 / 40.
  constexpr int kTrials = 400, kContexts = 40, kDistances = 4;
  const double truth = 4 / (1.25 + 0.75 * 4 / kContexts);
  const Draws draws(3);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 2);
  int covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    AdaptiveBias bias;
    bias.distance = {1, 2, 3, 4};
    for (int c = 0; c < kContexts; ++c) {
      std::vector<double>& row = bias.values.emplace_back();
      for (int d = 0; d < kDistances; ++d) row.push_back(d + normal(random));
    }
    const AdaptiveHead head = adaptive_head(bias, 1);
    const Interval share = contexts_share(head.share, draws);
    ASSERT_NEAR(share.mean, head.over_contexts / head.over_distance, 1e-12 * share.mean);
    covered += *share.low <= truth && truth <= *share.high;
  }
  // 95 % of 400, less three deviations of a count (13) and three points that the rule for ratios
  // may miss (12).
  EXPECT_GE(covered, 380 - 25);
}

TEST(CapeAdaptive, FailsWhereTheBiasIgnoresTheContext) {
  const at::NoGradGuard no_gradients;
  const auto model = small_cape("concat_residual");
  EXPECT_EQ(on_model("cape.adaptive", model).verdict, "holds");
  EXPECT_EQ(on_model("cape.adaptive", model, 10).verdict, "undecided");
  const auto fixed = std::make_shared<const model::Model>(
      model::Model{model->report, model->tokenizer, without_output(model->decoder)});
  const CheckResult got = on_model("cape.adaptive", fixed);
  EXPECT_EQ(got.verdict, "fails") << got.detail;
  EXPECT_EQ(on_model("cape.adaptive", small_model("rope")).verdict, "premise_not_met");
}

TEST(CapeCost, LawsAreTheReferencesAndWrongCountsFail) {
  const Json golden = theory_json("cape_cost.json");
  for (const Json& row : golden["law"]) {
    const std::string form = row["variant"];
    const CapeMacs macs = encoding_macs(form);
    expect_near(macs({512, 12, 32}), row["macs at N 512, H 12, D 32"], 1e-9, 0);
    expect_near(macs({512, 12, 32, true}), row["causal"], 1e-9, 0);
    const CostFit fit = fit_cost(macs);
    expect_near(fit.tokens, row["exponent N"], 1e-9, 0);
    expect_near(fit.heads, row["exponent H"], 1e-9, 0);
    expect_near(fit.hidden, row["exponent D"], 1e-9, 0);
    expect_near(fit.constant, row["constant c of c H D N^2"], 1e-9, 0);
  }
  const auto again = [](const CapeSizes& s) {
    return s.heads * (2 * s.heads * s.hidden + s.hidden) * s.pairs();
  };
  expect_near(fit_cost(again).heads,
              golden["broken"]["one head at a time, first layer done again for each"]["exponent H"],
              1e-9, 0);
  EXPECT_EQ(judge_cost(again, 3).verdict, "fails");
  const auto forgotten = [](const CapeSizes& s) { return 2 * s.heads * s.hidden * s.pairs(); };
  EXPECT_EQ(judge_cost(forgotten, 3).verdict, "fails");
  testing::expect_holds_alone("cape.cost");
  const Json times = golden["published_extra_by_D"];
  for (std::size_t n = 0; n < times.size(); ++n) {
    expect_near(published_times()[n].a_unit(), times[n]["ms per unit of D at 2048"], 1e-9, 0);
    expect_near(published_times()[n].at_zero(), times[n]["extra ms at D = 0 by extrapolation"],
                1e-9, 0);
  }
}

at::Tensor cape(const std::string& name) { return golden_tensor("cape_more.safetensors", name); }

TEST(CapeSurface, SurfaceAndSharesAreTheReferences) {
  const Json golden = theory_json("cape_more.json")["surface"];
  Correction f{cape("w1"), cape("b1"), cape("w2"), cape("b2")};
  const std::int64_t head = golden["head"];
  const at::Tensor surface = surface_of(f, head, cape("held"), cape("a"), cape("b"));
  EXPECT_LT(largest_entry(surface - cape("surface")), 1e-12);
  const SurfaceShares shares = surface_shares(surface, cape("a"), cape("b"));
  const Json& row = golden["variance shares"];
  expect_near(shares.affine, row["affine"], 1e-9, 0);
  expect_near(shares.content, row["content alone"], 1e-9, 0);
  expect_near(shares.bias, row["bias alone"], 1e-9, 0);
  expect_near(shares.interaction, row["interaction"], 1e-9, 0);
  expect_near(shares.product_cosine, row["cosine of the interaction with a b"], 1e-9, 0);
  const LineCorners got = corners_on_line(f, head, cape("line_from"), cape("line_to"));
  EXPECT_EQ(got.found, golden["corners on the line"].get<std::int64_t>());
  EXPECT_EQ(got.crossed, golden["corners predicted"].get<std::int64_t>());
  for (const Json& product : golden["product"]) {
    expect_near(product_error(product["width"]), product["worst on |a|, |b| <= 1"], 1e-12, 0);
  }
  EXPECT_EQ(judge_surface(f, 1).verdict, "holds");
  f.gelu = true;
  EXPECT_GT(corners_on_line(f, head, cape("line_from"), cape("line_to")).found, 3900);
  EXPECT_EQ(judge_surface(f, 1).verdict, "fails");
  testing::expect_holds_alone("cape.surface");
  EXPECT_EQ(on_model("cape.surface", small_cape("concat")).verdict, "holds");
  EXPECT_EQ(on_model("cape.surface", small_cape("content")).verdict, "premise_not_met");
}

// Of the residual form the score is A + B + f of what f reads, which the layer itself computes.
TEST(CapeSurface, ReadsWhatTheLayerReads) {
  const auto model = model::in_dtype(small_cape("concat_residual"), at::kDouble);
  const Texts texts = random_texts(3, 24, model->config().vocab_size, 3);
  CheckContext context;
  context.model = model, context.texts = &texts, context.progress = &quiet;
  const PairsRead read = pairs_read(context, 1, 60);
  ASSERT_EQ(read.query.size(), 60u);
  const Correction f = corrections_of(*model).at(1);
  const std::int64_t heads = f.w2.size(0);
  const at::Tensor scores =
      read.inputs.narrow(1, 0, heads) + read.inputs.narrow(1, heads, heads) + f.of(read.inputs);
  for (std::size_t n = 0; n < read.query.size(); ++n) {
    TextPass pass(model, ids_tensor(texts.items[static_cast<std::size_t>(read.text[n])].ids));
    const std::int64_t query = read.query[n], key = read.key[n];
    const at::Tensor score =
        pass.layer(1)->scores({{0, heads}, {query, query + 1}, {key, key + 1}}).score.flatten();
    EXPECT_LT(largest_entry(scores[static_cast<std::int64_t>(n)] - score), 1e-12) << n;
  }
}

// Four corners of a square around points within; of three units two have a crease that runs
// through it.
TEST(CapeSurface, CreasesOfARegionKnownByHand) {
  const ConvexRegion region =
      region_around({{0, 0}, {1, 0}, {0.5, 0.25}, {1, 1}, {0, 1}, {0.5, 0}, {0, 0}, {0.5, 0.5}});
  EXPECT_EQ(region.x, (std::vector<double>{0, 1, 1, 0, 0}));
  EXPECT_EQ(region.y, (std::vector<double>{0, 0, 1, 1, 0}));
  // Of two heads; head 0 reads columns 0 and 2. Creases a = 1/2, a + b = 3 and b = 1/4 once the
  // other head's content, 2, has been held.
  const Correction f{
      at::tensor({1., 0., 0., 0., 1., 0., 1., 0., 0., 1., 1., 0.}, at::kDouble).view({3, 4}),
      at::tensor({-0.5, -3., -2.25}, at::kDouble), at::ones({2, 3}, at::kDouble),
      at::zeros({2}, at::kDouble)};
  const at::Tensor held = at::tensor({7., 2., 7., 0.}, at::kDouble);
  EXPECT_EQ(creases_inside(f, 0, held, region), 2);
  EXPECT_EQ(creases_inside(f, 0, at::zeros({4}, at::kDouble), region), 1);
}

// The head that is asked for is shown, over a box that its pairs have.
TEST(CapeSurface, ShowsTheHeadThatIsAskedFor) {
  const auto model = small_cape("concat");
  const Texts texts = random_texts(4, 24, model->config().vocab_size, 3);
  CheckContext context;
  context.model = model, context.texts = &texts, context.progress = &quiet;
  context.layer = 1, context.head = 1;
  const TheoryCheck check = select_checks({"cape.surface"}).at(0);
  const CheckResult got = run_check(check, context);
  EXPECT_NE(got.detail.find("; L1H1 over content scores "), std::string::npos) << got.detail;
  EXPECT_NE(got.detail.find(" of 4 texts "), std::string::npos) << got.detail;
  ASSERT_GE(got.curves.size(), 3u);
  EXPECT_TRUE(got.curves[0].label.starts_with("L1H1, bias ")) << got.curves[0].label;
  const PairsRead read = pairs_read(context, 1, 4096);
  const at::Tensor own = read.inputs.select(1, 1);
  EXPECT_DOUBLE_EQ(got.curves[0].x.front(), own.min().item<double>());
  EXPECT_DOUBLE_EQ(got.curves[0].x.back(), own.max().item<double>());
  context.head = 0;
  EXPECT_NE(run_check(check, context).curves[0].y, got.curves[0].y);
  context.head = 9;
  EXPECT_THROW(run_check(check, context), formats::Error);
}

// ---- rope.assumption ----------------------------------------------------------------------------

TEST(RopeAssumption, BinsAndVerdictsAreTheReferences) {
  const Json golden = theory_json("rope_more.json")["assumption"];
  for (std::size_t n = 0; n < 3; ++n) {
    const std::string prefix = "assumption." + std::to_string(n);
    const at::Tensor a = outside("rope_more.safetensors", prefix + ".A");
    if (!a.defined()) GTEST_SKIP() << "needs ../shared/golden/theory";
    CoefficientPairs pairs;
    pairs.distance = to_vector<double>(outside("rope_more.safetensors", "assumption.distance"));
    pairs.a = to_vector<double>(a);
    pairs.b = to_vector<double>(outside("rope_more.safetensors", prefix + ".B"));
    pairs.planes = a.size(1);
    const CoefficientBins bins = coefficient_bins(pairs);
    const Json& row = golden["cases"][n];
    for (std::size_t b = 0; b < 10; ++b) {
      expect_near(bins.mu[b].mean, row["mu by distance, ten equal bins"][b], 1e-9, 0);
      expect_near(bins.mu[b].error, row["se"][b], 1e-9, 0);
      expect_near(bins.nu[b].mean, row["nu by distance"][b], 1e-9, 0);
      expect_near(bins.sums[b], row["bin means of sum |A|"][b], 1e-9, 0);
    }
    for (std::size_t d = 0; d < 4; ++d) {
      expect_near(bins.mu_by_plane[d], row["mu by plane"][d], 1e-9, 0);
      expect_near(bins.sd_by_plane[d], row["sd by plane"][d], 1e-9, 0);
    }
    expect_near(bins.smallest, row["smallest |mu| of a bin"], 1e-9, 0);
    expect_near(bins.largest_sum, row["bound: largest sum over planes of |A| + |B|"], 1e-9, 0);
    const HeadVerdict verdict = judge_coefficients(bins);
    EXPECT_EQ(name_of(verdict.verdict), n == 0 ? std::string("holds") : "fails") << verdict.why;
  }
}

// One sign for all pairs, and means that cross 0.
TEST(RopeAssumption, JudgesConstructedPairs) {
  Random random(4);
  for (const bool crossing : {false, true}) {
    CoefficientPairs pairs;
    pairs.planes = 2;
    for (int n = 0; n < 1000; ++n) {
      pairs.distance.push_back(n + 1);
      const double mean = crossing ? 1 - n / 500.0 : 1;
      for (int d = 0; d < 2; ++d) {
        pairs.a.push_back(mean + 0.3 * random.normal()), pairs.b.push_back(random.normal());
      }
    }
    const HeadVerdict got = judge_coefficients(coefficient_bins(pairs));
    EXPECT_EQ(got.verdict, crossing ? Verdict::fails : Verdict::holds) << got.why;
  }
  EXPECT_NE(on_model("rope.assumption", small_model("rope")).verdict, "undecided");
  EXPECT_EQ(on_model("rope.assumption", small_model("rope"), 3).verdict, "undecided");
  EXPECT_EQ(on_model("rope.assumption", small_model("alibi")).verdict, "premise_not_met");
}

// ---- rope.effective_context ---------------------------------------------------------------------

std::vector<double> rope_angles(double base, std::int64_t dim) {
  std::vector<double> angles;
  for (std::int64_t d = 0; d < dim / 2; ++d) {
    angles.push_back(std::pow(base, -2 * static_cast<double>(d) / static_cast<double>(dim)));
  }
  return angles;
}

TEST(RopeEffectiveContext, RootsAndFirstDistancesAreTheReferences) {
  const Json golden = theory_json("rope_more.json")["effective_context"];
  for (const Json& row : golden["limit"]) {
    const LimitRoots got = limit_roots(row["nu over mu"]);
    expect_near(got.curve, row["zero of the curve over base"], 1e-9, 0);
    expect_near(got.octave, row["zero of the octave mean over base"], 1e-9, 0);
  }
  for (const Json& row : golden["finite"]) {
    const std::int64_t dim = row["D"];
    if (dim > 1000) continue;  // seconds
    const std::vector<double> angles = rope_angles(row["base"], dim);
    const auto planes = static_cast<std::size_t>(dim / 2);
    const double rho = row["nu over mu"];
    const BiasHead head{std::vector<double>(planes, 1), std::vector<double>(planes, rho)};
    const auto last = static_cast<std::int64_t>(4 * row["base"].get<double>());
    const EffectiveContext got = effective_contexts({head}, angles, last, &quiet)[0];
    EXPECT_EQ(got.half.value_or(-1), row["octave mean first below half"].get<std::int64_t>());
    const Json& zero = row["octave mean first below 0"];
    EXPECT_EQ(got.zero.value_or(-1), zero.is_null() ? -1 : zero.get<std::int64_t>()) << row.dump();
  }
}

// 4 base, whatever the number of planes, times a linear scaling's factor.
TEST(RopeEffectiveContext, IsSearchedForUpToFourTimesTheBase) {
  for (const std::int64_t dim : {8, 64, 128}) {
    std::vector<double> angles = rope_angles(1e4, dim);
    EXPECT_EQ(distances_searched(angles), 40000) << dim;
    for (double& angle : angles) angle /= 4;
    EXPECT_EQ(distances_searched(angles), 160000) << dim;
  }
  EXPECT_EQ(distances_searched(rope_angles(1e9, 64)), 2000000);
  EXPECT_EQ(distances_searched({1, 0}), 2000000);  // a plane that stands still
  EXPECT_EQ(distances_searched({0, 0}), 1024);
}

TEST(RopeEffectiveContext, HeadsAreTheReferences) {
  const at::Tensor mu = outside("rope_more.safetensors", "head_mu"),
                   nu = outside("rope_more.safetensors", "head_nu");
  if (!mu.defined()) GTEST_SKIP() << "needs ../shared/golden/theory";
  std::vector<BiasHead> heads;
  for (std::int64_t h = 0; h < 4; ++h) {
    heads.push_back({to_vector<double>(mu[h]), to_vector<double>(nu[h])});
  }
  const auto got = effective_contexts(heads, rope_angles(1e4, 32), 40000, &quiet);
  const Json golden = theory_json("rope_more.json")["effective_context"]["heads"]["rows"];
  for (std::size_t h = 0; h < 4; ++h) {
    const Json &half = golden[h]["octave mean first below half"],
               &zero = golden[h]["octave mean first below 0"];
    EXPECT_EQ(got[h].half.value_or(-1), half.is_null() ? -1 : half.get<std::int64_t>()) << h;
    EXPECT_EQ(got[h].zero.value_or(-1), zero.is_null() ? -1 : zero.get<std::int64_t>()) << h;
    expect_near(got[h].at_zero, golden[h]["curve at 0"], 1e-9, 0);
  }
}

TEST(RopeEffectiveContext, IgnoringTheScalingBreaksTheIdentity) {
  const std::vector<double> angles = rope_angles(1e4, 64);
  std::vector<double> scaled = angles;
  for (double& angle : scaled) angle /= 4;
  const BiasHead head{std::vector<double>(32, 1), std::vector<double>(32, 0.2)};
  EXPECT_LT(scaling_residual(head, angles, scaled, 4), 1e-12);
  EXPECT_GT(scaling_residual(head, angles, angles, 4), 1e-3);
  const CheckResult got = on_model("rope.effective_context", small_model("rope"));
  EXPECT_EQ(got.verdict, "holds") << got.detail;
  EXPECT_EQ(on_model("rope.effective_context", small_model("none")).verdict, "premise_not_met");
}

}  // namespace
}  // namespace phasescope::analysis
