// Every theorem check on a model that satisfies it and on one that was built to break it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "analysis/theory/tapa_histogram.h"
#include "analysis/theory/tape_permutation.h"
#include "analysis/theory/tape_shift.h"
#include "analysis/theory/tape_special_case.h"
#include "analysis/theory/verdicts.h"
#include "broken_encodings.h"
#include "golden_tape.h"

namespace phasescope::analysis {
namespace {

using testing::golden_ids;
using testing::golden_json;
using testing::golden_tape;
using testing::golden_tensor;
using testing::model_with;
using testing::ModelPointer;
using testing::small_model;
using testing::updated_tape;
using testing::without_head;

CheckResult run(const std::string& id, const ModelPointer& model, const Texts& texts) {
  protocol::NoProgress progress;
  CheckContext context;
  context.model = model;
  context.texts = &texts;
  context.progress = &progress;
  return run_check(select_checks({id}).at(0), context);
}

at::Tensor first_ids_of(const Texts& texts) { return ids_tensor(texts.items[0].ids); }

Texts texts_for(const ModelPointer& model, std::int64_t count = 1, std::int64_t length = 32) {
  return random_texts(count, length, model->config().vocab_size, 11);
}

// A model whose state is changed after each layer by something the paper does not have.
ModelPointer changed(const ModelPointer& model, testing::ChangedState::Change change) {
  return model_with(model, std::make_shared<testing::ChangedState>(model->decoder.shared_encoding(),
                                                                   model->config(), change));
}

// ---- the decoder against the reference's layers -------------------------------------------------

class LastLayer final : public model::Observer {
 public:
  void on_hidden(std::int64_t, const at::Tensor& value) override { hidden = value; }
  void on_position(std::int64_t, const model::PositionState& state) override { z = state.z; }
  at::Tensor hidden, z;
};

TEST(GoldenTape, LayersEqualTheReference) {
  const at::NoGradGuard no_gradients;
  for (const std::string linear : {"mix", "rowsum"}) {
    LastLayer last;
    model::ForwardOptions plain;
    plain.backend = model::Backend::plain;
    golden_tape(linear)->decoder.hidden(golden_ids(), plain, &last);
    const at::Tensor x = golden_tensor("tape_layers.safetensors", linear + ".x_out");
    const at::Tensor e = golden_tensor("tape_layers.safetensors", linear + ".e_out");
    EXPECT_LT(relative_difference(last.hidden[0], x), 1e-12) << linear;
    // e is (N, H, M, 2, 2), z = e[0][0] + i e[0][1]; ours (1, H, N, 2, M).
    const at::Tensor z = e.select(3, 0).permute({1, 0, 3, 2});
    EXPECT_LT(relative_difference(last.z[0], z), 1e-12) << linear;
  }
}

// ---- tape.permutation ---------------------------------------------------------------------------

std::vector<std::int64_t> golden_permutation() {
  const at::Tensor order = golden_tensor("tape_layers.safetensors", "permutation");
  return {order.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>() + order.numel()};
}

TEST(TapePermutation, HoldsOnTheReferenceAndFailsWithTheMaskLeftAlone) {
  const auto model = golden_tape("mix");
  const auto right = permutation_residual(model->decoder, golden_ids(), golden_permutation());
  EXPECT_LT(right.largest(), 1e-12);
  const auto wrong =
      permutation_residual(model->decoder, golden_ids(), golden_permutation(), false);
  const auto expected = golden_json(
      "tape.json")["relative_residuals_x_then_e"]["heads"]["permutation, mask left alone"];
  EXPECT_GT(wrong.hidden, 0.5 * expected[0].get<double>());
  EXPECT_GT(wrong.states, 0.5 * expected[1].get<double>());
}

TEST(TapePermutation, VerdictsOnModels) {
  const auto model = updated_tape();
  const CheckResult right = run("tape.permutation", model, texts_for(model));
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  EXPECT_LT(right.value, right.bound);
  EXPECT_GT(right.noise, 0);
  const auto broken = changed(model, testing::scaled_by_index);
  const CheckResult wrong = run("tape.permutation", broken, texts_for(model));
  EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
  EXPECT_GT(wrong.value, 1e-3);
  const auto none = small_model("none");
  EXPECT_EQ(run("tape.permutation", none, texts_for(none)).verdict, "premise_not_met");
}

TEST(TapePermutation, KnowsWhichPairsAModelSees) {
  auto config = testing::small_config("rope");
  config.attention.causal = false;
  const auto both_ways = model::random_model(config, 3);
  const CheckResult got = run("tape.permutation", both_ways, texts_for(both_ways));
  EXPECT_EQ(got.verdict, "holds") << got.detail;
  config.attention.window = 8, config.attention.local_layers = {0};
  const auto local = model::random_model(config, 3);
  EXPECT_EQ(run("tape.permutation", local, texts_for(local)).verdict, "premise_not_met");
}

// Where another thing than a position id says where a token stands, the statement is of no such
// model; and where the configuration draws positions, it is of any.
TEST(TapePermutation, KnowsWhatSaysWhereATokenStands) {
  auto config = testing::small_config("rope");
  config.attention.log_scale = 16;
  const auto scaled = model::random_model(config, 3);
  const CheckResult got = run("tape.permutation", scaled, texts_for(scaled));
  EXPECT_EQ(got.verdict, "premise_not_met") << got.detail;
  EXPECT_NE(got.detail.find("ln(16)"), std::string::npos) << got.detail;
  config.attention.log_scale = 0;
  config.positions.map = "random", config.positions.draw = "always";
  const auto drawn = model::random_model(config, 3);
  const CheckResult other = run("tape.permutation", drawn, texts_for(drawn));
  EXPECT_EQ(other.verdict, "holds") << other.detail;
}

// ---- tape.shift ---------------------------------------------------------------------------------

TEST(TapeShift, HoldsWhereUpdatesMixHeads) {
  const auto model = updated_tape();
  const CheckResult got = run("tape.shift", model, texts_for(model));
  EXPECT_EQ(got.verdict, "holds") << got.detail;
  EXPECT_LT(got.value, got.bound);
  ASSERT_EQ(got.curves.size(), 2u);
  EXPECT_EQ(got.curves[0].x.size(), got.curves[0].bound.size());
  EXPECT_EQ(got.curves[0].x.back(), 1e6);
}

TEST(TapeShift, FailsWherePlanesAreMixed) {
  const auto model = updated_tape();
  const CheckResult got =
      run("tape.shift", changed(model, testing::planes_mixed), texts_for(model));
  EXPECT_EQ(got.verdict, "fails") << got.detail;
  EXPECT_GT(got.value, 1e-3);
}

TEST(TapeShift, RopeHoldsAndNoStateIsNoPremise) {
  const auto rope = small_model("rope");
  EXPECT_EQ(run("tape.shift", rope, texts_for(rope)).verdict, "holds");
  for (const std::string key : {"none", "alibi", "tapa", "learned"}) {
    const auto model = small_model(key);
    EXPECT_EQ(run("tape.shift", model, texts_for(model)).verdict, "premise_not_met") << key;
  }
}

// Small position ids make exact angles, and two tokens few numbers to round: what float32 does to
// them is in their sines and cosines.
TEST(TapeShift, HoldsOnTextsOfAFewTokens) {
  for (const std::string key : {"rope", "tape"}) {
    const auto model = key == "tape" ? updated_tape() : small_model(key);
    const auto broken = changed(model, testing::planes_mixed);
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      for (const std::int64_t length : {1, 2, 3, 5}) {
        const CheckResult got = run("tape.shift", model, random_texts(1, length, 32, seed));
        EXPECT_EQ(got.verdict, "holds") << key << ' ' << length << ' ' << seed << got.detail;
        if (length == 1) continue;  // one token stands alone, wherever it stands
        EXPECT_EQ(run("tape.shift", broken, random_texts(1, length, 32, seed)).verdict, "fails");
      }
    }
  }
}

// Another order of the same sums, for MLPs with and without a gate, moves what it sums and no more
// than rounding does.
TEST(TapeShift, NoiseIsOfRounding) {
  auto config = testing::small_config("rope");
  for (const bool gated : {true, false}) {
    config.mlp.gated = gated;
    config.mlp.activation = gated ? "silu" : "gelu";
    const auto model = model::random_model(config, 3);
    CheckContext context;
    context.model = model;
    context.seed = 1;
    const at::Tensor ids = first_ids_of(texts_for(model));
    TextPass base(model, ids, plain_options(context));
    TextPass other(reordered(model, 1), ids, plain_options(context));
    EXPECT_GT(residuals_of(base, other).logits, 0) << gated;
    const Residuals noise = rounding_noise(context, ids);
    EXPECT_LT(noise.largest(), 1e-4) << gated;  // some hundred float32 roundings
  }
}

// 17.A0: orders of summation that agree by chance leave no allowance of 0. RoPE's state is summed
// by nothing that an order changes, and a single token has few sums: with what the orders showed
// alone, a unit in the last place was a failure.
TEST(TapeShift, AllowsAUnitInTheLastPlace) {
  for (const std::string key : {"rope", "tape"}) {
    const auto model = key == "tape" ? updated_tape() : small_model(key);
    const Texts texts = random_texts(1, 1, 32, 1);
    CheckContext context;
    context.model = model;
    const Residuals noise = rounding_noise(context, first_ids_of(texts));
    for (auto part : {&Residuals::logits, &Residuals::attention, &Residuals::products}) {
      ShiftMeasurement m;
      m.shift = 1;
      m.float32.*part = 0x1p-23;
      EXPECT_EQ(judge_shift({m}, noise).verdict, "holds") << key;
      m.float32.*part = 1e-3;  // no rounding of 2 layers of 16 channels
      EXPECT_EQ(judge_shift({m}, noise).verdict, "fails") << key;
    }
  }
}

// 17.A0: half a unit in the last place for each term of the longest chain of sums: of 2 layers (two
// norms and products of 16 channels, a head of 8, 5 tokens, 2 heads of 8, an MLP of 24) and of the
// last norm and the logits.
TEST(TapeShift, RoundingGrowsWithTheRootOfItsSums) {
  const auto model = small_model("rope");
  const double terms = 2 * (4 * 16 + 8 + 5 + 2 * 8 + 24) + 2 * 16;
  EXPECT_DOUBLE_EQ(rounding_floor(model->decoder, 5, at::kFloat), 0x1p-24 * std::sqrt(terms));
  EXPECT_DOUBLE_EQ(rounding_floor(model->decoder, 5, at::kDouble), 0x1p-53 * std::sqrt(terms));
}

// Without a head the last hidden states stand for the logits, and the verdicts stay what they are.
TEST(TapeShift, NeedsNoHead) {
  const auto model = updated_tape();
  const CheckResult right = run("tape.shift", without_head(model), texts_for(model));
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  EXPECT_NE(right.detail.find("no head"), std::string::npos) << right.detail;
  const CheckResult wrong =
      run("tape.shift", without_head(changed(model, testing::planes_mixed)), texts_for(model));
  EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
  const CheckResult special = run("tape.special_case", without_head(model), texts_for(model, 3));
  EXPECT_EQ(special.verdict, "holds") << special.detail;
  EXPECT_EQ(special.detail.find("changes the loss"), std::string::npos) << special.detail;
  const auto drifting = changed(model, [](const at::Tensor& z) { return 1.01 * z; });
  EXPECT_EQ(run("tape.special_case", without_head(drifting), texts_for(model, 3)).verdict, "fails");
}

// The reference's own residuals: judged as it says, its models that mix planes fail.
TEST(TapeShift, JudgesTheReferenceTable) {
  const formats::Json rows = golden_json("tape.json")["shift"];
  for (const std::string update : {"heads", "no_eq", "planes"}) {
    std::vector<ShiftMeasurement> measured;
    for (const formats::Json& row : rows) {
      ShiftMeasurement m;
      m.shift = row["shift"];
      m.float64 = {row[update]["x"], row[update]["attention"], row[update]["gram"]};
      m.float64_on_float32_angles.logits = row["float64 model, float32 angles"];
      m.float32.logits = row["float32 model"];
      EXPECT_DOUBLE_EQ(shift_bound(m.shift), row["float64_bound"].get<double>());
      measured.push_back(m);
    }
    // The reference has no run in another order; its float32 residual at shift 1 is that noise.
    const CheckResult got = judge_shift(measured, {3e-7, 3e-7, 3e-7});
    EXPECT_EQ(got.verdict, update == "heads" ? "holds" : "fails") << update << got.detail;
  }
}

TEST(TapeShift, Float32MustBeExplained) {
  ShiftMeasurement m;
  m.shift = 1000;
  m.float32.logits = 1e-3;
  m.float64_on_float32_angles.logits = 4e-4;
  EXPECT_EQ(judge_shift({m}, {1e-7, 1e-7, 1e-7}).verdict, "holds");
  m.float64_on_float32_angles.logits = 1e-4;
  EXPECT_EQ(judge_shift({m}, {1e-7, 1e-7, 1e-7}).verdict, "fails");
  // A NaN is a failure in every part, and stays one whatever comes after it.
  ShiftMeasurement good;
  good.shift = 1;
  const double none = std::nan("");
  EXPECT_EQ(judge_shift({good}, {1, 1, 1}).verdict, "holds");
  for (auto part : {&Residuals::logits, &Residuals::attention, &Residuals::products}) {
    for (auto run : {&ShiftMeasurement::float32, &ShiftMeasurement::float64}) {
      ShiftMeasurement bad = good;
      (bad.*run).*part = none;
      EXPECT_EQ(judge_shift({bad, good}, {1, 1, 1}).verdict, "fails");
      EXPECT_EQ(judge_shift({good, bad}, {1, 1, 1}).verdict, "fails");
    }
  }
}

// ---- tape.special_case --------------------------------------------------------------------------

TEST(TapeSpecialCase, ReferenceDistancesFromRope) {
  const auto expected = golden_json("tape.json")["special_case_max_difference_from_rope"];
  for (const std::string linear : {"mix", "rowsum"}) {
    const auto model = golden_tape(linear);
    const auto distance = [&](const ZeroedCase& zeroed) {
      return distance_from_rope(model->decoder, golden_ids(), zeroed);
    };
    const std::string pal = "post_attention_linear";
    EXPECT_LT(distance({"", {"up_proj", pal}, {}}), 1e-12);
    EXPECT_LT(distance({"", {"down_proj", pal}, {}}), 1e-12);
    EXPECT_GT(distance({"", {"down_proj"}, {}}), 1e-3);
    EXPECT_GT(distance({"", {pal}, {}}), 1e-3);
    // Rows that sum to 0 are enough where the linear multiplies by row sums, and not where it
    // mixes.
    const double centred = distance({"", {"down_proj"}, {pal}});
    if (linear == "rowsum") {
      EXPECT_LT(centred, 1e-12);
    } else {
      EXPECT_GT(centred, 1e-3);
    }
  }
  EXPECT_LT(expected["w1 = 0, post_attention_linear = 0"].get<double>(), 1e-12);
}

TEST(TapeSpecialCase, VerdictsOnModels) {
  const auto model = updated_tape();
  const CheckResult right = run("tape.special_case", model, texts_for(model, 3));
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  EXPECT_NE(right.detail.find("changes the loss by"), std::string::npos);
  const auto drifting = changed(model, [](const at::Tensor& z) { return 1.01 * z; });
  const CheckResult wrong = run("tape.special_case", drifting, texts_for(model, 3));
  EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
  const auto rope = small_model("rope");
  EXPECT_EQ(run("tape.special_case", rope, texts_for(rope)).verdict, "premise_not_met");
}

// A state that starts elsewhere is compared with a model that stays there, and the words say so.
TEST(TapeSpecialCase, NamesTheStartItComparesWith) {
  const auto detail_of = [](const char* start) {
    auto config = testing::small_config("tape");
    config.encoding.options["start"] = start;
    const auto model = model::random_model(config, 4);
    const CheckResult got = run("tape.special_case", model, texts_for(model, 3));
    EXPECT_EQ(got.verdict, "holds") << got.detail;
    return got.detail;
  };
  const std::string rope = detail_of("rope"), random = detail_of("random_fourier");
  EXPECT_NE(rope.find("from RoPE's"), std::string::npos) << rope;
  EXPECT_NE(rope.find("positions to RoPE's changes"), std::string::npos) << rope;
  EXPECT_EQ(random.find("RoPE"), std::string::npos) << random;
  EXPECT_NE(random.find("from those of its random Fourier features"), std::string::npos) << random;
  EXPECT_NE(random.find("positions to those of its random Fourier features changes"),
            std::string::npos)
      << random;
}

// ---- what runs ----------------------------------------------------------------------------------

std::set<std::string> kernels_of(const std::string& id, const ModelPointer& model,
                                 model::Backend backend) {
  protocol::NoProgress progress;
  const Texts texts = texts_for(model, 10);
  model::AllRan kernels;
  CheckContext context;
  context.model = model;
  context.texts = &texts;
  context.progress = &progress;
  context.backend = backend;
  context.pairs = 200;  // what runs is the same with few
  context.kernels = &kernels;
  run_check(select_checks({id}).at(0), context);
  std::set<std::string> words;
  for (const model::Ran& one : kernels) words.insert(one.text());
  return words;
}

TEST(TheoryChecks, RunTheBackendAskedForAndSayWhatRan) {
  const std::string fused = model::fused_kernel_name();
  const auto tape = updated_tape();
  const auto rope = small_model("rope");
  for (const std::string id : {"tape.permutation", "tape.shift", "tape.special_case"}) {
    EXPECT_EQ(kernels_of(id, tape, model::Backend::plain), (std::set<std::string>{"plain"})) << id;
    // Both runs of an equality are plain; the other order of summation is the kernel's.
    EXPECT_EQ(kernels_of(id, tape, model::Backend::fused), (std::set<std::string>{fused, "plain"}))
        << id;
  }
  for (const std::string id : {"rope.intrinsic_bias", "tapa.histogram"}) {
    EXPECT_EQ(kernels_of(id, rope, model::Backend::plain), (std::set<std::string>{"plain"})) << id;
    EXPECT_EQ(kernels_of(id, rope, model::Backend::fused), (std::set<std::string>{fused})) << id;
  }
}

// ---- tapa.histogram -----------------------------------------------------------------------------

// What the histogram samples: scores of chosen pairs at their distances, against the reference.
TEST(TapaHistogram, PairScoresEqualTheReference) {
  const auto get = [](const std::string& name) {
    return golden_tensor("tapa_scores.safetensors", name);
  };
  const formats::Json sizes = golden_json("tapa.json")["scores_config"];
  const std::int64_t count = get("i").size(0);
  for (const std::string phase : {"quadratic", "linear"}) {
    model::ModelConfig config;
    config.heads = config.kv_heads = 1;
    config.width = config.head_dim = sizes["D"];
    config.encoding = {"tapa",
                       {{"alpha", sizes["alpha"]}, {"split", sizes["t"]}, {"phase", phase}}};
    const auto encoding = model::make_encoding(config);
    // Tokens 0.. hold the queries at positions i, the next ones the keys at positions j.
    model::PositionState state;
    state.positions.length = 2 * count;
    state.positions.ids = at::cat({get("i"), get("j")});
    const at::Tensor x = at::cat({get("q"), get("k")}).view({1, 1, 2 * count, -1});
    model::AttentionProgram program = encoding->program({}, x, x, state);
    program.causal = false;
    const model::LayerAttention attention(0, program, x, {}, {}, model::Backend::plain,
                                          model::ran_plain(x));
    const at::Tensor rows = at::arange(count, at::kLong), none = at::zeros({count}, at::kLong);
    const auto scores = attention.pair_scores({{none, none, rows, rows + count}, at::kCPU});
    EXPECT_LT(relative_difference(scores.score, get("score_" + phase)), 1e-12) << phase;
    EXPECT_LT(relative_difference(scores.content, get("amplitude")), 1e-12) << phase;
  }
}

Clusters drawn_deltas(double mean, double text_sigma, std::int64_t texts, std::uint64_t seed) {
  Random random(seed);
  Clusters deltas;
  for (std::int64_t t = 0; t < texts; ++t) {
    const double offset = mean + text_sigma * random.normal();
    std::vector<double>& list = deltas.values.emplace_back();
    for (int n = 0; n < 100; ++n) list.push_back(offset + random.normal());
  }
  return deltas;
}

std::string histogram_verdict(const Clusters& deltas, BiasClaim claim,
                              const Clusters* shuffled = nullptr) {
  const NearFar measured = near_far_of({}, deltas, {}, Draws());
  if (shuffled == nullptr) return judge_histogram(measured, nullptr, claim).verdict;
  const ShuffledDistances control = shuffled_distances({}, {deltas, *shuffled}, Draws());
  return judge_histogram(measured, &control, claim).verdict;
}

TEST(TapaHistogram, Verdicts) {
  const Clusters centred = drawn_deltas(0, 0.05, 60, 4), shifted = drawn_deltas(1, 0.1, 60, 2);
  EXPECT_EQ(histogram_verdict(centred, BiasClaim::none_left), "holds");
  EXPECT_EQ(histogram_verdict(shifted, BiasClaim::none_left), "fails");
  EXPECT_EQ(histogram_verdict(shifted, BiasClaim::near_favoured), "holds");
  EXPECT_EQ(histogram_verdict(drawn_deltas(-1, 0.1, 60, 2), BiasClaim::near_favoured), "fails");
  EXPECT_EQ(histogram_verdict(shifted, BiasClaim::no_claim), "premise_not_met");
  EXPECT_EQ(histogram_verdict(drawn_deltas(1, 0.1, 20, 2), BiasClaim::none_left), "undecided");
  EXPECT_EQ(histogram_verdict(drawn_deltas(0, 5, 60, 3), BiasClaim::none_left), "undecided");
  // What the distances make is told from what is there without them.
  const Clusters same = drawn_deltas(1, 0.1, 60, 9), some = drawn_deltas(0.3, 0.1, 60, 9);
  EXPECT_EQ(histogram_verdict(shifted, BiasClaim::near_favoured, &centred), "holds");
  EXPECT_EQ(histogram_verdict(shifted, BiasClaim::near_favoured, &some), "holds");
  EXPECT_EQ(histogram_verdict(shifted, BiasClaim::near_favoured, &same), "fails");
}

// RoPE with scores that fall by a twentieth a token of distance: of position ids, or of the places
// of the tokens in memory, which an encoding has no business to read.
class Falling final : public testing::Wrapped {
 public:
  Falling(std::shared_ptr<const model::Encoding> inner, const model::ModelConfig& config,
          bool by_index)
      : Wrapped(std::move(inner), config), by_index_(by_index) {}
  model::AttentionProgram program(const model::Parameters& layer, const at::Tensor& q,
                                  const at::Tensor& k,
                                  const model::PositionState& state) const override {
    model::AttentionProgram program = inner_->program(layer, q, k, state);
    const bool by_id = !by_index_ && !state.positions.consecutive();
    const at::Tensor place = by_id ? state.positions.ids : at::arange(q.size(2), at::kLong);
    program.tokens.key = (0.05 * place.to(at::kFloat)).view({1, 1, -1}).repeat({1, q.size(1), 1});
    program.tokens.query = -program.tokens.key;
    return program;
  }

 private:
  bool by_index_;
};

// 17.A5, 17.A6: the control of distances can fail. A random sign in its place could not.
TEST(TapaHistogram, FailsWhereNearKeysArePreferredWithoutTheirDistance) {
  const auto rope = small_model("rope");
  for (const bool by_index : {false, true}) {
    const auto model = model_with(
        rope, std::make_shared<Falling>(rope->decoder.shared_encoding(), rope->config(), by_index));
    const CheckResult got = run("tapa.histogram", model, texts_for(model, 60, 64));
    EXPECT_EQ(got.verdict, by_index ? "fails" : "holds") << got.detail;
    EXPECT_EQ(got.detail.find("not by their distance") != std::string::npos, by_index)
        << got.detail;
    EXPECT_GT(got.value, 1);  // .05 times some 55 tokens
    EXPECT_EQ(got.curves.size(), 2u);
  }
}

// Layers that update the positions leave nothing to shuffle; the verdict is that of the mean.
TEST(TapaHistogram, SaysWhereThereIsNoControl) {
  const auto model = updated_tape();
  const CheckResult got = run("tapa.histogram", model, texts_for(model, 60, 64));
  EXPECT_NE(got.detail.find("layers update the positions"), std::string::npos) << got.detail;
  EXPECT_EQ(got.curves.size(), 1u);
}

// All tokens alike: the amplitude is one positive number, the phase another, and near keys differ
// from far ones by their distance alone. A TAPA model that keeps its bias.
TEST(TapaHistogram, FailsOnAModelWithABias) {
  auto config = testing::small_config("tapa");
  config.layers = 1;
  const auto model = model::random_model(config, 3);
  model::Weights weights = model->decoder.weights();
  const at::NoGradGuard no_gradients;
  weights.embedding = 0.01 * weights.embedding + 1;
  weights.layers[0].wk = weights.layers[0].wq;
  const auto alike = std::make_shared<const model::Model>(
      model::Model{model->report, model->tokenizer,
                   model::Decoder(config, model->decoder.shared_encoding(), weights)});
  const CheckResult got = run("tapa.histogram", alike, texts_for(alike, 60, 64));
  EXPECT_EQ(got.verdict, "fails") << got.detail;
  EXPECT_EQ(got.curves.size(), 2u);
  EXPECT_GT(got.samples, 9000);
}

TEST(TapaHistogram, TextsTooShortDecideNothing) {
  const auto model = small_model("rope");
  const CheckResult got = run("tapa.histogram", model, texts_for(model, 60, 2));
  EXPECT_EQ(got.verdict, "undecided") << got.detail;
  EXPECT_NE(got.detail.find("the longest here has 2"), std::string::npos) << got.detail;
}

TEST(TapaHistogram, NeedsKeysThatAWindowDoesNotHide) {
  auto config = testing::small_config("tapa");
  config.attention.window = 2, config.attention.local_layers = {0, 1};
  const auto model = model::random_model(config, 3);
  const CheckResult got = run("tapa.histogram", model, texts_for(model, 60, 64));
  EXPECT_EQ(got.verdict, "premise_not_met") << got.detail;
}

TEST(TapaHistogram, KnowsNoNearKeyWhereAModelSeesBothWays) {
  auto config = testing::small_config("rope");
  config.attention.causal = false;
  const auto model = model::random_model(config, 3);
  EXPECT_EQ(run("tapa.histogram", model, texts_for(model, 60, 64)).verdict, "premise_not_met");
}

// Statements of a configuration alone: its angles, its scores of any q and k.
const std::set<std::string> kReadNoWeights = {"rope.base_shrinks_gap", "rope.instability",
                                              "tapa.phi_zero"};

// A model that gives no numbers satisfies nothing.
TEST(Theory, ANaNNeverHolds) {
  for (const std::string key : {"tape", "rope", "tapa"}) {
    const auto whole = key == "tape" ? updated_tape() : small_model(key);
    model::Weights weights = whole->decoder.weights();
    weights.layers[0].wv = weights.layers[0].wv.clone();
    weights.layers[0].wv[0][0] = std::nan("");  // layer 0 scores, the rest does not
    const auto model = std::make_shared<const model::Model>(
        model::Model{whole->report, whole->tokenizer,
                     model::Decoder(whole->config(), whole->decoder.shared_encoding(), weights)});
    for (const TheoryCheck& check : theory_checks()) {
      if (kReadNoWeights.contains(check.info.id)) continue;
      EXPECT_NE(run(check.info.id, model, texts_for(model, 60)).verdict, "holds")
          << key << ' ' << check.info.id;
    }
  }
}

// The value that is told is the NaN, whatever was measured before or after it.
TEST(Theory, ANaNIsTheWorst) {
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(PermutationResidual{nan, 0}.largest()));
  EXPECT_TRUE(std::isnan(PermutationResidual{0, nan}.largest()));
  for (const auto& values :
       std::vector<std::vector<double>>{{nan, 0, 2}, {0, nan, 2}, {0, 2, nan}}) {
    Parts parts;
    for (const double value : values) parts.below("a residual", value, 1);
    EXPECT_TRUE(std::isnan(parts.result().value.value_or(0))) << parts.detail();
  }
}

TEST(Theory, RegistryIsDescribed) {
  for (const TheoryCheck& check : theory_checks()) {
    EXPECT_FALSE(check.info.statement.empty());
    EXPECT_FALSE(check.info.source.empty());
    EXPECT_EQ(select_checks({check.info.id}).size(), 1u);
  }
  EXPECT_THROW(select_checks({"no.such"}), std::exception);
}

}  // namespace
}  // namespace phasescope::analysis
