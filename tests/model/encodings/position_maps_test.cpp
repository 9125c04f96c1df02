// Position maps and drawn positions, in front of any encoding, and what a token's place does to its
// query: against the ids and models that they stand for.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "../attention_keeper.h"
#include "../golden.h"
#include "../layer_case.h"
#include "formats/error.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::model {
namespace {

// Positions that a state was made of: the slowest plane of a huge base turns by less than a half.
at::Tensor positions_of(const at::Tensor& z, double slowest) {
  const at::Tensor last = z.select(-1, z.size(-1) - 1)[0][0];  // (N, 2)
  return at::atan2(last.select(1, 1), last.select(1, 0)) / slowest;
}

TEST(RandomizedRope, DrawsSortedPositionsForEachLayerTheSameEachTime) {
  const ModelConfig config =
      layer_config("randomized_rope", {{"draw", "layer"}, {"range", 90}, {"base", 1e8}}, 1, 8);
  const auto encoding = make_encoding(config);
  StartContext context;
  context.positions.length = 40;
  context.dtype = context.angle_dtype = at::kDouble;
  const auto drawn = [&](std::int64_t layer) {
    PositionState state = encoding->start(context);
    encoding->before_layer(layer, state);
    return positions_of(state.z, 1e-6);
  };
  const at::Tensor first = drawn(0), second = drawn(1);
  EXPECT_LT((first - first.round()).abs().max().item<double>(), 1e-6);
  EXPECT_GE(first.min().item<double>(), -1e-6);
  EXPECT_LT(first.max().item<double>(), 89.5);
  EXPECT_GT((first.slice(0, 1) - first.slice(0, 0, -1)).min().item<double>(), 0.5);
  EXPECT_TRUE(first.equal(drawn(0)));
  EXPECT_FALSE(first.equal(second));
  context.positions.length = 91;  // more than there are
  EXPECT_LT((drawn(1) - at::arange(91, at::kDouble)).abs().max().item<double>(), 1e-6);
}

// In training alone, unless the configuration has the map always.
TEST(PositionMaps, DrawAfreshInTrainingAndKeepPlacesOutside) {
  ModelConfig config = tiny_config("alibi", Json::object());
  config.positions.map = "random";
  const auto model = random_model(config, 3, at::kDouble);
  const at::Tensor ids = random_ids(2, 21, config.vocab_size);
  const at::NoGradGuard no_grad;
  const auto read_at = [&](const at::Tensor& positions) {
    return model->decoder.forward(ids, {.position_ids = positions});
  };
  EXPECT_TRUE(model->decoder.forward(ids).equal(
      model->decoder.forward(ids, {.position_ids = at::arange(21, at::kLong)})));
  const at::Tensor of_seven = drawn_positions(21, 64, 7);  // twice the context
  EXPECT_TRUE(model->decoder.forward(ids, {.draw = 7}).equal(read_at(of_seven)));
  EXPECT_FALSE(of_seven.equal(drawn_positions(21, 64, 8)));
  // A text longer than the range keeps its places.
  const at::Tensor longer = random_ids(1, 65, config.vocab_size);
  EXPECT_TRUE(
      model->decoder.forward(longer, {.draw = 7})
          .equal(model->decoder.forward(longer, {.position_ids = at::arange(65, at::kLong)})));
}

TEST(RandomizedRope, DrawsInTrainingWhateverItDoesOutside) {
  const auto rope = random_model(tiny_config("rope"), 3, at::kDouble);
  const at::Tensor ids = random_ids(1, 21, rope->config().vocab_size);
  const at::NoGradGuard no_grad;
  const auto randomized = [&](const char* draw) {
    return model_of(tiny_config("randomized_rope", {{"draw", draw}}), rope->decoder.weights(),
                    draw);
  };
  const at::Tensor drawn = rope->decoder.forward(ids, {.position_ids = drawn_positions(21, 64, 9)});
  EXPECT_TRUE(randomized("none")->decoder.forward(ids, {.draw = 9}).equal(drawn));
  EXPECT_TRUE(randomized("model")->decoder.forward(ids, {.draw = 9}).equal(drawn));
  const at::Tensor by_layer = randomized("layer")->decoder.forward(ids, {.draw = 9});
  EXPECT_GT(relative_error(by_layer, drawn), 1e-3);
  EXPECT_TRUE(randomized("layer")
                  ->decoder
                  .forward(ids, {.layer_position_ids = at::stack(
                                     {drawn_positions(21, 64, 9), drawn_positions(21, 64, 10)})})
                  .equal(by_layer));
}

TEST(PositionMaps, DrawForEachLayerWhereAsked) {
  const at::NoGradGuard no_grad;
  for (const std::string key : {"alibi", "rope", "fire"}) {
    ModelConfig config = tiny_config(key);
    config.positions.map = "random_by_layer";
    const auto model = random_model(config, 3, at::kDouble);
    const at::Tensor ids = random_ids(2, 21, config.vocab_size);
    AttentionKeeper keeper;
    const at::Tensor drawn = model->decoder.forward(ids, {.draw = 9}, &keeper);
    ASSERT_EQ(keeper.layers.size(), 2u);
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const auto seed = static_cast<std::uint64_t>(9 + layer);
      const auto& attention = keeper.layers[static_cast<std::size_t>(layer)];
      EXPECT_TRUE(attention->program().positions.ids.equal(drawn_positions(21, 64, seed))) << key;
    }
    // Outside training texts keep their places.
    config.positions.map = "identity";
    EXPECT_TRUE(model->decoder.forward(ids).equal(
        model_of(config, model->decoder.weights(), "identity")->decoder.forward(ids)));
    if (key != "rope") continue;
    EXPECT_TRUE(model_of(tiny_config("randomized_rope", {{"draw", "layer"}}),
                         model->decoder.weights(), "randomized")
                    ->decoder.forward(ids, {.draw = 9})
                    .equal(drawn));
  }
  ModelConfig tape = tiny_config("tape");
  tape.positions.map = "random_by_layer";
  EXPECT_THROW(make_encoding(tape), formats::Error);
}

// Place i / factor, also between two places.
TEST(PositionMaps, InterpolationLiesBetweenPlaces) {
  const auto interpolated = [](const std::string& key, const Json& options, double factor) {
    ModelConfig config = tiny_config(key, options);
    config.positions.map = "interpolate";
    config.positions.factor = factor;
    return config;
  };
  const at::NoGradGuard no_grad;
  const auto rope = random_model(tiny_config("rope"), 3, at::kDouble);
  const at::Tensor ids = random_ids(1, 21, rope->config().vocab_size);
  const Json linear = {{"scaling", "linear"}, {"factor", 3.0}};
  EXPECT_LT(relative_error(
                model_of(interpolated("rope", Json::object(), 3.0), rope->decoder.weights(), "map")
                    ->decoder.forward(ids),
                model_of(tiny_config("rope", linear), rope->decoder.weights(), "scaling")
                    ->decoder.forward(ids)),
            1e-13);
  const auto table = [&](const ModelConfig& config, const Parameters& layer) {
    return make_encoding(config)->bias_table(layer, 30, at::kDouble);
  };
  const Json none = Json::object();
  EXPECT_LT(relative_error(table(interpolated("alibi", none, 3.0), {}),
                           table(tiny_config("alibi"), {}) / 3.0),
            1e-15);
  const at::Tensor p = at::rand({3}, at::kDouble) + 1, a = at::rand({3}, at::kDouble) + 1;
  EXPECT_LT(relative_error(table(interpolated("kerple_log", none, 3.0), {{"p", p}, {"a", a}}),
                           table(tiny_config("kerple_log"), {{"p", p}, {"a", a / 3.0}})),
            1e-14);
  // A learned table: the straight line between two rows.
  const Parameters rows = {{"table", at::randn({32, 24}, at::kDouble)}};
  StartContext context;
  context.positions = {9, 0, {}};
  context.dtype = context.angle_dtype = at::kDouble;
  context.shared = &rows;
  const at::Tensor halves = make_encoding(interpolated("learned", none, 2.0))
                                ->embed(at::zeros({1, 9, 24}, at::kDouble), context)[0];
  const at::Tensor& whole = rows.at("table");
  EXPECT_TRUE(halves[6].equal(whole[3]));
  EXPECT_LT(relative_error(halves[7], (whole[3] + whole[4]) / 2), 1e-15);
  // Buckets of 0, 0, 0, 1, 1, 1, ...
  const Parameters buckets = {{"table", at::arange(32, at::kDouble).unsqueeze(1).expand({32, 3})}};
  const at::Tensor thirds = table(interpolated("t5", {{"tables", "layer"}}, 3.0), buckets)[0];
  EXPECT_TRUE(thirds.slice(0, 0, 7).equal(at::tensor({0, 0, 0, 1, 1, 1, 2}, at::kDouble)));
}

// In front of any encoding.
TEST(PositionMaps, AreTheIdsTheyStandFor) {
  for (const char* key : {"alibi", "fire", "sinusoidal", "rope", "learned"}) {
    ModelConfig config = tiny_config(key, Json::object());
    const auto model = random_model(config, 3, at::kDouble);
    const at::Tensor ids = random_ids(1, 21, config.vocab_size);
    const at::NoGradGuard no_grad;
    config.positions.map = "random";
    config.positions.draw = "always";
    config.positions.range = 30;
    config.positions.seed = 5;
    const at::Tensor drawn = drawn_positions(21, 30, 5);
    EXPECT_EQ((drawn.slice(0, 1) - drawn.slice(0, 0, -1)).min().item<std::int64_t>(), 1);
    EXPECT_FALSE(drawn.equal(at::arange(21, at::kLong)));
    EXPECT_TRUE(model_of(config, model->decoder.weights(), "random")
                    ->decoder.forward(ids)
                    .equal(model->decoder.forward(ids, {.position_ids = drawn})))
        << key;
    config.positions.map = "shift";
    config.positions.shift = 4;
    EXPECT_LT(
        relative_error(model_of(config, model->decoder.weights(), "shift")->decoder.forward(ids),
                       model->decoder.forward(ids, {.shift = 4})),
        1e-13)
        << key;
  }
}

// Padding in front of a text, where positions skip it.
TEST(PositionMaps, StandAlsoBehindPadding) {
  const at::NoGradGuard no_grad;
  ModelConfig config = tiny_config("sinusoidal");
  config.positions_skip_padding = true;
  config.positions.map = "shift";
  config.positions.shift = 3;
  const auto model = random_model(config, 3, at::kDouble);
  const at::Tensor ids = random_ids(1, 9, config.vocab_size);
  at::Tensor mask = at::ones({1, 9}, at::kBool);
  mask.slice(1, 0, 4).fill_(false);
  EXPECT_LT(relative_error(model->decoder.forward(ids, {.key_mask = mask}).slice(1, 4),
                           model->decoder.forward(ids.slice(1, 4))),
            1e-13);
  config.positions.map = "random";
  config.positions.draw = "always";
  const auto drawing = model_of(config, model->decoder.weights(), "random");
  at::Tensor places = drawn_positions(9, 2 * config.context, 1).slice(0, 0, 5);
  EXPECT_LT(relative_error(drawing->decoder.forward(ids, {.key_mask = mask}).slice(1, 4),
                           model->decoder.forward(ids.slice(1, 4), {.position_ids = places})),
            1e-13);
}

// Scores of the first layer, masked ones 0.
at::Tensor finite_scores(const AttentionKeeper& keeper) {
  const LayerAttention& layer = *keeper.layers.front();
  return at::nan_to_num(layer.scores(layer.whole()).score, 0, 0, 0);
}

// Linear in q, every score of a row is multiplied by the row's factor.
TEST(LogScale, MultipliesTheQueryOfEveryTermToo) {
  const at::NoGradGuard no_grad;
  for (const std::string key : {"none", "rope", "xpos", "shaw"}) {
    ModelConfig config = tiny_config(key);
    config.layers = 1;
    const auto plain = random_model(config, 3, at::kDouble);
    config.attention.log_scale = 7;
    const auto scaled = model_of(config, plain->decoder.weights(), "scaled");
    const at::Tensor ids = random_ids(1, 12, config.vocab_size);
    AttentionKeeper theirs, ours;
    plain->decoder.forward(ids, {}, &theirs);
    scaled->decoder.forward(ids, {}, &ours);
    const at::Tensor factors = (at::arange(1, 13, at::kDouble).log() / std::log(7.0)).unsqueeze(1);
    const at::Tensor expected = at::tril(finite_scores(theirs) * factors);
    EXPECT_LT(relative_error(at::tril(finite_scores(ours)), expected), 1e-13) << key;
  }
}

TEST(RandomizedRope, WithoutADrawItIsRope) {
  const ModelConfig drawn = tiny_config("randomized_rope");
  const auto model = random_model(tiny_config("rope"), 3, at::kDouble);
  const at::Tensor ids = random_ids(1, 21, drawn.vocab_size);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(model_of(drawn, model->decoder.weights(), "drawn")
                  ->decoder.forward(ids)
                  .equal(model->decoder.forward(ids)));
}

}  // namespace
}  // namespace phasescope::model
