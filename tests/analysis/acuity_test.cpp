// Acuity: what costs nothing by construction, every family shown its own distances, and copies.
#include "analysis/questions/acuity.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "analysis/questions/treated.h"
#include "analysis/tensors.h"
#include "formats/counter_random.h"
#include "formats/error.h"
#include "golden_tape.h"
#include "model/attention/exchanged_band.h"
#include "own_distances.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::period_of_eight;

using Ids = std::vector<std::int64_t>;

Ids some_ids(std::int64_t tokens = 24) { return random_texts(1, tokens, 32, 9).items[0].ids; }

std::shared_ptr<const model::Model> exact(const std::string& encoding) {
  return model::in_dtype(testing::small_model(encoding, 3), at::kDouble);
}

class OtherDistances : public ::testing::TestWithParam<std::string> {};
class MovedKeys : public ::testing::TestWithParam<std::string> {};
class Clamped : public ::testing::TestWithParam<std::string> {};

TEST_P(OtherDistances, TheOwnDistanceGivesTheScoreThatRan) {
  const auto model = exact(GetParam());
  const Ids ids = some_ids();
  for (const std::int64_t shift : {0, 7}) {
    testing::OwnDistances hook;
    const at::NoGradGuard no_gradients;
    model::ForwardOptions options;
    options.hook = &hook;
    options.shift = shift;
    options.backend = model::Backend::plain;
    model->decoder.hidden(ids_tensor(ids), options);
    EXPECT_EQ(hook.layers, 2);
  }
}

// In layer 0 a key that truly stands elsewhere has the score that it was said to have there: its
// position id alone moves, all ids raised so that none is negative. Not of FIRE, whose normaliser
// reads the query's place, which is raised.
TEST_P(MovedKeys, HaveTheScoreOfWhereTheyStand) {
  const auto model = exact(GetParam());
  const Ids ids = some_ids();
  const std::int64_t raised = 3000, i = 20, j = 9;
  for (const std::int64_t lambda : {0, 5, 17, 1000}) {
    at::Tensor told;
    class Hook final : public model::AttentionHook {
     public:
      Hook(at::Tensor& score, std::int64_t distance, bool moved)
          : score_(score), distance_(distance), moved_(moved) {}
      void before(const model::LayerInput& input, model::AttentionProgram& program) override {
        if (input.layer > 0) return;
        const auto at_ = [](std::int64_t x) { return at::full({1}, x, at::kLong); };
        if (moved_) {
          score_ =
              model::moved_scores(input, program, {at_(20), at_(9), at_(distance_)}).select(1, 0);
          return;
        }
        const model::LayerAttention attention(0, program, program.q, {}, {}, model::Backend::plain,
                                              model::ran_plain(program.q));
        score_ = attention.scores({{0, 2}, {20, 21}, {9, 10}}).score.flatten();
      }

     private:
      at::Tensor& score_;
      std::int64_t distance_;
      bool moved_;
    };
    const at::NoGradGuard no_gradients;
    at::Tensor expected;
    Hook tells(told, lambda, true), measures(expected, lambda, false);
    model::ForwardOptions options;
    options.backend = model::Backend::plain;
    options.shift = raised;
    options.hook = &tells;
    model->decoder.hidden(ids_tensor(ids), options);
    at::Tensor positions = at::arange(24, at::kLong) + raised;
    positions[j] = raised + i - lambda;
    options.shift = 0, options.position_ids = positions, options.hook = &measures;
    model->decoder.hidden(ids_tensor(ids), options);
    EXPECT_LE((told - expected).abs().max().item<double>(), 1e-10) << lambda;
  }
}

const std::string kWithoutFire[] = {
    "none", "rope",           "xpos", "alibi", "kerple_log", "kerple_power", "t5",
    "shaw", "transformer_xl", "tapa", "tape",  "cape",       "ape_sequence", "randomized_rope"};
INSTANTIATE_TEST_SUITE_P(Encodings, OtherDistances, ::testing::ValuesIn(kWithoutFire));
INSTANTIATE_TEST_SUITE_P(Fire, OtherDistances, ::testing::Values("fire"));
INSTANTIATE_TEST_SUITE_P(Encodings, MovedKeys, ::testing::ValuesIn(kWithoutFire));

// A clamp of some heads in place of their tables' entries, or by a second set of q and k, gives the
// scores that moving each pair gives: in float64 to some roundings of a score, in float32 by the
// kernel as any score. Nothing is left to plain operations.
TEST_P(Clamped, IsTheSameAsMovingEveryPair) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    class Hook final : public model::AttentionHook {
     public:
      void before(const model::LayerInput& input, model::AttentionProgram& program) override {
        const std::vector<std::int64_t> limits{5, -1};
        model::AttentionProgram fused = program, moved = program;
        model::clamp_distances(input, limits, fused);
        EXPECT_FALSE(fused.edit);
        moved.edit = [](const at::Tensor& scores, const model::ScoreCorner&) { return scores; };
        model::clamp_distances(input, limits, moved);
        const auto scores_of = [&](const model::AttentionProgram& of) {
          const model::LayerAttention attention(input.layer, of, of.q, {}, {},
                                                model::Backend::fused, model::ran_fused(of.q));
          EXPECT_EQ(attention.is_fused(), !of.edit && of.q.scalar_type() == at::kFloat);
          return attention.score(attention.whole()).to(at::kDouble).tril(0).nan_to_num(0, 0, 0);
        };
        const at::Tensor here = scores_of(fused), there = scores_of(moved);
        const double most = program.q.scalar_type() == at::kFloat ? 1e-5 : 1e-12;
        EXPECT_LE((here - there).abs().max().item<double>(),
                  most * std::max(1.0, there.abs().max().item<double>()));
        EXPECT_GT((here - scores_of(program)).abs().max().item<double>(), 1e-4);
        const auto places = [](std::int64_t n) { return at::full({1}, n, at::kLong); };
        const model::LayerAttention attention(input.layer, fused, fused.q, {}, {},
                                              model::Backend::plain, model::ran_plain(fused.q));
        EXPECT_NEAR(attention.pair_scores({{places(0), places(0), places(20), places(3)}, at::kCPU})
                        .score.item<double>(),
                    there[0][0][20][3].item<double>(), 10 * most);
        ++layers;
      }
      int layers = 0;
    } hook;
    const at::NoGradGuard no_gradients;
    const auto model = model::in_dtype(testing::small_model(GetParam(), 3), dtype);
    model::ForwardOptions options;
    options.hook = &hook;
    model->decoder.hidden(ids_tensor(some_ids()), options);
    EXPECT_EQ(hook.layers, 2);
    EXPECT_TRUE(model::clamps_stay_fused(model->decoder, 24));
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, Clamped,
                         ::testing::Values("rope", "xpos", "alibi", "kerple_log", "t5"));

// Those that have neither form move pair by pair, as ever.
TEST(Clamps, OfOtherScoresRunPlain) {
  for (const char* encoding : {"tapa", "tape", "cape"}) {
    EXPECT_FALSE(model::clamps_stay_fused(testing::small_model(encoding, 3)->decoder, 24))
        << encoding;
  }
}

TEST(Acuity, FamiliesWithoutADistanceAreRefused) {
  protocol::NoProgress progress;
  for (const char* encoding : {"sinusoidal", "cope"}) {
    const Texts texts = random_texts(2, 16, 32, 1);
    try {
      analyse_acuity(testing::small_model(encoding), texts, {}, progress);
      ADD_FAILURE() << encoding;
    } catch (const formats::Error& error) {
      EXPECT_TRUE(error.message().starts_with("cannot show this model another distance: "));
    }
  }
}

// Every row keeps its multiset of distances, and keys stay in the band.
TEST(Acuity, PermutesWithinRowsAndBands) {
  const model::MovedPairs pairs = permuted_pairs({4, 9}, 1, 2, 0, 30);
  std::map<std::int64_t, std::multiset<std::int64_t>> before, after;
  bool moved = false;
  for (std::int64_t p = 0; p < pairs.row.size(0); ++p) {
    const auto row = pairs.row[p].item<std::int64_t>();
    const auto own = row - pairs.column[p].item<std::int64_t>();
    before[row].insert(own), after[row].insert(pairs.distance[p].item<std::int64_t>());
    EXPECT_TRUE(own >= 4 && own < 9);
    moved = moved || own != pairs.distance[p].item<std::int64_t>();
  }
  EXPECT_EQ(before, after);
  EXPECT_TRUE(moved);
  EXPECT_EQ(before[20].size(), 5u);
  EXPECT_EQ(before[5].size(), 2u);
  // Another row, text or seed is permuted otherwise.
  const at::Tensor here = permuted_pairs({4, 40}, 1, 2, 50, 1).column;
  EXPECT_FALSE(here.equal(permuted_pairs({4, 40}, 1, 3, 50, 1).column));
  EXPECT_FALSE(here.equal(permuted_pairs({4, 40}, 2, 2, 50, 1).column));
  EXPECT_TRUE(here.equal(permuted_pairs({4, 40}, 1, 2, 50, 1).column));
}

// The order of a row's keys is that of the random numbers that CounterRandom gives them, whatever
// rows they are made with.
TEST(Acuity, PermutesByTheNumbersOfCounterRandom) {
  const std::int64_t text = 5;
  for (const DistanceBand band : {DistanceBand{0, 3}, DistanceBand{4, 90}, DistanceBand{60, 200}}) {
    for (const std::int64_t first : {0, 1, 50}) {
      Ids row, column, distance;
      for (std::int64_t i = first; i < first + 40; ++i) {
        const formats::CounterRandom random(9, static_cast<std::uint64_t>((text << 32) + i));
        std::map<std::uint64_t, std::int64_t> order;
        for (std::int64_t d = band.low; d < std::min(band.high, i + 1); ++d) {
          order[random.bits(static_cast<std::uint64_t>(d))] = d;
        }
        std::int64_t shown = band.low;
        for (const auto& [bits, d] : order) {
          row.push_back(i), column.push_back(i - d), distance.push_back(shown++);
        }
      }
      const model::MovedPairs found = permuted_pairs(band, 9, text, first, 40);
      EXPECT_EQ(to_vector<std::int64_t>(found.row), row) << band.low << " " << first;
      EXPECT_EQ(to_vector<std::int64_t>(found.column), column) << band.low << " " << first;
      EXPECT_EQ(to_vector<std::int64_t>(found.distance), distance) << band.low << " " << first;
    }
  }
}

TEST(Acuity, DefaultBandsAreOctavesToTheTrainedLength) {
  const auto bands = default_bands(256);
  ASSERT_EQ(bands.size(), 8u);
  EXPECT_EQ(bands[0].low, 1);
  EXPECT_EQ(bands[0].high, 3);
  EXPECT_EQ(bands[6].low, 64);
  EXPECT_EQ(bands[6].high, 129);
  EXPECT_EQ(bands[7].low, 128);
  EXPECT_EQ(bands[7].high, 256);
}

protocol::AcuityResult acuity_of(const std::shared_ptr<const model::Model>& model,
                                 std::vector<DistanceBand> bands, const Texts& texts,
                                 const std::string& by = "model") {
  AcuityOptions options;
  options.bands = std::move(bands);
  options.seeds = {1, 2};
  options.by = by;
  protocol::NoProgress progress;
  return analyse_acuity(model, texts, options, progress);
}

// As TAPE's public code gives padding weight: texts without any lose the same.
TEST(Acuity, PaddingThatNoTextHasChangesNothing) {
  const Texts texts = random_texts(3, 40, 32, 1);
  std::vector<double> changes;
  for (const char* padding : {"hidden", "added"}) {
    model::ModelConfig config = testing::small_config("fire");
    config.attention.padding = padding;
    changes.push_back(
        acuity_of(model::random_model(config, 1), {{1, 4}}, texts).bands.at(0).change->mean);
  }
  EXPECT_EQ(changes[0], changes[1]);
  EXPECT_NE(changes[0], 0);
}

TEST(Acuity, ModelsWithoutPositionsLoseNothing) {
  const Texts texts = random_texts(3, 40, 32, 1);
  const auto result = acuity_of(testing::small_model("none"), {{1, 4}, {9, 16}}, texts);
  ASSERT_EQ(result.bands.size(), 2u);
  for (const protocol::AcuityBand& band : result.bands) {
    ASSERT_TRUE(band.change);
    EXPECT_EQ(band.change->mean, 0);
  }
}

// A model of distances loses as much wherever its texts begin.
TEST(Acuity, ShiftedIdsCostTheSame) {
  model::ModelConfig config = testing::small_config("rope");
  const Texts texts = random_texts(3, 24, 32, 1);
  const auto here = acuity_of(model::random_model(config, 3, at::kDouble), {{2, 9}}, texts);
  config.positions.map = "shift", config.positions.shift = 1000;
  const auto there = acuity_of(model::random_model(config, 3, at::kDouble), {{2, 9}}, texts);
  EXPECT_NE(here.bands[0].change->mean, 0);
  EXPECT_NEAR(here.bands[0].change->mean, there.bands[0].change->mean, 1e-10);
  EXPECT_NEAR(here.bands[0].change_seen->mean, there.bands[0].change_seen->mean, 1e-10);
}

TEST(Acuity, BandsOfOneDistanceAndUnseenOnes) {
  const auto result =
      acuity_of(exact("rope"), {{3, 4}, {30, 60}, {10, 36}}, random_texts(3, 24, 32, 1));
  EXPECT_EQ(result.bands[0].change->mean, 0);
  EXPECT_EQ(result.bands[1].why, "no row sees it");
  EXPECT_FALSE(result.bands[1].change);
  EXPECT_EQ(result.bands[2].why, "no row sees half of it");
  EXPECT_TRUE(result.bands[2].change);
  EXPECT_FALSE(result.bands[2].change_seen);
  EXPECT_GT(
      std::abs(
          acuity_of(exact("rope"), {{1, 12}}, random_texts(3, 24, 32, 1)).bands[0].change->mean),
      0);
}

// Rows that see one key of the band keep their bits.
TEST(Acuity, RowsBeforeTheBandKeepTheirBits) {
  const auto model = testing::small_model("rope", 3);
  const Ids ids = some_ids(30);
  const DistanceBand band{8, 17};
  const auto plain = treated_losses(*model, ids, {}, {});
  const auto treated = treated_losses(
      *model, ids,
      [&](const model::LayerInput& input, model::AttentionProgram& program) {
        model::move_pairs(
            input, [&](auto first, auto count) { return permuted_pairs(band, 1, 0, first, count); },
            {}, program);
      },
      {});
  for (std::size_t row = 0; row <= 8; ++row) EXPECT_EQ(treated[row], plain[row]) << row;
  EXPECT_NE(treated[25], plain[25]);
}

class ExchangedBands : public ::testing::TestWithParam<std::string> {};

// The kernel's sums without a band, joined with the band's own, are what exchanging each pair by
// plain operations gives: in float32, of losses of a few bits.
TEST_P(ExchangedBands, AreTheSameAsMovingEveryPair) {
  auto model = testing::small_model(GetParam(), 3);
  if (GetParam() == "rope") {  // beside what a reading adds and hides by distance
    model = model::with_overrides(model, {{"encoding.head_windows", "L0H1:40 L1H0:100"}});
  }
  const Ids ids = some_ids(300);
  ASSERT_TRUE(model::exchanges_stay_fused(model->decoder, 299));
  const DistanceBand band{16, 70};
  const model::PairsOfRows pairs = [&](auto first, auto count) {
    return permuted_pairs(band, 1, 0, first, count);
  };
  const TreatedPass fused{.backend = model::Backend::fused};
  const std::vector<double> base = losses_under(*model, ids, nullptr, fused);
  for (const model::ExchangePlace place :
       {model::ExchangePlace{}, model::ExchangePlace{1, -1}, model::ExchangePlace{0, 1}}) {
    model::ExchangedBand hook(band.low, band.high, pairs, place);
    const std::vector<double> here = losses_under(*model, ids, &hook, fused);
    const std::vector<double> there =
        treated_losses(*model, ids,
                       [&](const model::LayerInput& input, model::AttentionProgram& program) {
                         if (place.layer >= 0 && place.layer != input.layer) return;
                         const std::vector<std::int64_t> all, one{place.head};
                         model::move_pairs(input, pairs, place.head < 0 ? all : one, program);
                       },
                       {});
    double most = 0;
    for (std::size_t row = 0; row < here.size(); ++row) {
      EXPECT_NEAR(here[row], there[row], 2e-5) << row;
      most = std::max(most, std::abs(here[row] - base[row]));
    }
    EXPECT_GT(most, 1e-3);
    // Rows that see one key of the band at most keep their bits.
    for (std::size_t row = 0; row <= 16; ++row) EXPECT_EQ(here[row], base[row]) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, ExchangedBands,
                         ::testing::Values("rope", "xpos", "alibi", "kerple_log", "t5"));

// Their scores have room: a narrow band is no reason for blocks of all rows, whose keys are as
// many.
TEST(ExchangedBands, BlocksHoldNoMoreThanTheirScores) {
  for (const std::int64_t heads : {1, 4, 32}) {
    for (const std::int64_t width : {2, 64, 128, 4096, 32767}) {
      const std::int64_t rows = model::rows_of_exchange(heads, width);
      const auto scores = [&](std::int64_t r) { return heads * r * (r + width); };
      EXPECT_LE(scores(rows), model::kExchangedScores) << heads << " " << width;
      const bool most = rows == std::max<std::int64_t>(width, 64);
      EXPECT_TRUE(most || scores(rows + 1) > model::kExchangedScores) << heads << " " << width;
    }
  }
}

// Of these a row's other pairs cannot be left to a kernel with a table.
TEST(ExchangedBands, OfOtherScoresRunPlain) {
  for (const char* encoding : {"tapa", "tape", "cape"}) {
    EXPECT_FALSE(model::exchanges_stay_fused(testing::small_model(encoding, 3)->decoder, 299))
        << encoding;
  }
  // Within its threshold of 512 tokens FIRE adds a table by distance; past it rows differ.
  const auto fire = testing::small_model("fire", 3);
  EXPECT_TRUE(model::exchanges_stay_fused(fire->decoder, 299));
  EXPECT_FALSE(model::exchanges_stay_fused(fire->decoder, 700));
}

// TAPE's second stream sees the weights of the distances shown, and the states as they are.
class StateAverages final : public model::AttentionHook {
 public:
  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    given_ = program.as<model::TapeProgram>()->state.clone();
    const auto moved = [](std::int64_t first, std::int64_t count) {
      return permuted_pairs({2, 17}, 1, 0, first, count);
    };
    model::move_pairs(input, moved, {}, program);
  }
  void after(std::int64_t layer, const model::AttentionProgram& program, const at::Tensor& v,
             model::AttentionResult& result) override {
    const at::Tensor weights = weights_of_program(layer, program, v);
    const at::Tensor states = given_.expand({1, weights.size(1), -1, -1});
    EXPECT_LE((result.state - at::matmul(weights, states)).abs().max().item<double>(), 1e-12);
    EXPECT_TRUE(program.as<model::TapeProgram>()->state.equal(given_));
    model::AttentionProgram unmoved = program;
    unmoved.edit = {};
    const at::Tensor own = weights_of_program(layer, unmoved, v);
    EXPECT_GT((weights - own).abs().max().item<double>(), 1e-3);
    ++layers;
  }
  int layers = 0;

 private:
  // (1, H, N, N), by the softmax of its scores.
  static at::Tensor weights_of_program(std::int64_t layer, const model::AttentionProgram& program,
                                       const at::Tensor& v) {
    const model::LayerAttention attention(layer, program, v, {}, {}, model::Backend::plain,
                                          model::ran_plain(v));
    const at::Tensor scores = attention.score(attention.whole());
    const at::Tensor later = at::ones_like(scores, at::kBool).triu(1);
    return scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1);
  }
  at::Tensor given_;
};

TEST(Acuity, TheStatesOfTapeDoNotSeeTheMap) {
  StateAverages hook;
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options;
  options.hook = &hook;
  options.backend = model::Backend::plain;
  exact("tape")->decoder.hidden(ids_tensor(some_ids()), options);
  EXPECT_EQ(hook.layers, 2);
}

// Only bands that hold 7 and another distance cost anything, and only in head 0.
TEST(Acuity, OfCopySevenIsAtSeven) {
  const auto model = model::open_model("proof-copy7");
  const auto result =
      acuity_of(model, {{4, 9}, {8, 17}, {1, 3}, {7, 8}, {6, 8}}, period_of_eight(3, 48), "head");
  EXPECT_GT(*result.bands[0].change_seen->low, 0.1);
  EXPECT_EQ(result.bands[1].change_seen->mean, 0);
  EXPECT_EQ(result.bands[2].change_seen->mean, 0);
  EXPECT_EQ(result.bands[3].change_seen->mean, 0);
  EXPECT_GT(*result.bands[4].change_seen->low, 0.1);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].bands[0].change_seen->mean, result.bands[0].change_seen->mean);
  EXPECT_EQ(result.rows[1].bands[0].change_seen->mean, 0);
  EXPECT_EQ(result.passes, 3 * (1 + 3 * 5 * 2));
}

TEST(Acuity, BandsAreReadFromWords) {
  EXPECT_EQ(band_named("4:9").high, 9);
  for (const char* wrong : {"4", "9:4", "a:b", "4:9:1", ":"}) {
    EXPECT_THROW(band_named(wrong), formats::Error) << wrong;
  }
}

}  // namespace
}  // namespace phasescope::analysis
