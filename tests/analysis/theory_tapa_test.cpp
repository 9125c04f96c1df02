// The checks on TAPA's scores against the reference results, and on inputs built to break them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>

#include "analysis/random.h"
#include "analysis/tensors.h"
#include "analysis/theory/tapa_decay.h"
#include "analysis/theory/tapa_dimension.h"
#include "analysis/theory/tapa_linear_phase.h"
#include "analysis/theory/tapa_nondegenerate.h"
#include "analysis/theory/tapa_phi_zero.h"
#include "analysis/theory/tape_wy.h"
#include "golden_tape.h"
#include "theory_runs.h"

namespace phasescope::analysis {
namespace {

using formats::Json;
using testing::expect_near;
using testing::golden_tensor;
using testing::theory_json;

TEST(TapaDecay, ClosedFormsAreTheReferences) {
  for (const Json& row : Json(theory_json("tapa.json")["closed_form"])) {
    const GaussianPhase law{row["alpha"], row["sigma"], row["n"]};
    const double lambda = row["lambda"];
    expect_near(law.mean_cosine(lambda), row["mean_cos"], 1e-12, 0);
    expect_near(law.slope(lambda), row["local_slope"], 1e-12, 0);
    expect_near(law.bound(lambda), row["bound"], 1e-12, 0);
  }
}

// The reference's pairs: every number of its tables, and both verdicts of all five readings.
TEST(TapaDecay, TablesAndVerdictsAreTheReferences) {
  const Json golden = theory_json("tapa_more.json");
  const auto amplitude = to_vector<double>(golden_tensor("tapa_more.safetensors", "amplitude"));
  const auto phase = to_vector<double>(golden_tensor("tapa_more.safetensors", "phase"));
  for (const Json& one : golden["verdicts"]) {
    const std::string name = one["case"];
    std::vector<double> amp = amplitude, phi = phase;
    if (name == "dead phase") std::fill(phi.begin(), phi.end(), 0);
    const double mean = mean_error(amplitude, {}).mean;
    if (name == "amplitude of mean zero") {
      for (double& x : amp) x -= mean;
    }
    std::vector<TapaRow> rows;
    for (const Json& row : one["by_distance"]) {
      const double lambda = row["lambda"];
      const double damping = std::pow(lambda, -one["damping"].get<double>());
      const TapaRow& got =
          rows.emplace_back(tapa_row(tapa_pairs(lambda, one["alpha"], amp, phi, damping)));
      EXPECT_NEAR(got.cosine.mean, row["mean_cos"].get<double>(), 1e-9) << name;
      EXPECT_NEAR(got.cosine.error, row["se_cos"].get<double>(), 1e-9) << name;
      EXPECT_NEAR(got.score.mean, row["mean_score"].get<double>(), 1e-9) << name;
      EXPECT_NEAR(got.score.error, row["se_score"].get<double>(), 1e-9) << name;
      EXPECT_NEAR(got.ratio, row["variance over c/2"].get<double>(), 1e-9) << name;
      EXPECT_NEAR(got.ratio_error, row["se of it"].get<double>(), 1e-9) << name;
      EXPECT_NEAR(got.rest, row["E[amp^2 cos 2 phase]/2 - (E score)^2 over c/2"].get<double>(),
                  1e-9)
          << name;
    }
    const auto words = [](std::string verdict) {
      return verdict == "premise not met" ? std::string("premise_not_met") : verdict;
    };
    // Damped scores have the mean that the reference's reading without the equation has.
    const HeadVerdict decay = judge_decay(rows, mean_error(amp, {}));
    EXPECT_EQ(name_of(decay.verdict), words(one["tapa.decay"])) << name << decay.why;
    const HeadVerdict variance = judge_variance(rows);
    EXPECT_EQ(name_of(variance.verdict), words(one["tapa.nondegenerate"])) << name << variance.why;
  }
}

TEST(TapaDecay, HoldsOnGaussianDraws) {
  testing::expect_holds_alone("tapa.decay");
  testing::expect_holds_alone("tapa.nondegenerate");
}

// A row of independent pairs and the same with texts of one pair: the errors agree but for n/(n-1).
TEST(TapaDecay, ErrorsAreClusteredByText) {
  const std::vector<double> values{1, 2, 4, 8};
  const double apart = mean_error(values, {}).error;
  EXPECT_NEAR(mean_error(values, {0, 1, 2, 3}).error, apart * std::sqrt(4.0 / 3), 1e-15);
  // Two texts of equal pairs: as two values.
  EXPECT_NEAR(mean_error({1, 1, 3, 3}, {0, 0, 1, 1}).error, 1, 1e-15);
}

// A progress that counts what it is told of.
struct CountedProgress final : protocol::Progress {
  void progress(double, std::string_view) override { ++count; }
  bool cancelled() const override { return false; }
  int count = 0;
};

TEST(TapaSamples, AreReadOnceForAllChecksOfAModel) {
  const auto model = testing::small_model("tapa");
  const Texts texts = random_texts(24, 32, model->config().vocab_size, 11);
  CheckSamples samples;
  const auto told = [&](const std::string& id, CheckSamples* kept) {
    CountedProgress progress;
    CheckContext context;
    context.model = model, context.texts = &texts, context.progress = &progress;
    context.pairs = 200, context.samples = kept;
    const CheckResult result = run_check(select_checks({id}).at(0), context);
    return std::pair{progress.count, protocol::to_json_form(result).dump()};
  };
  const auto first = told("tapa.decay", &samples), second = told("tapa.nondegenerate", &samples);
  const auto alone = told("tapa.nondegenerate", nullptr);
  EXPECT_GT(first.first, second.first);
  EXPECT_EQ(second.first, 0);
  EXPECT_EQ(second.second, alone.second);
}

// ---- tapa.phi_zero ------------------------------------------------------------------------------

model::ModelConfig scores_config(const std::string& phase) {
  const Json sizes = theory_json("tapa_more.json")["scores"];
  model::ModelConfig config;
  config.heads = config.kv_heads = 1;
  config.width = config.head_dim = sizes["D"];
  config.encoding = {"tapa", {{"alpha", sizes["alpha"]}, {"split", sizes["t"]}, {"phase", phase}}};
  return config;
}

at::Tensor more(const std::string& name) { return golden_tensor("tapa_more.safetensors", name); }

TEST(TapaPhiZero, ScoresAreTheReferences) {
  const at::NoGradGuard no_gradients;
  model::ModelConfig config = scores_config("quadratic");
  const at::Tensor zero =
      tapa_scores(config, without_phase(config, more("q")), more("k"), more("i"), more("j"));
  EXPECT_LT((zero - more("score_phase_zero")).abs().max().item<double>(), 1e-12);
  config.encoding.options["alpha"] = 0.0;
  const at::Tensor flat = tapa_scores(config, more("q"), more("k"), more("i"), more("j"));
  EXPECT_LT((flat - more("score_alpha_zero")).abs().max().item<double>(), 1e-12);
}

TEST(TapaPhiZero, HoldsForBothPhasesAndFailsWithThePhaseLeft) {
  const at::NoGradGuard no_gradients;
  const auto left = [](const model::ModelConfig&, const at::Tensor& x) { return x; };
  for (const std::string phase : {"quadratic", "linear"}) {
    const model::ModelConfig config = scores_config(phase);
    const auto judged = [&](auto zero) {
      return judge_phi_zero(config, more("q"), more("k"), more("i"), more("j"), zero);
    };
    const CheckResult right = judged(without_phase);
    EXPECT_EQ(right.verdict, "holds") << right.detail;
    const CheckResult wrong = judged(+left);
    EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
    EXPECT_GT(wrong.value, 1);
  }
  testing::expect_holds_alone("tapa.phi_zero");
}

// ---- tapa.dimension -----------------------------------------------------------------------------

TEST(TapaDimension, LawsAreTheReferences) {
  for (const Json& row : Json(theory_json("tapa_more.json")["dimension"]["rows"])) {
    const double lambda = row["lambda"];
    const bool grows = row.contains("s");
    for (std::size_t at = 0; at < row["n"].size(); ++at) {
      const std::int64_t n = row["n"][at];
      const double sigma =
          grows ? std::sqrt(row["s"].get<double>() * std::sqrt(static_cast<double>(n)))
                : row["sigma"].get<double>();
      expect_near(GaussianPhase{0.1, sigma, n}.mean_cosine(lambda), row["mean_cos gaussian"][at],
                  1e-9, 0);
      if (grows) continue;
      expect_near(signs_mean_cosine(lambda, 0.1, sigma, n), row["mean_cos signs"][at], 1e-9, 0);
      expect_near(fixed_variance_limit(lambda, 0.1, sigma), row["limit"], 1e-9, 0);
    }
  }
}

TEST(TapaDimension, FailsWithAVarianceThatStays) {
  testing::expect_holds_alone("tapa.dimension");
  const auto fixed = [](std::int64_t n) { return GaussianPhase{0.1, 0.3, n}.mean_cosine(1); };
  const double rate = -std::log(fixed(1'000'000) / fixed(4096)) / (1'000'000 - 4096);
  EXPECT_LT(rate, 1e-9);
  EXPECT_EQ(judge_dimension({4096, 1'000'000}, fixed, rate).verdict, "fails");
}

// ---- tapa.linear_phase --------------------------------------------------------------------------

TEST(TapaLinearPhase, ClosedFormsAreTheReferences) {
  const Json golden = theory_json("tapa_more.json")["linear_phase"];
  for (const Json& row : golden["table"]) {
    const double lambda = row["lambda"], sigma = row["sigma"];
    expect_near(linear_mean_cosine(lambda, 0.1, sigma), row["linear, every n"], 1e-9, 0);
    expect_near(linear_slope(lambda, 0.1, sigma), row["slope in ln lambda"], 1e-9, 0);
    expect_near(GaussianPhase{0.1, sigma, 32}.mean_cosine(lambda), row["quadratic, n = 32"], 1e-9,
                0);
    expect_near(GaussianPhase{0.1, sigma, 32}.slope(lambda), row["its slope"], 1e-9, 0);
  }
  const Json given = golden["mean over keys given the query, |q_P| scaled by 1, .3, .1, .03, 0"];
  EXPECT_EQ(quadratic_given_query(16, 0.1, 0.8, 0, 8), 1);
  expect_near(linear_given_query(16, 0.1, 0.8, 0, 8), given["linear is never above"], 1e-9, 0);
  // Their ratio to the unscaled query's is the square of the scale.
  const double whole = std::log(given["quadratic"][0].get<double>());
  const double norm = std::sqrt(-2 * whole * 8) / (2 * std::numbers::pi * std::pow(16, 0.1) * 0.8);
  for (int n = 0; n < 4; ++n) {
    const double scale[] = {1, .3, .1, .03};
    expect_near(quadratic_given_query(16, 0.1, 0.8, norm * scale[n], 8), given["quadratic"][n],
                1e-9, 0);
  }
}

TEST(TapaLinearPhase, RankTellsTheQuadraticPhase) {
  testing::expect_holds_alone("tapa.linear_phase");
  Random random(3);
  std::vector<double> q, k;
  for (int n = 0; n < 48 * 8; ++n) q.push_back(random.normal()), k.push_back(random.normal());
  const auto third = [&](bool linear) {
    return third_singular_value(phase_cosines(q, k, 8, 5, linear), 48);
  };
  EXPECT_EQ(judge_linear_phase(third(true), 0.5, 0.1, 1).verdict, "holds");
  EXPECT_EQ(judge_linear_phase(third(false), 0.5, 0.1, 1).verdict, "fails");
  EXPECT_EQ(judge_linear_phase(third(true), 0.5, 0.5, 1).verdict, "fails");  // alpha = 0
}

// ---- tape.wy ------------------------------------------------------------------------------------

TEST(TapeWy, FactorsAreTheReferencesAndTheDiagonalBreaksThem) {
  const Json golden = theory_json("tape_wy.json");
  const auto xi = golden["xi"].get<Vectors>(), w = golden["w"].get<Vectors>();
  const Vectors got = wy_factors(xi);
  for (std::size_t n = 0; n < w.size(); ++n) EXPECT_LT(largest_difference(got[n], w[n]), 1e-12);
  const std::vector<double> product = product_of_reflections(xi);
  std::vector<double> last;
  for (const Json& row : golden["products"].back()) {
    for (const Json& x : row) last.push_back(x);
  }
  EXPECT_LT(largest_difference(product, last), 1e-12);
  EXPECT_LT(largest_difference(wy_form(xi, got), product), 1e-12);
  const double broken = largest_difference(wy_form(xi, wy_factors(xi, true)), product);
  expect_near(broken, golden["residual_with_diagonal"], 1e-9, 0);
  testing::expect_holds_alone("tape.wy");
}

}  // namespace
}  // namespace phasescope::analysis
