// Encodings of positions, rotations and orthogonal matrices: against float64 references and the
// public code, and where there is neither against their definitions, written out in loops.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "../golden.h"
#include "../layer_case.h"
#include "formats/json.h"
#include "model/encodings/orthogonal_powers.h"
#include "model/open_model.h"

namespace phasescope::model {
namespace {

TEST(Rotations, RopeAndXposAreTheReferencesInBothLayouts) {
  const std::string file = "papers/reference/rope_xpos.safetensors";
  const at::Tensor q = golden_tensor(file, "q");
  const at::Tensor k = golden_tensor(file, "k");
  for (const std::string layout : {"half", "interleaved"}) {
    for (const int scale_base : {0, 512, 2048}) {
      Json options = {{"layout", layout}};
      if (scale_base > 0) {
        options["scale_base"] = static_cast<double>(scale_base);
        options["max_positions"] = q.size(1);
      }
      const std::string name = scale_base > 0 ? "xpos" + std::to_string(scale_base) : "rope";
      const Layer layer =
          layer_of(layer_config(scale_base > 0 ? "xpos" : "rope", options, q.size(0), q.size(2)),
                   {}, q, k, q, at::kDouble);
      const std::string start = name + "." + layout + ".";
      const auto error = [&](const at::Tensor& ours, const at::Tensor& reference) {
        return noted(scale_base > 0 ? "xpos" : "rope", file, "f64",
                     relative_error(ours, reference));
      };
      EXPECT_LT(error(layer.program.q[0], golden_tensor(file, start + "q")), 1e-14) << start;
      EXPECT_LT(error(layer.program.k[0], golden_tensor(file, start + "k")), 1e-14) << start;
      EXPECT_LT(error(all_scores(layer)[0], causal_part(golden_tensor(file, start + "scores"))),
                1e-13)
          << start;
    }
  }
}

// A case of the reference as rope's options.
Json rope_options_of(const Json& item) {
  Json options = {{"base", item.at("base")}};
  const std::string kind = item.at("kind");
  if (kind != "default") options["scaling"] = kind == "yarn_by_turns" ? "yarn" : kind;
  if (kind == "yarn_by_turns") options["ramp"] = "turns";
  for (const char* key : {"factor", "attention_factor", "truncate", "low_freq_factor",
                          "high_freq_factor", "short_factor", "long_factor"}) {
    if (item.contains(key)) options[key] = item.at(key);
  }
  for (const char* key : {"beta_fast", "beta_slow"}) {
    if (item.contains(key)) options[key] = item.at(key).get<double>();
  }
  if (kind == "dynamic") options["trained_context"] = item.at("max_position_embeddings");
  if (item.contains("original_max_position_embeddings")) {
    options["trained_context"] = item.at("original_max_position_embeddings");
    if (kind == "longrope") {
      options["factor"] = item.at("max_position_embeddings").get<double>() /
                          item.at("original_max_position_embeddings").get<double>();
    }
  }
  return options;
}

TEST(Rotations, FrequenciesAndMagnitudesOfAllScalingsAreTheReferences) {
  const Json cases = formats::json_from_file(golden("papers/reference/cases.json"));
  int compared = 0;
  for (const Json& item : cases.at("frequencies").at("cases")) {
    const Json options = rope_options_of(item);
    const auto encoding =
        make_encoding(layer_config("rope", options, 1, item.at("head_dim").get<std::int64_t>()));
    StartContext context;
    context.positions.length = item.value("length", std::int64_t{1});
    context.dtype = context.angle_dtype = at::kDouble;
    const std::string key = std::to_string(item.at("key").get<int>());
    const std::string file = "papers/reference/frequencies.safetensors";
    EXPECT_LT(noted("rope", file, "f64",
                    relative_error(encoding->frequencies(context),
                                   golden_tensor(file, key + ".inv_freq"))),
              1e-13)
        << item;
    const at::Tensor z = encoding->start(context).z;
    EXPECT_NEAR(z.select(2, 0).square().sum(-2).sqrt().max().item<double>(),
                item.at("scale_on_q_and_k").get<double>(), 1e-13)
        << item;
    ++compared;
  }
  EXPECT_EQ(compared, 17);
}

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

// In front of any encoding.
TEST(PositionMaps, AreTheIdsTheyStandFor) {
  for (const char* key : {"alibi", "fire", "sinusoidal", "rope", "learned"}) {
    ModelConfig config = tiny_config(key, Json::object());
    const auto model = random_model(config, 3, at::kDouble);
    const at::Tensor ids = random_ids(1, 21, config.vocab_size);
    const at::NoGradGuard no_grad;
    config.positions.map = "random";
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

TEST(RandomizedRope, WithoutADrawItIsRope) {
  const ModelConfig drawn = tiny_config("randomized_rope");
  const auto model = random_model(tiny_config("rope"), 3, at::kDouble);
  const at::Tensor ids = random_ids(1, 21, drawn.vocab_size);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(model_of(drawn, model->decoder.weights(), "drawn")
                  ->decoder.forward(ids)
                  .equal(model->decoder.forward(ids)));
}

TEST(Sinusoidal, IsItsDefinition) {
  const auto one = make_encoding(layer_config("sinusoidal", Json::object(), 1, 12));
  const auto two = make_encoding(layer_config("sinusoidal_2d", {{"columns", 5}}, 1, 12));
  StartContext context;
  context.positions = {13, 4, {}};
  context.dtype = context.angle_dtype = at::kDouble;
  const at::Tensor zeros = at::zeros({1, 13, 12}, at::kDouble);
  const at::Tensor line = one->embed(zeros, context)[0], grid = two->embed(zeros, context)[0];
  const auto entry = [](std::int64_t position, std::int64_t channel, double width) {
    const double angle = static_cast<double>(position) *
                         std::pow(10000.0, -static_cast<double>(channel / 2 * 2) / width);
    return channel % 2 == 0 ? std::sin(angle) : std::cos(angle);
  };
  for (std::int64_t i = 0; i < 13; ++i) {
    for (std::int64_t c = 0; c < 12; ++c) {
      const std::int64_t position = i + 4;
      EXPECT_NEAR(line[i][c].item<double>(), entry(position, c, 12), 1e-14);
      const double wanted = c < 6 ? entry(position / 5, c, 6) : entry(position % 5, c - 6, 6);
      EXPECT_NEAR(grid[i][c].item<double>(), wanted, 1e-14);
    }
  }
}

double scalar_product(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum().item<double>();
}

TEST(Shaw, IsItsDefinition) {
  const at::Tensor q = at::randn({2, 9, 8}, at::kDouble), k = at::randn({2, 9, 8}, at::kDouble);
  const at::Tensor table = at::randn({7, 8}, at::kDouble);
  const Layer layer = layer_of(layer_config("shaw", {{"window", 3}}, 2, 8), {{"table", table}}, q,
                               k, q, at::kDouble);
  const at::Tensor scores = all_scores(layer)[0];
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 9; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const std::int64_t clipped = std::max<std::int64_t>(j - i, -3);
        EXPECT_NEAR(scores[h][i][j].item<double>(),
                    scalar_product(q[h][i], k[h][j] + table[clipped + 3]) / std::sqrt(8.0), 1e-13);
      }
    }
  }
}

TEST(TransformerXl, IsItsDefinition) {
  const at::Tensor q = at::randn({2, 7, 4}, at::kDouble), k = at::randn({2, 7, 4}, at::kDouble);
  const at::Tensor w = at::randn({8, 8}, at::kDouble);
  const at::Tensor u = at::randn({2, 4}, at::kDouble), v = at::randn({2, 4}, at::kDouble);
  const Layer layer = layer_of(layer_config("transformer_xl", Json::object(), 2, 4),
                               {{"r_proj", w}, {"u", u}, {"v", v}}, q, k, q, at::kDouble);
  const at::Tensor scores = all_scores(layer)[0];
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        at::Tensor r = at::zeros({8}, at::kDouble);
        for (std::int64_t m = 0; m < 4; ++m) {
          const double angle =
              static_cast<double>(i - j) * std::pow(10000.0, -static_cast<double>(2 * m) / 8);
          r[2 * m] = std::sin(angle);
          r[2 * m + 1] = std::cos(angle);
        }
        const at::Tensor key = at::matmul(w, r).slice(0, 4 * h, 4 * h + 4);
        EXPECT_NEAR(
            scores[h][i][j].item<double>(),
            (scalar_product(q[h][i] + u[h], k[h][j]) + scalar_product(q[h][i] + v[h], key)) / 2,
            1e-13);
      }
    }
  }
}

// The public layout (B, N, d, H) in ours.
at::Tensor heads_first(const at::Tensor& x) { return x.permute({0, 3, 1, 2}).contiguous(); }

TEST(ApeSequence, AgreesWithThePublicCode) {
  for (const std::string name : {"sequence_random", "sequence_rope_init"}) {
    const std::string file = "papers/ape/" + name + ".safetensors";
    const auto tensor = [&](const char* key) { return golden_tensor(file, key); };
    const at::Tensor q = heads_first(tensor("q")), k = heads_first(tensor("k"));
    const at::Tensor v = heads_first(tensor("v"));
    for (const double decay : {0.98, 1.0}) {
      const Layer layer =
          layer_of(layer_config("ape_sequence", {{"decay", decay}}, q.size(1), q.size(3)), {}, q, k,
                   v, at::kDouble, {{"generator", tensor("_primitives")}});
      const auto error = [&](const at::Tensor& ours, const at::Tensor& reference) {
        return noted("ape_sequence", file, "f64", relative_error(ours, reference));
      };
      EXPECT_LT(error(layer.program.q, heads_first(tensor("q_adjusted_f64"))), 1e-12) << name;
      const at::Tensor expected =
          tensor(decay < 1 ? "scores_f64" : "scores_no_decay_f64").permute({0, 3, 1, 2});
      EXPECT_LT(error(all_scores(layer), causal_part(expected)), 1e-12) << name;
      if (decay == 1) continue;
      EXPECT_LT(error(attention(layer.program, layer.v, {.backend = Backend::plain}).out,
                      heads_first(tensor("values_causal_f64"))),
                1e-12)
          << name;
    }
  }
}

TEST(ApeSequence, StartsAsRopeInPairsOfChannels) {
  const ModelConfig ape = tiny_config("ape_sequence", {{"decay", 1.0}});
  const auto rope = random_model(tiny_config("rope", {{"layout", "interleaved"}}), 3, at::kDouble);
  Weights weights = rope->decoder.weights();
  weights.encoding["generator"] = rope_generator(10000.0, ape.head_dim).repeat({ape.heads, 1, 1});
  const at::Tensor ids = random_ids(1, 77, ape.vocab_size);
  const at::NoGradGuard no_grad;
  EXPECT_LT(relative_error(model_of(ape, weights, "ape")->decoder.forward(ids),
                           rope->decoder.forward(ids)),
            1e-12);
}

TEST(ApeGrid, AgreesWithThePublicCode) {
  const std::string file = "papers/ape/grid.safetensors";
  const auto tensor = [&](const std::string& key) { return golden_tensor(file, key); };
  const at::Tensor q = heads_first(tensor("q")), k = heads_first(tensor("k"));
  const at::Tensor generator = tensor("_primitives").unflatten(0, {2, q.size(1)});
  for (const auto& [key, options] :
       {std::pair<std::string, Json>{"scores_no_decay_f64", {{"decay", 1.0}}},
        {"scores_image_model_f64", {{"distance", "euclidean"}}},
        {"scores_manhattan_decay_f64", {{"distance", "manhattan"}}}}) {
    Json all = options;
    all["columns"] = 4;
    ModelConfig config = layer_config("ape_grid", all, q.size(1), q.size(3));
    config.attention.causal = false;
    Layer layer = layer_of(config, {}, q, k, q, at::kDouble, {{"generator", generator}});
    layer.program.causal = false;
    EXPECT_LT(noted("ape_grid", file, "f64",
                    relative_error(all_scores(layer), tensor(key).permute({0, 3, 1, 2}))),
              1e-12)
        << key;
  }
}

// The reference's P and turns; P W^n P^T with W^n by its own powers.
TEST(ApePeriodic, AgreesWithTheReferenceAndClosesExactly) {
  const std::string file = "papers/reference/ape_periodic.safetensors";
  const Json cases = formats::json_from_file(golden("papers/reference/cases.json"));
  const auto tensor = [&](const char* key) { return golden_tensor(file, key); };
  const at::Tensor q = tensor("q").unsqueeze(0), k = tensor("k").unsqueeze(0);
  const std::int64_t period = cases.at("ape_periodic").at("period").get<std::int64_t>();
  const Layer layer = layer_of(
      layer_config("ape_periodic", {{"period", period}}, 1, q.size(2)), {}, q, k, q, at::kDouble,
      {{"basis", tensor("P").unsqueeze(0)}, {"turns", tensor("turns").unsqueeze(0)}});
  EXPECT_LT(noted("ape_periodic", file, "f64",
                  relative_error(all_scores(layer)[0][0], causal_part(tensor("scores")))),
            1e-12);
  const auto encoding =
      make_encoding(layer_config("ape_periodic", {{"period", period}}, 1, q.size(2)));
  const Parameters shared = {{"basis", tensor("P").unsqueeze(0)},
                             {"turns", tensor("turns").unsqueeze(0).to(at::kDouble)}};
  StartContext context;
  context.positions.length = period + 1;
  context.dtype = context.angle_dtype = at::kDouble;
  context.shared = &shared;
  const at::Tensor z = encoding->start(context).z;
  EXPECT_TRUE(z.select(2, 0).equal(z.select(2, period)));
}

}  // namespace
}  // namespace phasescope::model
