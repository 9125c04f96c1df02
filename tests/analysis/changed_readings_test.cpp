// Readings that change scores or weights, in every question: what is measured of one is what is
// measured of a model that has the same by itself, or of the weights that ran.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "analysis/theory/check.h"
#include "formats/file_system.h"
#include "model/attention/exchanged_band.h"
#include "model/attention/fused_attention.h"
#include "model/attention/repairs.h"
#include "model/checkpoints/tensor_io.h"
#include "own_distances.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

namespace fs = std::filesystem;
using testing::ModelPointer;
using Ids = std::vector<std::int64_t>;
constexpr std::int64_t kTokens = 24;

Ids some_ids() { return random_texts(1, kTokens, 32, 9).items[0].ids; }

ModelPointer exact_model(const std::string& encoding) {
  return model::in_dtype(testing::small_model(encoding, 3), at::kDouble);
}

// A file of a bias by distance of two layers of two heads, (2, 2, K), an entry a distance.
std::string table_file(const std::string& name, const at::Tensor& table) {
  const fs::path file = fs::path(::testing::TempDir()) / (name + ".safetensors");
  model::write_tensors(formats::real_file_system(), file,
                       {{"table", table}, {"edges", at::arange(table.size(2), at::kLong)}});
  return file.string();
}

std::string some_table() {
  return table_file("wavy", at::linspace(-1, 2, 4 * kTokens, at::kDouble).view({2, 2, -1}).sin());
}

ModelPointer read_as(const ModelPointer& model, const std::string& option,
                     const std::string& value) {
  return model::with_overrides(model, {{"encoding." + option, value}});
}

// All that a reading does to scores at once, for an encoding with a bias of its own or without.
ModelPointer changed(const std::string& encoding) {
  const ModelPointer own = exact_model(encoding);
  std::vector<std::pair<std::string, std::string>> settings = {
      {"encoding.bias_table", some_table()},
      {"encoding.head_clamps", "L0H1:5 L1:9"},
      {"encoding.head_windows", "L0H0:12 L1H1:7"}};
  for (const char* biased : {"alibi", "t5", "kerple_log", "fire", "shaw"}) {
    if (encoding == biased) settings.emplace_back("encoding.head_bias_scales", "L0H1:-2.5 L1:0.5");
  }
  return model::with_overrides(own, settings);
}

class ChangedReading : public ::testing::TestWithParam<std::string> {};

// The score of a pair at the distance that it has is the score that the pass computed.
TEST_P(ChangedReading, GivesTheOwnDistanceTheScoreThatRan) {
  testing::OwnDistances hook;
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options;
  options.hook = &hook, options.backend = model::Backend::plain;
  const ModelPointer model = changed(GetParam());
  model->decoder.hidden(ids_tensor(some_ids()), options);
  // Clamps, windows and biases are of the position ids, which need not be the tokens' numbers.
  options.position_ids = 2 * at::arange(kTokens, at::kLong);
  model->decoder.hidden(ids_tensor(some_ids()), options);
  EXPECT_EQ(hook.layers, 4);
}

// Each text of a batch is changed as it is alone.
TEST_P(ChangedReading, OfABatchIsThatOfEachText) {
  const at::NoGradGuard no_gradients;
  const Texts texts = random_texts(3, kTokens, 32, 6);
  std::vector<at::Tensor> ids;
  for (const Text& text : texts.items) ids.push_back(ids_tensor(text.ids));
  const ModelPointer model = changed(GetParam());
  model::ForwardOptions options;
  options.backend = model::Backend::plain;
  const at::Tensor batch = model->decoder.forward(at::cat(ids), options);
  for (std::int64_t n = 0; n < 3; ++n) {
    const at::Tensor alone = model->decoder.forward(ids[static_cast<std::size_t>(n)], options);
    EXPECT_LE((batch.slice(0, n, n + 1) - alone).abs().max().item<double>(), 1e-11) << n;
  }
}

// A pair's score and weight are those that ran, with a bound on the weight of key 0 too: the score
// is the one before it, and the other keys' weights grow.
TEST_P(ChangedReading, PairIsThePairThatRan) {
  const ModelPointer scores = changed(GetParam());
  const ModelPointer capped = read_as(scores, "head_sink_caps", "all:0.02");
  TextPass ran(scores, ids_tensor(some_ids())), ran_capped(capped, ids_tensor(some_ids()));
  const at::Tensor own = ran.layer(0)->scores({{1, 2}, {20, 21}, {0, 21}}).score.flatten();
  const at::Tensor weights = testing::weights_of(ran_capped, 0)[1][20];
  EXPECT_LE(weights[0].item<double>(), 0.02 + 1e-12);
  for (const std::int64_t key : {0, 9, 19}) {
    PairOptions options;
    options.layer = 0, options.head = 1, options.query = 20, options.key = key;
    options.backend = model::Backend::plain;
    protocol::NoProgress progress;
    const Text text{"one", "", some_ids(), {}};
    const auto pair = analyse_pair(capped, text, options, progress);
    EXPECT_NEAR(pair.score, own[key].item<double>(), 1e-12);
    EXPECT_NEAR(pair.weight, weights[key].item<double>(), 1e-12);
    ASSERT_TRUE(pair.curve);
    const auto& at_own = (*pair.curve)[static_cast<std::size_t>(20 - key)];
    EXPECT_NEAR(at_own.score, pair.score, 1e-12);
    EXPECT_NEAR(at_own.weight, pair.weight, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, ChangedReading,
                         ::testing::Values("rope", "xpos", "alibi", "kerple_log", "t5", "shaw",
                                           "transformer_xl", "fire", "tapa", "tape", "cape",
                                           "ape_sequence"));

// The phasors of a clamped pair are those at the limit: with the reading's entry they are the
// score.
TEST(ChangedReading, PhasorsOfAClampedPairAddUpToItsScore) {
  PairOptions options;
  options.layer = 0, options.head = 1, options.query = 20, options.key = 3;
  options.backend = model::Backend::plain;
  protocol::NoProgress progress;
  const Text text{"one", "", some_ids(), {}};
  const auto sum_of = [](const protocol::PairResult& pair) {
    double sum = pair.tail;
    for (const auto& phasor : pair.phasors) sum += phasor[0];
    return sum;
  };
  for (const char* encoding : {"rope", "tape"}) {
    const ModelPointer clamped = read_as(exact_model(encoding), "head_clamps", "L0H1:5");
    const auto pair = analyse_pair(clamped, text, options, progress);
    ASSERT_FALSE(pair.phasors.empty());
    EXPECT_NEAR(sum_of(pair), pair.score, 1e-12) << encoding;
    const at::Tensor table = at::full({2, 2, 3}, 0.75, at::kDouble);
    const auto added = analyse_pair(read_as(clamped, "bias_table", table_file("level", table)),
                                    text, options, progress);
    EXPECT_NEAR(sum_of(added) + 0.75, added.score, 1e-12) << encoding;
  }
}

// ALiBi's slopes as a table of a model without positions are ALiBi, in every question.
struct Twins {
  ModelPointer alibi = exact_model("alibi"), table;
  Texts texts = random_texts(3, kTokens + 1, 32, 4);

  Twins() {
    const at::Tensor bias =
        alibi->encoding().bias_table({}, kTokens + 1, at::TensorOptions(at::kDouble));
    model::ModelConfig config = alibi->config();
    config.encoding = {"none", model::Json::object()};
    const auto none = model::model_of(config, alibi->decoder.weights(), "none");
    table = read_as(none, "bias_table", table_file("slopes", at::stack({bias, bias})));
  }
};

void expect_same(const std::optional<protocol::Interval>& a,
                 const std::optional<protocol::Interval>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  // Shares and losses of order 1 to 10, each some hundred roundings.
  EXPECT_NEAR(a->mean, b->mean, 1e-10);
  EXPECT_NEAR(*a->low, *b->low, 1e-9);
  EXPECT_NEAR(*a->high, *b->high, 1e-9);
}

TEST(BiasTableReading, HasTheAcuityOfItsTwin) {
  const Twins twins;
  AcuityOptions options;
  options.bands = {{1, 4}, {4, 12}};
  protocol::NoProgress progress;
  const auto a = analyse_acuity(twins.alibi, twins.texts, options, progress);
  const auto b = analyse_acuity(twins.table, twins.texts, options, progress);
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_GT(std::abs(a.bands[n].change->mean), 1e-6);
    expect_same(a.bands[n].change, b.bands[n].change);
  }
}

TEST(BiasTableReading, HasTheProfileOfItsTwin) {
  const Twins twins;
  ProfileOptions options;
  options.window = kTokens, options.samples = 30;
  protocol::NoProgress progress;
  const auto a = analyse_profile(twins.alibi, twins.texts, options, progress);
  const auto b = analyse_profile(twins.table, twins.texts, options, progress);
  ASSERT_EQ(a.rows.size(), 4u);
  for (std::size_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(a.rows[n].positional_row);
    expect_same(a.rows[n].positional_row, b.rows[n].positional_row);
    expect_same(a.rows[n].semantic_share, b.rows[n].semantic_share);
  }
}

// What is added by distance takes no amplitude from RoPE's planes.
TEST(BiasTableReading, LeavesRopeItsPlanes) {
  ProfileOptions options;
  options.window = kTokens, options.samples = 30;
  protocol::NoProgress progress;
  const Texts texts = random_texts(2, kTokens, 32, 4);
  const ModelPointer rope = exact_model("rope");
  const std::string nothing = table_file("nothing", at::zeros({2, 2, 4}, at::kDouble));
  const auto a = analyse_profile(rope, texts, options, progress);
  const auto b = analyse_profile(read_as(rope, "bias_table", nothing), texts, options, progress);
  for (std::size_t n = 0; n < 4; ++n) {
    ASSERT_TRUE(a.rows[n].positional && b.rows[n].high_frequency);
    expect_same(a.rows[n].positional, b.rows[n].positional);
    expect_same(a.rows[n].high_frequency, b.rows[n].high_frequency);
  }
}

// Beyond a limit of all heads, and where a window hides all, distances are nothing to know.
TEST(ClampedReading, LosesNothingBeyondItsLimit) {
  AcuityOptions options;
  options.bands = {{8, 20}, {2, 8}};
  protocol::NoProgress progress;
  const Texts texts = random_texts(2, kTokens + 1, 32, 4);
  for (const char* encoding : {"rope", "alibi", "tapa", "fire"}) {
    for (const char* option : {"head_clamps", "head_windows"}) {
      const ModelPointer model = read_as(exact_model(encoding), option, "all:8");
      const auto result = analyse_acuity(model, texts, options, progress);
      EXPECT_NEAR(result.bands[0].change->mean, 0, 1e-12) << encoding << option;
      EXPECT_GT(std::abs(result.bands[1].change->mean), 1e-6) << encoding << option;
    }
  }
}

// The bound is on the weights of the scores that are shown other distances.
TEST(SinkCapReading, IsOfTheMovedScores) {
  class Hook final : public model::AttentionHook {
   public:
    void before(const model::LayerInput& input, model::AttentionProgram& program) override {
      const auto pairs = [](std::int64_t first, std::int64_t count) {
        return permuted_pairs({3, 20}, 7, 0, first, count);
      };
      model::move_pairs(input, pairs, {}, program);
      if (input.layer > 0) return;
      const model::LayerAttention moved(0, program, program.q, {}, {}, model::Backend::plain,
                                        model::ran_plain(program.q));
      weights = moved.scores(moved.whole()).score[0].softmax(-1);
    }
    at::Tensor weights;  // without the bound
  } hook;
  class Keeper final : public model::Observer {
   public:
    bool wants_attention(std::int64_t layer) override { return layer == 0; }
    void on_attention(const std::shared_ptr<const model::LayerAttention>& layer) override {
      weights = layer->weights(layer->whole())[0];
    }
    at::Tensor weights;
  } keeper;
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options;
  options.hook = &hook, options.backend = model::Backend::plain;
  const ModelPointer capped = read_as(exact_model("rope"), "head_sink_caps", "all:0.02");
  capped->decoder.hidden(ids_tensor(some_ids()), options, &keeper);
  const at::Tensor first = hook.weights.select(2, 0), bound = first.clamp_max(0.02);
  at::Tensor expected = hook.weights * ((1 - bound) / (1 - first)).unsqueeze(2);
  expected.select(2, 0).copy_(bound);
  EXPECT_LT((keeper.weights - expected).slice(1, 1).abs().max().item<double>(), 1e-11);
  EXPECT_GT((keeper.weights - hook.weights).abs().max().item<double>(), 1e-3);
}

// The kernel leaves the band out before it knows what the bound is of.
TEST(SinkCapReading, IsNotLeftToTheKernelInPieces) {
  const ModelPointer rope = testing::small_model("rope");
  EXPECT_TRUE(model::exchanges_stay_fused(rope->decoder, kTokens));
  EXPECT_FALSE(
      model::exchanges_stay_fused(read_as(rope, "head_sink_caps", "L1H0:0.1")->decoder, kTokens));
  EXPECT_TRUE(
      model::exchanges_stay_fused(read_as(rope, "bias_table", some_table())->decoder, kTokens));
}

// A bound of c on the weight of key 0 that is reached makes it a constant: the loss as a function
// of a bias by distance has the slope that is told, and constants change nothing.
TEST(SinkCapReading, DemandIsTheDerivativeOfTheLoss) {
  const Ids ids = some_ids();
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n < kTokens; ++n) edges.push_back(n);
  for (const char* encoding : {"rope", "alibi", "tape"}) {
    const ModelPointer capped = read_as(exact_model(encoding), "head_sink_caps", "all:0.03");
    const auto loss = [&](const at::Tensor& bias) {
      return demand_of(*capped, ids, {bias, edges},
                       {model::Backend::plain, false, nullptr, nullptr})
          .loss;
    };
    const at::Tensor demand =
        demand_of(*capped, ids, {}, {model::Backend::plain, true, nullptr, nullptr}).demand;
    const double largest = demand.abs().max().item<double>();
    EXPECT_LE(demand.sum(-1).abs().max().item<double>(), 1e-12 * largest) << encoding;
    for (const std::int64_t distance : {1, 6}) {
      at::Tensor step = at::zeros_like(demand);
      step[0][1][distance] = 1e-4;
      const double measured = (loss(step) - loss(-step)) / 2e-4;
      // The bound has a kink where a weight reaches it, which no step of these texts crosses.
      EXPECT_NEAR(measured, -demand[0][1][distance].item<double>(), 1e-5 * largest) << encoding;
    }
  }
}

// What a window hides has no score at any distance: such pairs count as invalid, and no number is
// made of them.
TEST(WindowReading, ProfileLeavesOutWhatItHides) {
  ProfileOptions options;
  options.window = kTokens, options.samples = 60;
  protocol::NoProgress progress;
  const Texts texts = random_texts(2, kTokens, 32, 4);
  for (const char* encoding : {"rope", "alibi", "tapa"}) {
    const ModelPointer own = exact_model(encoding);
    const auto whole = analyse_profile(own, texts, options, progress);
    const auto result =
        analyse_profile(read_as(own, "head_windows", "L0H1:9"), texts, options, progress);
    const protocol::ProfileRow& row = result.rows[1];
    EXPECT_GT(row.invalid, whole.rows[1].invalid) << encoding;
    for (const auto* value :
         {&row.positional, &row.positional_row, &row.semantic, &row.semantic_share}) {
      if (*value) {
        EXPECT_TRUE(std::isfinite((*value)->mean)) << encoding;
      }
    }
    EXPECT_TRUE(row.positional_row && row.semantic) << encoding;
    expect_same(result.rows[0].positional_row, whole.rows[0].positional_row);
  }
}

// The kernel's inputs outlive the program that they were made of: limits of clamps are read when it
// runs, and a content map makes its program on the way.
TEST(ClampedReading, KernelInputsKeepTheirLimits) {
  const ModelPointer clamped = read_as(testing::small_model("rope"), "head_clamps", "all:5");
  const auto layer = testing::passes_for(clamped, 1, kTokens)[0]->layer(0);
  auto program = std::make_unique<model::AttentionProgram>(layer->program());
  ASSERT_TRUE(program->is<model::ClampProgram>());
  const std::vector<std::int64_t> limits = program->as<model::ClampProgram>()->limits;
  const model::KernelInputs inputs(*program, layer->v());
  const std::int64_t* own = program->as<model::ClampProgram>()->limits.data();
  const auto* kept = std::get_if<kernels::ClampVariant>(&inputs.inputs().variant);
  ASSERT_NE(kept, nullptr);
  EXPECT_NE(kept->limits, own);
  EXPECT_TRUE(std::equal(limits.begin(), limits.end(), kept->limits));
}

// A statement about what an encoding makes of scores says nothing of scores that were changed.
TEST(ChangedReading, IsNoPremiseOfTheTheory) {
  protocol::NoProgress progress;
  const Texts texts = random_texts(8, 64, 32, 4);
  const auto verdict = [&](const ModelPointer& model, const std::string& id) {
    CheckContext context;
    context.model = model, context.texts = &texts, context.progress = &progress;
    return run_check(select_checks({id}).at(0), context).verdict;
  };
  const ModelPointer rope = testing::small_model("rope");
  for (const char* option : {"head_windows", "head_clamps"}) {
    const ModelPointer changed = read_as(rope, option, "all:8");
    EXPECT_EQ(verdict(changed, "rope.intrinsic_bias"), "premise_not_met") << option;
    EXPECT_EQ(verdict(changed, "tape.special_case"), "premise_not_met") << option;
    EXPECT_NE(verdict(changed, "tape.shift"), "premise_not_met") << option;
  }
  EXPECT_NE(verdict(rope, "rope.intrinsic_bias"), "premise_not_met");
}

// A model that sees both ways is clamped both ways: what its encoding adds to the content of a pair
// is what it adds at the limit, on the side where the key stands.
TEST(ClampedReading, OfAModelThatSeesBothWays) {
  for (const char* encoding : {"t5", "alibi", "kerple_log"}) {
    model::ModelConfig config = testing::small_config(encoding);
    config.attention.causal = false;
    const ModelPointer own = model::random_model(config, 3, at::kDouble);
    const auto added = [](const ModelPointer& model) {
      const auto layer = testing::passes_for(model, 1, kTokens)[0]->layer(0);
      const model::ScoreParts parts = layer->scores(layer->whole());
      return (parts.score - parts.content)[0];  // (H, N, N)
    };
    const at::Tensor before = added(own), after = added(read_as(own, "head_clamps", "L0H1:5"));
    EXPECT_TRUE(after[0].equal(before[0])) << encoding;
    for (std::int64_t i = 0; i < kTokens; ++i) {
      for (std::int64_t j = 0; j < kTokens; ++j) {
        const std::int64_t read = std::clamp<std::int64_t>(i - j, -5, 5);
        // A pair of that distance that stands in the text.
        const std::int64_t row = std::max<std::int64_t>(0, read);
        EXPECT_NEAR(after[1][i][j].item<double>(), before[1][row][row - read].item<double>(), 1e-12)
            << encoding << ' ' << i << ' ' << j;
      }
    }
  }
}

// Of a head that sees W keys there are effects of W distances: as of all heads within W.
TEST(WindowReading, IsAddressedWithinItsWindow) {
  const Texts texts = random_texts(3, kTokens, 32, 4);
  const auto addressed = [&](const ModelPointer& model, std::int64_t within) {
    testing::Passes passes;
    for (const Text& text : texts.items) {
      passes.push_back(std::make_shared<TextPass>(model, ids_tensor(text.ids),
                                                  model::ForwardOptions{}, std::int64_t{1} << 30));
    }
    AddressingOptions options;
    options.within = within, options.layers = {0};
    protocol::NoProgress progress;
    return analyse_addressing(passes, options, progress).rows;
  };
  const ModelPointer rope = exact_model("rope");
  const auto windowed = addressed(read_as(rope, "head_windows", "L0H1:9"), 0);
  const auto within = addressed(rope, 9), whole = addressed(rope, 0);
  expect_same(windowed[1].distance_first, within[1].distance_first);
  expect_same(windowed[1].interaction, within[1].interaction);
  expect_same(windowed[1].query, within[1].query);
  EXPECT_NEAR(*windowed[1].floor.distance, *within[1].floor.distance, 1e-12);
  expect_same(windowed[0].distance_first, whole[0].distance_first);
  EXPECT_GT(std::abs(windowed[1].interaction->mean - whole[1].interaction->mean), 1e-3);
  // A key that is never weighed has no score whose effects could be told.
  const auto hidden = addressed(read_as(rope, "head_sink_caps", "L0H0:0"), 0);
  EXPECT_FALSE(hidden[0].interaction);
  EXPECT_FALSE(hidden[0].why.empty());
}

}  // namespace
}  // namespace phasescope::analysis
