// The checks on TAPE's layers and its circuit against the reference results, and on inputs built to
// break them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "analysis/random.h"
#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/general_tape.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/theory/tape_circuit.h"
#include "analysis/theory/tape_identity_layer.h"
#include "analysis/theory/tape_layer_equivariance.h"
#include "analysis/theory/tape_neighbourhood_mean.h"
#include "analysis/theory/tape_orthogonal.h"
#include "analysis/theory/tape_real_shift.h"
#include "analysis/theory/tape_softmax_per_plane.h"
#include "broken_encodings.h"
#include "formats/tensors/safetensors.h"
#include "golden_tape.h"
#include "model/checkpoints/import_tensors.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/temporary_folder.h"
#include "theory_runs.h"

namespace phasescope::analysis {
namespace {

using formats::Json;
using testing::expect_near;
using testing::golden_ids;
using testing::golden_tape;
using testing::golden_tensor;
using testing::small_model;
using testing::theory_json;
using testing::updated_tape;

CheckResult on_model(const std::string& id, const testing::ModelPointer& model) {
  protocol::NoProgress progress;
  const Texts texts = random_texts(2, 24, model->config().vocab_size, 3);
  CheckContext context;
  context.model = model;
  context.texts = &texts;
  context.progress = &progress;
  return run_check(select_checks({id}).at(0), context);
}

// ---- the bare layer -----------------------------------------------------------------------------

at::Tensor lemma(const std::string& name) { return golden_tensor("tape_lemmas.safetensors", name); }

BareLayer golden_layer() {
  BareLayer layer;
  layer.wq = lemma("wq"), layer.wk = lemma("wk"), layer.wv = lemma("wv");
  layer.w1 = lemma("w1"), layer.b1 = lemma("b1"), layer.w2 = lemma("w2"), layer.b2 = lemma("b2");
  return layer;
}

TEST(TapeIdentityLayer, DifferencesAreTheReferences) {
  const Json golden = theory_json("tape_lemmas.json")["identity"];
  const at::Tensor x = lemma("x"), e = lemma("e"), mask = lemma("sparse").to(at::kBool);
  const BareLayer drawn = golden_layer(), right = identity_layer(drawn);
  BareLayer biased = right, alone = right, valued = right;
  biased.b2 = drawn.b2, alone.attention_residual = false, valued.wv = drawn.wv;
  EXPECT_EQ(identity_difference(right, x, e, mask), 0);
  expect_near(identity_difference(biased, x, e, mask), golden["with the last bias left"], 1e-12, 0);
  expect_near(identity_difference(alone, x, e, mask), golden["no attention residual"], 1e-12, 0);
  expect_near(identity_difference(valued, x, e, mask), golden["W_V left"], 1e-12, 0);
  testing::expect_holds_alone("tape.identity_layer");
}

// An import has maps and no values, so that nothing could change its states.
TEST(TapeIdentityLayer, DoesNotJudgeImports) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "attn.safetensors", out = folder.path() / "m";
  const at::Tensor seen = at::ones({1, 2, 32, 32}).tril();
  model::write_tensors(formats::real_file_system(), file, {{"attn", seen / seen.sum(-1, true)}});
  model::import_tensors(formats::real_file_system(), {file}, out, {});
  const auto imported = model::open_model(out.string(), {});
  for (const char* id : {"tape.identity_layer", "tape.permutation", "tape.shift", "ape.no_order"}) {
    const CheckResult got = on_model(id, imported);
    EXPECT_EQ(got.verdict, "premise_not_met") << got.detail;
    EXPECT_FALSE(got.value.has_value()) << got.detail;  // 0 of 0 would be none
    EXPECT_NE(got.detail.find("of an import the maps alone are known"), std::string::npos)
        << got.detail;
  }
}

// Outputs that are 0 whatever is read do not move; a number that is none is not 0.
TEST(RelativeDifference, OfZerosIsZero) {
  const at::Tensor zeros = at::zeros({2, 3}), ones = at::ones({2, 3});
  EXPECT_EQ(relative_difference(zeros, zeros), 0);
  EXPECT_EQ(relative_difference(3 * ones, 2 * ones), 0.5);
  EXPECT_TRUE(std::isinf(relative_difference(ones, zeros)));
  EXPECT_TRUE(std::isnan(relative_difference(ones / zeros - ones / zeros, ones)));
  EXPECT_EQ(on_model("ape.no_order", model::open_model("proof-uniform", {})).value, 0);
}

// In the order that they have, two tokens would pass any check.
TEST(TapePermutation, ReadsAnotherOrderThanTheTextHas) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    Random random(seed);
    EXPECT_EQ(another_order(random, 2), (std::vector<std::int64_t>{1, 0})) << seed;
  }
  const auto model = testing::small_model("rope");
  const Texts texts = random_texts(1, 1, model->config().vocab_size, 3);
  protocol::NoProgress progress;
  CheckContext context;
  context.model = model, context.texts = &texts, context.progress = &progress;
  for (const char* id : {"tape.permutation", "ape.no_order"}) {
    EXPECT_EQ(run_check(select_checks({id}).at(0), context).verdict, "undecided") << id;
  }
}

TEST(TapeNeighbourhoodMean, MeansAreTheReferences) {
  const at::Tensor x = lemma("x"), e = lemma("e");
  const BareLayer drawn = golden_layer();
  BareLayer silent = drawn;
  silent.wq = at::zeros_like(drawn.wq);
  for (const std::string name : {"causal", "sparse"}) {
    const Json golden = theory_json("tape_lemmas.json")["mean, " + name];
    const at::Tensor mask = lemma(name).to(at::kBool);
    EXPECT_LT(largest_entry(neighbourhood_mean(drawn, x, mask) - lemma("mean." + name)), 1e-12);
    EXPECT_LT(mean_difference(silent, x, e, mask), 1e-12);
    expect_near(mean_difference(drawn, x, e, mask), golden["neither"], 1e-12, 0);
    expect_near(mean_difference(silent, x, e, mask, {}, true), golden["residual left"], 1e-12, 0);
    const at::Tensor place = at::arange(x.size(0), at::kDouble);
    const at::Tensor alibi = -0.25 * (place.unsqueeze(1) - place).clamp_min(0);
    expect_near(mean_difference(silent, x, e, mask, alibi),
                golden["under an Alibi bias of slope 1/4"], 1e-12, 0);
  }
  testing::expect_holds_alone("tape.neighbourhood_mean");
}

TEST(TapeNeighbourhoodMean, VerdictsOnModels) {
  for (const std::string key : {"none", "rope", "xpos", "tapa", "ape_sequence"}) {
    const CheckResult got = on_model("tape.neighbourhood_mean", small_model(key));
    EXPECT_EQ(got.verdict, "holds") << key << got.detail;
    const CheckResult identity = on_model("tape.identity_layer", small_model(key));
    EXPECT_EQ(identity.verdict, "holds") << key << identity.detail;
  }
  EXPECT_EQ(on_model("tape.neighbourhood_mean", updated_tape()).verdict, "holds");
  const CheckResult alibi = on_model("tape.neighbourhood_mean", small_model("alibi"));
  EXPECT_EQ(alibi.verdict, "premise_not_met");
  EXPECT_GT(alibi.value, 0.1);
  const CheckResult identity = on_model("tape.identity_layer", updated_tape());
  EXPECT_EQ(identity.verdict, "holds") << identity.detail;
  const auto drifting = testing::model_with(
      updated_tape(), std::make_shared<testing::ChangedState>(
                          updated_tape()->decoder.shared_encoding(), updated_tape()->config(),
                          [](const at::Tensor& z) { return 1.01 * z; }));
  EXPECT_EQ(on_model("tape.identity_layer", drifting).verdict, "fails");
}

// ---- the circuit --------------------------------------------------------------------------------

std::vector<std::int64_t> golden_word() { return to_vector<std::int64_t>(lemma("word")); }

TEST(TapeCircuit, LayersAreTheReferences) {
  const CircuitRun run = run_circuit(golden_word(), at::kDouble);
  for (std::size_t l = 0; l < 5; ++l) {
    const std::string n = std::to_string(l);
    EXPECT_LT(largest_entry(run.states[l].x - lemma("circuit.x" + n)), 1e-12) << l;
    EXPECT_LT(largest_entry(run.states[l].e - lemma("circuit.e" + n)), 1e-12) << l;
  }
}

TEST(TapeCircuit, WordsLabelsAndMarginsAreTheReferences) {
  const at::NoGradGuard no_gradients;
  for (const Json& row : Json(theory_json("tape_circuit.json")["words"])) {
    const auto word = row["tokens"].get<std::vector<std::int64_t>>();
    const CircuitRun run = run_circuit(word, at::kDouble);
    const std::vector<bool> labels = circuit_labels(word);
    std::vector<std::int64_t> identities;
    for (std::size_t n = 0; n < labels.size(); ++n) {
      if (labels[n]) identities.push_back(static_cast<std::int64_t>(n));
    }
    EXPECT_EQ(identities, row["identity_positions"].get<std::vector<std::int64_t>>());
    const auto at = row["at"].get<std::vector<std::int64_t>>();
    for (std::size_t n = 0; n < at.size(); ++n) {
      EXPECT_NEAR(run.weight[at[n]].item<double>(), row["weight"][n].get<double>(), 1e-10);
      EXPECT_NEAR(run.margin[at[n]].item<double>(), row["margin"][n].get<double>(), 1e-10);
    }
    if (!row["twice_the_logit"].is_null()) {
      const std::vector<double> logit = to_vector<double>(run.logit);
      for (std::size_t n = 0; n < logit.size(); ++n) {
        EXPECT_NEAR(2 * logit[n], row["twice_the_logit"][n].get<double>(), 1e-9);
      }
    }
    const CircuitErrors errors = circuit_errors(word, run);
    EXPECT_EQ(errors.missed + errors.false_identities, 0);
    if (word.size() > 1000) continue;
    const CircuitErrors printed =
        circuit_errors(word, run_circuit(word, at::kDouble, {.diagonal = true}));
    const Json& wanted = row["with_the_diagonal_in_M"];
    EXPECT_EQ(printed.missed, wanted["identities_missed"].get<std::int64_t>());
    EXPECT_EQ(printed.false_identities, wanted["false_identities"].get<std::int64_t>());
    const CircuitRun sharp = run_circuit(word, at::kDouble, {.sharp = true});
    for (std::size_t n = 0; n < at.size(); ++n) {
      EXPECT_NEAR(sharp.margin[at[n]].item<double>(),
                  row["e_scaled_by_i"]["margin"][n].get<double>(), 1e-10);
    }
  }
  for (const Json& row : Json(theory_json("tape_circuit.json")["margin_by_length"])) {
    expect_near(circuit_margin(0.5, row["i"]), row["identity"], 1e-10, 0);
    expect_near(circuit_margin(-0.5, row["i"]), row["nearest_other"], 1e-10, 0);
  }
}

TEST(TapeCircuit, HoldsAndItsDiagonalBreaksIt) {
  testing::expect_holds_alone("tape.circuit");
  Random random(2);
  const std::vector<std::int64_t> word = returning_word(random, 300);
  const CircuitErrors broken =
      circuit_errors(word, run_circuit(word, at::kFloat, {.diagonal = true}));
  EXPECT_GT(broken.missed, 0);
  EXPECT_EQ(testing::run_alone("tape.circuit", 7).verdict, "holds");
}

TEST(TapeLayerEquivariance, ResidualsAreTheReferences) {
  const at::NoGradGuard no_gradients;
  const Json golden = theory_json("tape_lemmas.json")["circuit layers"];
  for (const CircuitLayerCase& layer : circuit_layers(golden_word(), at::kDouble)) {
    const Json& row = golden[static_cast<std::size_t>(layer.layer - 1)];
    EXPECT_LT(permuted_layer(layer, lemma("perm")).largest(), 1e-12) << layer.layer;
    for (int n = 0; n < 6; ++n) {
      EXPECT_LT(turned_layer(layer, lemma("R")[n]).largest(), 1e-12) << layer.layer;
    }
    const LayerResidual bent = turned_layer(layer, lemma("not_orthogonal"));
    const LayerResidual own = turned_layer(layer, lemma("one_R_a_token"));
    for (const auto& [got, name] :
         {std::pair{bent, "R not orthogonal"}, std::pair{own, "one R a token"}}) {
      expect_near(got.x, row[name][0], 1e-9, 1e-12);
      expect_near(got.e, row[name][1], 1e-9, 1e-12);
    }
    if (layer.layer == 3) continue;  // a row that does not see [bos] is divided by 0
    const LayerResidual left = permuted_layer(layer, lemma("perm"), false);
    expect_near(left.x, row["permutation, mask left alone"][0], 1e-9, 1e-12);
    expect_near(left.e, row["permutation, mask left alone"][1], 1e-9, 1e-12);
  }
  testing::expect_holds_alone("tape.layer_equivariance");
}

TEST(TapeLayerEquivariance, VerdictsOnModels) {
  const CheckResult got = on_model("tape.layer_equivariance", updated_tape());
  EXPECT_EQ(got.verdict, "holds") << got.detail;
  EXPECT_EQ(on_model("tape.layer_equivariance", small_model("rope")).verdict, "premise_not_met");
}

// ---- the general form ---------------------------------------------------------------------------

// tape_more.safetensors is too large for tests/data.
class TapeMore : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = golden_path("theory/tape_more.safetensors", true).string();
    if (path_.empty()) GTEST_SKIP() << "needs ../shared/golden/theory";
  }
  at::Tensor get(const std::string& name) const {
    const auto file = formats::SafetensorsFile::open(path_);
    return model::read_tensor(file, *file.find(name));
  }
  GeneralTape tape(GeneralUpdate update = GeneralUpdate::heads) const {
    const Json sizes = theory_json("tape_more.json")["config"];
    GeneralTape out;
    out.heads = sizes["H"], out.planes = sizes["M"], out.update = update;
    const std::string ending = update == GeneralUpdate::heads               ? ""
                               : update == GeneralUpdate::heads_and_columns ? "_no_eq"
                                                                            : "_planes";
    const at::Tensor ones = at::ones({sizes["C"].get<std::int64_t>()}, at::kDouble);
    for (int l = 0; l < 3; ++l) {
      const auto of = [&](const std::string& name) {
        return get("layers." + std::to_string(l) + "." + name);
      };
      out.layers.push_back({ones, ones, of("q"), of("k"), of("v"), of("o"), of("gate"), of("up"),
                            of("down"), of("post_attention_linear"), of("w1" + ending),
                            of("w2" + ending), of("wx")});
    }
    return out;
  }
  GeneralInput input() const {
    GeneralInput in;
    in.x = get("x"), in.e = get("e");
    in.mask = at::ones({in.x.size(0), in.x.size(0)}, at::kBool).tril();
    return in;
  }
  std::string path_;
};

TEST_F(TapeMore, GeneralFormIsTheReferences) {
  const GeneralState got = run_general(tape(), input());
  EXPECT_LT(relative_difference(got.x, get("x_out")), 1e-12);
  EXPECT_LT(relative_difference(got.e, get("e_out")), 1e-12);
  const auto turned = [&](const at::Tensor& turn) {
    GeneralInput in = input();
    in.e = at::matmul(in.e, turn);
    return run_general(tape(), in);
  };
  const at::Tensor head = get("R_head").unsqueeze(1),
                   token = get("R_token").unsqueeze(1).unsqueeze(1);
  for (const auto& [name, turn] : {std::pair{"head", head}, std::pair{"token", token},
                                   std::pair{"not_orthogonal", get("R_not_orthogonal")}}) {
    const GeneralState moved = turned(turn);
    EXPECT_LT(relative_difference(moved.x, get(std::string("x_out.") + name)), 1e-12) << name;
    EXPECT_LT(relative_difference(moved.e, get(std::string("e_out.") + name)), 1e-12) << name;
  }
  GeneralInput fourier = input();
  fourier.e = get("fourier_e");
  EXPECT_LT(relative_difference(run_general(tape(), fourier).x, get("x_out.fourier")), 1e-12);
}

// The reference's residuals of the model and of both broken ones under every matrix.
TEST_F(TapeMore, OrthogonalResidualsAreTheReferences) {
  for (const Json& row : Json(theory_json("tape_more.json")["orthogonal"])) {
    const std::string name = row["R"], update = row["update"];
    const auto kind = update == "heads"   ? GeneralUpdate::heads
                      : update == "no_eq" ? GeneralUpdate::heads_and_columns
                                          : GeneralUpdate::heads_and_planes;
    at::Tensor turn = name == "head"    ? get("R_head").unsqueeze(1)
                      : name == "token" ? get("R_token").unsqueeze(1).unsqueeze(1)
                                        : get("R_not_orthogonal");
    if (name.starts_with("one.")) turn = get("R_one")[std::stoi(name.substr(4))];
    if (name.starts_with("plane.")) turn = get("R_plane")[std::stoi(name.substr(6))];
    const TurnResidual got = turn_residual(tape(kind), input(), turn);
    expect_near(got.x, row["x"], 1e-9, 1e-13, name + update);
    expect_near(got.e, row["e"], 1e-9, 1e-13, name + update);
  }
  EXPECT_EQ(judge_turns(tape(), input(), 0, 1, 1).verdict, "holds");
  for (const auto kind : {GeneralUpdate::heads_and_columns, GeneralUpdate::heads_and_planes}) {
    EXPECT_EQ(judge_turns(tape(kind), input(), 0, 1, 1).verdict, "fails");
  }
}

TEST_F(TapeMore, SoftmaxesPerPlaneAreTheReferences) {
  GeneralTape printed = tape();
  printed.softmax_per_plane = true;
  std::vector<GeneralLayerRun> runs;
  run_general(printed, input(), &runs);
  for (std::size_t l = 0; l < 3; ++l) {
    const std::string n = std::to_string(l);
    EXPECT_LT(largest_entry(runs[l].plane_maps - get("per_plane.attn." + n)), 1e-12);
    EXPECT_LT(relative_difference(runs[l].after.x, get("per_plane.x." + n)), 1e-12);
    EXPECT_LT(relative_difference(runs[l].after.e, get("per_plane.e." + n)), 1e-12);
  }
  const Json golden = theory_json("tape_more.json")["softmax_per_plane"]["layers"];
  const std::vector<PlaneComparison> rows = compare_softmaxes(tape(), input());
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_LT(rows[l].product, 1e-12);
    expect_near(rows[l].averaged, golden[l]["e~ differs, relative"], 1e-9, 0);
    expect_near(rows[l].bound, golden[l]["gap over TV times diameter, worst"], 1e-9, 0);
    expect_near(rows[l].shared_entropy, golden[l]["entropy shared, nats"], 1e-9, 0);
    expect_near(rows[l].spread, golden[l]["sd of alpha_ijm over sd of alpha_ij"], 1e-9, 0);
    expect_near(rows[l].x, golden[l]["x after the layer, both programs"], 1e-9, 0);
    expect_near(rows[l].attention, golden[l]["attention of the layer, both programs"], 1e-9, 0);
    for (std::size_t m = 0; m < rows[l].variation.size(); ++m) {
      expect_near(rows[l].variation[m], golden[l]["total variation by plane"][m], 1e-9, 0);
    }
  }
  EXPECT_EQ(judge_softmaxes(rows).verdict, "holds");
  // Maps of planes from scores of another scale.
  GeneralTape other = tape();
  other.plane_scale = 1 / std::sqrt(2.0);
  EXPECT_EQ(judge_softmaxes(compare_softmaxes(other, input())).verdict, "fails");
}

TEST(TapeOrthogonal, VerdictsOnModels) {
  const at::NoGradGuard no_gradients;
  const auto golden = golden_tape("mix");
  EXPECT_LT(general_difference(*golden, golden_ids()), 1e-12);
  EXPECT_LT(general_difference(*golden_tape("rowsum"), golden_ids()), 1e-12);
  const auto model = updated_tape();
  const CheckResult right = on_model("tape.orthogonal", model);
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  const CheckResult planes = on_model("tape.softmax_per_plane", model);
  EXPECT_EQ(planes.verdict, "holds") << planes.detail;
  // A model whose layers are not what the general form says.
  const auto broken = testing::model_with(
      model, std::make_shared<testing::ChangedState>(model->decoder.shared_encoding(),
                                                     model->config(), testing::planes_mixed));
  EXPECT_EQ(on_model("tape.orthogonal", broken).verdict, "fails");
  EXPECT_EQ(on_model("tape.orthogonal", small_model("rope")).verdict, "premise_not_met");
}

// ---- tape.real_shift ----------------------------------------------------------------------------

at::Tensor floored_start(const model::Decoder& decoder, const at::Tensor& positions) {
  return start_at(decoder, positions.floor());
}

TEST(TapeRealShift, HoldsFromBothStartsAndFailsWherePlanesAreMixed) {
  const auto model = updated_tape();
  const CheckResult right = on_model("tape.real_shift", model);
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  auto config = testing::small_config("tape");
  config.encoding.options["start"] = "random_fourier";
  const CheckResult fourier = on_model("tape.real_shift", model::random_model(config, 4));
  EXPECT_EQ(fourier.verdict, "holds") << fourier.detail;
  const auto broken = testing::model_with(
      model, std::make_shared<testing::ChangedState>(model->decoder.shared_encoding(),
                                                     model->config(), testing::planes_mixed));
  EXPECT_EQ(on_model("tape.real_shift", broken).verdict, "fails");
  EXPECT_EQ(on_model("tape.real_shift", small_model("alibi")).verdict, "premise_not_met");
}

// Ids that lose their fraction: the outputs do not move, because nothing was shifted.
TEST(TapeRealShift, FlooredIdsFailByTheirStates) {
  const auto model = golden_tape("mix");
  const RealShift right = measure_real_shift(model, golden_ids(), 0.5, start_at, 1);
  EXPECT_EQ(judge_real_shifts({right}).verdict, "holds");
  const RealShift floored = measure_real_shift(model, golden_ids(), 0.5, floored_start, 1);
  EXPECT_EQ(floored.moved.largest(), 0);
  EXPECT_GT(floored.enters, 0.3);
  EXPECT_GT(floored.irregular, 0.05);
  EXPECT_EQ(judge_real_shifts({floored}).verdict, "fails");
  for (const Json& row : Json(theory_json("tape_more.json")["real_shift"])) {
    expect_near(real_shift_bound(row["shift"]), row["bound"], 1e-12, 0);
  }
}

}  // namespace
}  // namespace phasescope::analysis
