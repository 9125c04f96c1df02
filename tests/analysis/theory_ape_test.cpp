// The checks on orthogonal positions against the reference results, and on inputs built to break
// them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/tensors.h"
#include "analysis/theory/ape_absolute.h"
#include "analysis/theory/ape_commutator.h"
#include "analysis/theory/ape_composite.h"
#include "analysis/theory/ape_decomposition.h"
#include "analysis/theory/ape_faithful.h"
#include "analysis/theory/ape_group_laws.h"
#include "analysis/theory/ape_no_order.h"
#include "analysis/theory/ape_orthogonal.h"
#include "analysis/theory/ape_periodic_domain.h"
#include "analysis/theory/ape_reflection.h"
#include "analysis/theory/ape_rope_equivalence.h"
#include "golden_tape.h"
#include "theory_runs.h"

namespace phasescope::analysis {
namespace {

using formats::Json;
using testing::expect_near;
using testing::golden_tensor;
using testing::model_with;
using testing::small_model;
using testing::theory_json;

at::Tensor ape(const std::string& name) { return golden_tensor("ape.safetensors", name); }
at::Tensor more(const std::string& name) { return golden_tensor("ape_more.safetensors", name); }
Matrices generators(at::Tensor (*file)(const std::string&)) { return {file("W")[0], file("W")[1]}; }
std::vector<std::int64_t> whole(const at::Tensor& x) { return to_vector<std::int64_t>(x); }

CheckResult on_model(const std::string& id, const testing::ModelPointer& model) {
  protocol::NoProgress progress;
  const Texts texts = random_texts(2, 24, model->config().vocab_size, 3);
  CheckContext context;
  context.model = model;
  context.texts = &texts;
  context.progress = &progress;
  return run_check(select_checks({id}).at(0), context);
}

const std::vector<std::string> kApeChecks = {
    "ape.group_laws", "ape.orthogonal",    "ape.rope_equivalence", "ape.composite",
    "ape.no_order",   "ape.decomposition", "ape.faithful",         "ape.reflection",
    "ape.commutator", "ape.periodic",      "ape.absolute"};

TEST(TheoryApe, HoldsOnDrawnMatrices) {
  for (const std::string& id : kApeChecks) testing::expect_holds_alone(id);
}

TEST(TheoryApe, PowersAndAnglesAreTheReferences) {
  const std::vector<std::int64_t> powers = whole(ape("powers"));
  const at::Tensor w = ape("W")[0];
  for (std::size_t n = 0; n < powers.size(); ++n) {
    const double p = std::abs(static_cast<double>(powers[n]));
    // Its own rounding and ours, and the defect of exp, p times.
    const double allowed = p * (orthogonality_defect(w) + power_rounding(6, 1)) + 1e-12;
    EXPECT_LT(
        largest_entry(power_of(w, powers[n]) - ape("W0_powers")[static_cast<std::int64_t>(n)]),
        allowed)
        << powers[n];
  }
  for (const auto& [matrix, angles] :
       {std::pair{"W", "angles_W0"}, std::pair{"double_angles_W", "double_angles"}}) {
    const at::Tensor of = ape(matrix);
    const at::Tensor one = of.dim() == 3 ? of[0] : of;
    CanonicalForm form = canonical_form(one);
    std::ranges::sort(form.angles);
    const std::vector<double> wanted = to_vector<double>(ape(angles));
    ASSERT_EQ(form.angles.size(), wanted.size());
    for (std::size_t m = 0; m < wanted.size(); ++m) EXPECT_NEAR(form.angles[m], wanted[m], 1e-12);
    const at::Tensor back = at::matmul(form.basis.t(), form.basis);
    EXPECT_LT(largest_entry(back - at::eye(6, at::kDouble)), 1e-12) << matrix;
  }
}

TEST(TheoryApe, ScoresAreTheReferences) {
  const Matrices two = generators(ape);
  const at::Tensor pairs = ape("tree_pairs"), grid = ape("grid_offsets"), ij = ape("sequence_ij");
  for (std::int64_t n = 0; n < pairs.size(0); ++n) {
    const std::vector<std::int64_t> pair = whole(pairs[n]);
    const at::Tensor path = at::matmul(path_matrix(two, path_of_node(pair[0]), 6).t(),
                                       path_matrix(two, path_of_node(pair[1]), 6));
    EXPECT_LT(largest_entry(path - ape("tree_paths")[n]), 1e-12);
    EXPECT_NEAR(score(ape("q"), path, ape("k")), ape("tree_scores")[n].item<double>(), 1e-12);
  }
  for (std::int64_t n = 0; n < grid.size(0); ++n) {
    const std::vector<std::int64_t> at = whole(grid[n]);
    const at::Tensor map = direct_sum({power_of(two[0], at[0]), power_of(two[1], at[1])});
    EXPECT_NEAR(score(ape("q_pair"), map, ape("k_pair")), ape("grid_scores")[n].item<double>(),
                1e-12);
  }
  for (std::int64_t n = 0; n < ij.size(0); ++n) {
    const std::vector<std::int64_t> at = whole(ij[n]);
    EXPECT_NEAR(two_sided_score(two[0], ape("q"), at[0], ape("k"), at[1]),
                ape("sequence_scores")[n].item<double>(), 1e-11);
  }
}

TEST(ApeGroupLaws, FailsWhereTheTransposeDoesNotInvert) {
  const GroupLaws got = group_laws_of(ape("W")[0], ape("W")[1]);
  const Json golden = theory_json("ape.json")["residuals"];
  expect_near(got.tree, golden["tree commutator"], 1e-12, 0);
  EXPECT_LT(got.associative, 10 * golden["associative"].get<double>() + 1e-15);
  Generators right{generators(ape), "tree", 0, {}}, wrong = right;
  EXPECT_EQ(judge_group_laws(right).verdict, "holds");
  for (at::Tensor& w : wrong.matrices) w = w * 1.001;
  EXPECT_EQ(judge_group_laws(wrong).verdict, "fails");
  // A tree whose branches share a matrix, and a periodic one that needs more steps.
  EXPECT_EQ(judge_group_laws({{right.matrices[0], right.matrices[0]}, "tree", 0, {}}).verdict,
            "fails");
  const std::int64_t period = theory_json("ape.json")["period"];
  EXPECT_EQ(judge_group_laws({{ape("periodic_W")}, "periodic", period, {}}).verdict, "holds");
  EXPECT_EQ(judge_group_laws({{ape("periodic_W")}, "periodic", period - 1, {}}).verdict, "fails");
}

TEST(ApeOrthogonal, GrowthIsTheReferencesAndAScaledGeneratorFails) {
  for (const Json& row : Json(theory_json("ape.json")["orthogonality_defect_by_doubling"])) {
    const double wanted = row["max"], got = defect_of_power(ape("W")[0], row["p"]);
    EXPECT_LT(got, 10 * wanted) << row.dump();  // an order of magnitude, as the reference says
    EXPECT_GT(got, wanted / 10) << row.dump();
  }
  const at::Tensor scaled = more("W")[0] * (1 + 1e-6);
  for (const Json& row :
       Json(theory_json("ape_more.json")["orthogonal_must_fail"]["defect by p"])) {
    expect_near(defect_of_power(scaled, row["p"]), row["max"], 1e-9, 0);
  }
  EXPECT_EQ(judge_orthogonal(generators(more)).verdict, "holds");
  EXPECT_EQ(judge_orthogonal({scaled}).verdict, "fails");
}

// As RoFormer has it: its sines are of float32, and those of W of float64.
TEST(ApeRopeEquivalence, AllowsForTheRoundingOfAStoredTable) {
  model::ModelConfig config = testing::small_config("rope");
  config.encoding.options["table_rows"] = 64;
  const auto drawn = model::random_model(config, 2);
  const auto planes = config.head_dim / 2;
  const at::Tensor frequencies =
      at::pow(1e4, -at::arange(planes, at::kDouble) / static_cast<double>(planes));
  const at::Tensor angles = at::arange(64, at::kDouble).outer(frequencies);
  model::Weights weights = drawn->decoder.weights();
  weights.encoding["table"] = at::cat({angles.sin(), angles.cos()}, 1).to(at::kFloat);
  const auto& encoding = drawn->decoder.shared_encoding();
  const auto stored = std::make_shared<const model::Model>(
      model::Model{drawn->report, drawn->tokenizer, model::Decoder(config, encoding, weights)});
  const CheckResult result = on_model("ape.rope_equivalence", stored);
  EXPECT_EQ(result.verdict, "holds") << result.detail;
}

TEST(ApeRopeEquivalence, FoldedScoresAreTheReferencesAtAnAngleOfPiToo) {
  const at::Tensor q = more("q"), k = more("k");
  const std::vector<std::int64_t> powers = whole(more("reflection_powers"));
  for (const at::Tensor& w : {more("W")[0], more("angle_pi_W")}) {
    const CanonicalForm form = canonical_form(w);
    EXPECT_EQ(form.plus + form.minus, 0);
    EXPECT_LT(folded_difference(w, form, q, k, powers), 1e-12);
    EXPECT_GT(folded_difference(w, form, q, k, powers, false), 1e-3);
  }
  for (std::size_t n = 0; n < powers.size(); ++n) {
    EXPECT_NEAR(score(q, power_of(more("angle_pi_W"), powers[n]), k),
                more("angle_pi_scores")[static_cast<std::int64_t>(n)].item<double>(), 1e-11);
  }
  // A layer's projections folded: the reference's scores of seven tokens.
  const CanonicalForm form = canonical_form(more("W")[0]);
  const at::Tensor fq = at::matmul(at::matmul(more("fold_x"), more("fold_wq").t()), form.basis);
  const at::Tensor fk = at::matmul(at::matmul(more("fold_x"), more("fold_wk").t()), form.basis);
  for (std::int64_t i = 0; i < 7; ++i) {
    for (std::int64_t j = 0; j < 7; ++j) {
      EXPECT_NEAR(rope_score(fq[i], form.angles, j - i, fk[j]),
                  more("fold_scores")[i][j].item<double>(), 1e-12);
    }
  }
}

TEST(ApeComposite, PartsAndWholeAreTheReferences) {
  const at::Tensor q = more("composite_q"), k = more("composite_k");
  for (std::int64_t n = 0; n < 3; ++n) {
    const auto place = [&](const std::string& name) {
      const std::vector<std::int64_t> at = whole(more(name)[n]);
      return CompositePlace{at[0], at[1], at[2]};
    };
    const Matrices parts =
        composite_parts(generators(more), place("composite_from"), place("composite_to"));
    EXPECT_NEAR(score(q, direct_sum(parts), k), more("composite_scores")[n].item<double>(), 1e-12);
    for (std::int64_t p = 0; p < 3; ++p) {
      EXPECT_NEAR(score(q.narrow(0, 10 * p, 10), parts[static_cast<std::size_t>(p)],
                        k.narrow(0, 10 * p, 10)),
                  more("composite_parts")[n][p].item<double>(), 1e-12);
    }
  }
}

TEST(ApeNoOrder, ResidualsAreTheReferences) {
  const BareAttention attention{more("phi_q"), more("phi_k"), more("phi_v")};
  const Json golden = theory_json("ape_more.json")["no_order"];
  EXPECT_LT(largest_entry(attention.of(more("X"), more("Y")) - more("atn")), 1e-12);
  const OrderResiduals got =
      order_residuals(attention, more("X"), more("Y"), more("perm"), more("early_perm"));
  EXPECT_LT(got.keys, 1e-14);
  EXPECT_LT(got.own, 1e-14);
  EXPECT_LT(got.last_row, 1e-14);
  expect_near(got.causal, golden["causal"], 1e-9, 0);
  expect_near(got.two_layers, golden["the same after two layers"], 1e-9, 0);
  expect_near(got.keys_alone, golden["keys alone permuted, values left"], 1e-9, 0);
}

// A bidirectional model without an encoding; one whose encoding says it has none and reads places.
TEST(ApeNoOrder, VerdictsOnModels) {
  auto config = testing::small_config("none");
  config.attention.causal = false;
  const auto blind = model::random_model(config, 3);
  EXPECT_EQ(on_model("ape.no_order", blind).verdict, "holds");
  for (const std::string key : {"none", "rope", "alibi"}) {
    const CheckResult got = on_model("ape.no_order", small_model(key));
    EXPECT_EQ(got.verdict, "premise_not_met") << key;
    EXPECT_GT(got.value, 1e-3) << key;
    // Drawn token by token: the one that moves most is the number.
    ASSERT_EQ(got.curves.size(), 2u) << key;
    EXPECT_DOUBLE_EQ(std::ranges::max(got.curves[0].y), *got.value) << key;
  }
  auto other = config;
  other.encoding.key = "alibi";
  const auto biased = model::random_model(other, 3);
  // The configuration still says "none".
  const auto liar = std::make_shared<const model::Model>(model::Model{
      blind->report, blind->tokenizer,
      model::Decoder(config, biased->decoder.shared_encoding(), blind->decoder.weights())});
  EXPECT_EQ(on_model("ape.no_order", liar).verdict, "fails");
}

TEST(ApeDecomposition, ScoresAreTheReferences) {
  const Matrices two = generators(more);
  std::vector<std::vector<std::int64_t>> grid;
  for (std::int64_t n = 0; n < 9; ++n) grid.push_back(whole(more("grid.positions")[n]));
  const Places sequence = sequence_places(two[0], whole(more("sequence.positions")));
  const Places tree = tree_places(two, whole(more("tree.positions")));
  const Places square = grid_places(two, grid);
  for (const Places* places : {&sequence, &tree, &square}) {
    const bool wide = places->name == "grid";
    const at::Tensor q = more(wide ? "q_grid" : "qs"), k = more(wide ? "k_grid" : "ks");
    const double bound = product_bound(two, places->largest_power);
    EXPECT_LT(decomposition_difference(*places, q, k), bound) << places->name;
    const at::Tensor wanted = more(places->name + ".scores");
    EXPECT_LT(largest_entry(relative_scores(*places, q, k) - wanted), 100 * bound) << places->name;
  }
  const Places wrong = tree_places({two[0] * 1.02, two[1] * 1.02}, whole(more("tree.positions")));
  EXPECT_GT(decomposition_difference(wrong, more("qs"), more("ks")), 1e-3);
}

TEST(ApeFaithful, NearestReturnsAreTheReferences) {
  for (const Json& row : Json(theory_json("ape_more.json")["faithfulness"])) {
    const auto angles = to_vector<double>(more("faith." + row["head"].get<std::string>()));
    for (const Json& by : row["by N"]) {
      const NearestReturn got = nearest_return(angles, by["N"]);
      EXPECT_NEAR(got.distance, by["smallest"].get<double>(), 1e-9) << row["head"];
      EXPECT_EQ(got.at, by["at"].get<std::int64_t>()) << row["head"];
      expect_near(dirichlet_bound(by["N"], angles.size()), by["bound"], 1e-9, 0);
    }
    const Json& first = row["first exact return"];
    EXPECT_EQ(nearest_return(angles, 1000).exact, first.is_null() ? 0 : first.get<std::int64_t>());
    expect_near(return_distance_frobenius(angles, row["at"]), row["frobenius there"], 1e-9, 1e-9);
    EXPECT_EQ(judge_faithful({angles}, 100000).verdict, first.is_null() ? "holds" : "fails");
  }
}

TEST(ApeReflection, WideFormIsTheReferencesAndOnePlaneIsNot) {
  const at::Tensor w = more("reflection_W"), q = more("q"), k = more("k");
  EXPECT_LT(determinant(w), -0.999);
  const std::vector<std::int64_t> powers = whole(more("reflection_powers"));
  for (std::size_t n = 0; n < powers.size(); ++n) {
    EXPECT_NEAR(score(q, power_of(w, powers[n]), k),
                more("reflection_scores")[static_cast<std::int64_t>(n)].item<double>(), 1e-12);
  }
  EXPECT_LT(reflected_difference(w, q, k, powers, wide_rope), 1e-12);
  const double size = (q.norm() * k.norm()).item<double>();
  const Json golden = theory_json("ape_more.json")["reflection"];
  // Signs of the two directions are free, so the wrong score is not the reference's to the digit.
  EXPECT_GT(size * reflected_difference(w, q, k, powers, single_plane),
            0.3 * golden["pair +1, -1 treated as one plane, worst"].get<double>());
  EXPECT_EQ(canonical_form(w).angles.size() + 2,
            static_cast<std::size_t>(golden["planes needed"].get<int>()));
}

TEST(ApeCommutator, NormsAreTheReferencesAndSharedPlanesFail) {
  const Json golden = theory_json("ape_more.json")["commutator"];
  for (const auto& [name, row] : golden.items()) {
    const at::Tensor both = more("commute." + name);
    const Commutator got = commutator_of(both[0], both[1]);
    EXPECT_NEAR(got.norm, row["frobenius"].get<double>(), 1e-12) << name;
    expect_near(got.bound, row["bound 2 |W1 - I| |W2 - I|_F"], 1e-9, 0);
    expect_near(got.most, row["largest possible 2 sqrt d"], 1e-12, 0);
    const bool commute = row["frobenius"].get<double>() < 1e-12;
    EXPECT_EQ(judge_commutators({both[0], both[1]}).verdict, commute ? "fails" : "holds") << name;
  }
}

TEST(ApePeriodic, PeriodsAreTheReferencesAndACommonFactorFails) {
  int n = 0;
  for (const Json& row : Json(theory_json("ape_more.json")["periodic"])) {
    const at::Tensor w = more("periodic." + std::to_string(n++));
    const std::int64_t period = row["n"], true_period = row["true period"];
    const PeriodDistances got = period_distances(w, period);
    EXPECT_EQ(got.true_period, true_period);
    EXPECT_NEAR(got.nearest, row["smallest before n"].get<double>(), 1e-12);
    EXPECT_EQ(period_of_turns(row["turns"].get<std::vector<std::int64_t>>(), period), true_period);
    EXPECT_EQ(judge_period({w}, period).verdict, true_period == period ? "holds" : "fails");
  }
  EXPECT_EQ(judge_period({more("W")[0]}, 12).verdict, "fails");
}

TEST(ApeAbsolute, ScoresAreTheReferencesAndTheTwoSidedOneFails) {
  const at::Tensor w = more("W")[0], ij = more("absolute_ij");
  for (std::int64_t n = 0; n < ij.size(0); ++n) {
    const std::vector<std::int64_t> at = whole(ij[n]);
    EXPECT_NEAR(one_sided_score(w, more("q"), at[0], more("k"), at[1]),
                more("absolute_scores")[n].item<double>(), 1e-11);
  }
  EXPECT_EQ(judge_absolute({w}, 1, one_sided_score).verdict, "holds");
  EXPECT_EQ(judge_absolute({w}, 1, two_sided_score).verdict, "fails");
}

TEST(TheoryApe, VerdictsOnModels) {
  for (const std::string key : {"ape_sequence", "ape_tree", "ape_grid", "ape_periodic"}) {
    const auto model = small_model(key);
    for (const std::string& id : kApeChecks) {
      const CheckResult got = on_model(id, model);
      EXPECT_NE(got.verdict, "undecided") << id << ' ' << key << got.detail;
      EXPECT_FALSE(got.detail.empty());
    }
    EXPECT_EQ(on_model("ape.orthogonal", model).verdict, "holds") << key;
    // Branches that all start as RoPE's rotation are one matrix, and commute.
    EXPECT_EQ(on_model("ape.group_laws", model).verdict, key == "ape_tree" ? "fails" : "holds")
        << key << on_model("ape.group_laws", model).detail;
    EXPECT_EQ(on_model("ape.decomposition", model).verdict, "holds")
        << key << on_model("ape.decomposition", model).detail;
  }
  const CheckResult rope = on_model("ape.rope_equivalence", small_model("rope"));
  EXPECT_EQ(rope.verdict, "holds") << rope.detail;
  EXPECT_EQ(on_model("ape.orthogonal", small_model("alibi")).verdict, "premise_not_met");
}

}  // namespace
}  // namespace phasescope::analysis
