// Encodings of positions, rotations and orthogonal matrices: against float64 references and the
// public code, and where there is neither against their definitions, written out in loops.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "../golden.h"
#include "../layer_case.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "model/attention/fused_attention.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "model/encodings/orthogonal_powers.h"
#include "model/forward_inputs.h"

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

// Of encodings that nobody else's file is about: written out entry by entry.

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
  const at::Tensor on_line = at::empty_like(line), on_grid = at::empty_like(grid);
  for (std::int64_t i = 0; i < 13; ++i) {
    for (std::int64_t c = 0; c < 12; ++c) {
      const std::int64_t position = i + 4;
      on_line[i][c] = entry(position, c, 12);
      on_grid[i][c] = c < 6 ? entry(position / 5, c, 6) : entry(position % 5, c - 6, 6);
    }
  }
  EXPECT_LT(noted("sinusoidal", kDefinition, "f64", relative_error(line, on_line)), 1e-14);
  EXPECT_LT(noted("sinusoidal_2d", kDefinition, "f64", relative_error(grid, on_grid)), 1e-14);
}

double scalar_product(const at::Tensor& a, const at::Tensor& b) {
  return (a * b).sum().item<double>();
}

TEST(Shaw, IsItsDefinition) {
  const at::Tensor q = at::randn({2, 9, 8}, at::kDouble), k = at::randn({2, 9, 8}, at::kDouble);
  const at::Tensor table = at::randn({7, 8}, at::kDouble);
  const Layer layer = layer_of(layer_config("shaw", {{"window", 3}}, 2, 8), {{"table", table}}, q,
                               k, q, at::kDouble);
  const at::Tensor scores = causal_part(all_scores(layer)[0]), expected = at::zeros_like(scores);
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 9; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const std::int64_t clipped = std::max<std::int64_t>(j - i, -3);
        expected[h][i][j] = scalar_product(q[h][i], k[h][j] + table[clipped + 3]) / std::sqrt(8.0);
      }
    }
  }
  EXPECT_LT(noted("shaw", kDefinition, "f64", relative_error(scores, expected)), 1e-14);
}

TEST(TransformerXl, IsItsDefinition) {
  const at::Tensor q = at::randn({2, 7, 4}, at::kDouble), k = at::randn({2, 7, 4}, at::kDouble);
  const at::Tensor w = at::randn({8, 8}, at::kDouble);
  const at::Tensor u = at::randn({2, 4}, at::kDouble), v = at::randn({2, 4}, at::kDouble);
  const Layer layer = layer_of(layer_config("transformer_xl", Json::object(), 2, 4),
                               {{"r_proj", w}, {"u", u}, {"v", v}}, q, k, q, at::kDouble);
  const at::Tensor scores = causal_part(all_scores(layer)[0]), expected = at::zeros_like(scores);
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
        expected[h][i][j] =
            (scalar_product(q[h][i] + u[h], k[h][j]) + scalar_product(q[h][i] + v[h], key)) / 2;
      }
    }
  }
  EXPECT_LT(noted("transformer_xl", kDefinition, "f64", relative_error(scores, expected)), 1e-14);
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
      // The same with places that are given, by tensor operations, and fused in float32.
      ASSERT_TRUE(layer.program.is<TableProgram>());
      EXPECT_TRUE(layer.program.as<TableProgram>()->multiplies);
      const at::Tensor places = at::arange(q.size(2), at::kLong) + 3;
      const Layer placed =
          layer_of(layer_config("ape_sequence", {{"decay", decay}}, q.size(1), q.size(3)), {}, q, k,
                   v, at::kDouble, {{"generator", tensor("_primitives")}}, places);
      EXPECT_TRUE(placed.program.is<TermProgram>());
      EXPECT_LT(error(all_scores(placed), causal_part(expected)), 1e-12) << name;
      const AttentionResult fused =
          attention(in_dtype(layer.program, at::kFloat), layer.v.to(at::kFloat), {});
      EXPECT_EQ(fused.ran.text(), fused_kernel_name());
      // Float32 scores and weights of a few roundings each.
      EXPECT_LT(relative_error(fused.out, heads_first(tensor("values_causal_f64"))), 1e-5) << name;
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

// The public code fits its start by gradient descent: its angles are off by 4e-5, and entries
// outside the planes' blocks are no more exact.
TEST(ApeSequence, StartsAsThePublicCodeDoesWhereAsked) {
  const std::string file = "papers/ape/sequence_rope_init.safetensors";
  const at::Tensor maps = golden_tensor(file, "maps_f64");  // W^0, W^1, ... (powers, H, d, d)
  const std::int64_t heads = maps.size(1), dim = maps.size(2);
  const auto started = [&](const char* start) {
    const auto encoding =
        make_encoding(layer_config("ape_sequence", {{"start", start}}, heads, dim));
    const at::Tensor a = encoding->shared_parameters()[0].start;
    return at::linalg_matrix_exp(a - a.t());
  };
  EXPECT_LT((started("public_rope") - maps[1]).abs().max().item<double>(), 3e-4);
  EXPECT_GT((started("rope") - maps[1]).abs().max().item<double>(), 0.1);
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

// An image: cells in any order, seen both ways, given as rows and columns beside the ids.
TEST(Grids, CellsOfAnInputsFileAreTheIdsTheyStandFor) {
  TemporaryFolder folder;
  const at::Tensor ids = random_ids(2, 30, 29);
  const at::Tensor order = at::randperm(30, at::kLong);
  const at::Tensor cells = at::stack({order.floor_divide(6), order.remainder(6)}, 1);
  // A second text with its picture turned upside down.
  const at::Tensor turned = at::stack({4 - cells.select(1, 0), cells.select(1, 1)}, 1);
  write_tensors(formats::real_file_system(), folder.path() / "one.safetensors",
                {{"input_ids", ids}, {"grid_positions", cells}});
  write_tensors(formats::real_file_system(), folder.path() / "each.safetensors",
                {{"input_ids", ids}, {"grid_positions", at::stack({cells, turned})}});
  for (const std::string key : {"ape_grid", "sinusoidal_2d"}) {
    ModelConfig config = tiny_config(key, {{"columns", 6}});
    config.attention.causal = false;
    const auto model = random_model(config, 3, at::kDouble);
    const at::NoGradGuard no_grad;
    const auto read = [&](const char* name) {
      ForwardOptions options;
      read_forward_inputs(formats::SafetensorsFile::open(folder.path() / name), "", ids,
                          model->config(), options);
      return model->decoder.forward(ids, options);
    };
    const at::Tensor logits = read("one.safetensors");
    EXPECT_TRUE(logits.equal(model->decoder.forward(ids, {.position_ids = order}))) << key;
    // A picture read in another order is the same picture.
    const at::Tensor place = std::get<1>(order.sort());
    EXPECT_LT(relative_error(logits.index_select(1, place),
                             model->decoder.forward(ids.index_select(1, place))),
              1e-12)
        << key;
    const at::Tensor each = read("each.safetensors");
    EXPECT_LT(relative_error(each[0], logits[0]), 1e-13) << key;
    EXPECT_GT(relative_error(each[1], logits[1]), 1e-3) << key;
  }
}

TEST(Grids, CellsThatCannotBeAreErrors) {
  const at::Tensor ids = random_ids(1, 4, 29);
  const auto error_of = [&](const std::string& key, const at::Tensor& cells) {
    const auto model = random_model(tiny_config(key), 3);
    try {
      model->decoder.forward(ids, {.grid_positions = cells});
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
      return error.full_text();
    }
    return std::string("no error");
  };
  const at::Tensor cells = at::tensor({0, 0, 0, 1, 1, 0, 1, 15}, at::kLong).view({4, 2});
  EXPECT_EQ(error_of("ape_grid", cells), "no error");
  EXPECT_NE(error_of("rope", cells).find("this one is rope"), std::string::npos);
  EXPECT_NE(error_of("ape_grid", cells + 1).find("outside 0..15"), std::string::npos);
  EXPECT_NE(error_of("ape_grid", cells - 1).find("below 0"), std::string::npos);
  EXPECT_NE(error_of("ape_grid", cells.slice(0, 1)).find("each of the 4 tokens"),
            std::string::npos);
}

// Node numbers of the public code's trees, its matrices, its decay and the true one.
TEST(ApeTree, AgreesWithThePublicCode) {
  for (const int branches : {2, 3}) {
    const std::string file = "papers/ape/tree_b" + std::to_string(branches) + ".safetensors";
    const auto tensor = [&](const char* key) { return golden_tensor(file, key); };
    const at::Tensor q = heads_first(tensor("q")), k = heads_first(tensor("k"));
    const at::Tensor nodes = tensor("positions");
    const Parameters shared = {{"generator", tensor("_primitives").narrow(0, 0, branches)}};
    const auto layer = [&](Json options, const at::Tensor& ids) {
      options["branches"] = branches;
      ModelConfig config = layer_config("ape_tree", options, q.size(1), q.size(3));
      config.attention.causal = false;
      Layer result = layer_of(config, {}, q, k, q, at::kDouble, shared, ids);
      result.program.causal = false;
      return result;
    };
    for (const auto& [key, options] :
         {std::pair<const char*, Json>{"scores_no_decay_f64", {{"decay", 1.0}}},
          {"scores_true_decay_f64", {{"steps", "true"}}},
          {"scores_code_decay_f64", {{"steps", "public"}}}}) {
      const at::Tensor expected = tensor(key).permute({0, 3, 1, 2});
      Json public_paths = options;
      public_paths["paths"] = "public";
      const at::Tensor ours = all_scores(layer(public_paths, nodes));
      EXPECT_LT(noted("ape_tree", file, "f64", relative_error(ours, expected)), 1e-12)
          << file << " " << key;
      // The true paths count from a root of 1: there the same tree has numbers one higher.
      EXPECT_TRUE(all_scores(layer(options, nodes + 1)).equal(ours)) << file << " " << key;
    }
    // Other matrices than those of the nodes' own numbers.
    EXPECT_GT(relative_error(all_scores(layer({{"decay", 1.0}}, nodes)),
                             tensor("scores_no_decay_f64").permute({0, 3, 1, 2})),
              0.1);
  }
}

// Numbers of a tree's nodes in the order of a walk down, level by level as the other numbering has
// them.
void walk(std::int64_t node, std::int64_t levels, std::int64_t branches,
          std::vector<std::int64_t>& order) {
  if (levels == 0) return;
  order.push_back(node);
  for (std::int64_t b = 0; b < branches; ++b) {
    walk(branches * (node - 1) + 2 + b, levels - 1, branches, order);
  }
}

TEST(ApeTree, BothNumberingsNameTheSameNodes) {
  for (const std::int64_t branches : {1, 2, 3}) {
    const std::int64_t levels = 4;
    std::vector<std::int64_t> order;
    walk(1, levels, branches, order);
    const auto count = static_cast<std::int64_t>(order.size());
    const Json by_level = {{"branches", branches}};
    const Json by_subtree = {
        {"branches", branches}, {"numbering", "depth_first"}, {"levels", levels}};
    const auto model = random_model(tiny_config("ape_tree", by_level), 3, at::kDouble);
    const auto other =
        model_of(tiny_config("ape_tree", by_subtree), model->decoder.weights(), "by subtree");
    const at::NoGradGuard no_grad;
    const at::Tensor ids = random_ids(1, count, model->config().vocab_size);
    const at::Tensor walked = at::tensor(order, at::kLong);
    EXPECT_TRUE(other->decoder.forward(ids, {.position_ids = at::arange(1, count + 1, at::kLong)})
                    .equal(model->decoder.forward(ids, {.position_ids = walked})))
        << branches;
    // One node too many.
    EXPECT_THROW(other->decoder.forward(ids, {.position_ids = at::arange(2, count + 2, at::kLong)}),
                 formats::Error);
  }
}

TEST(ApeTree, ScoresReadThePathBetweenTwoNodes) {
  // M_5^T M_4 with M_4 = W_0^T W_0^T (left, left) and M_5 = W_0^T W_1^T (left, right): what lies
  // above their ancestor cancels.
  const at::Tensor q = at::randn({1, 4, 6}, at::kDouble), k = at::randn({1, 4, 6}, at::kDouble);
  const at::Tensor a = at::randn({2, 6, 6}, at::kDouble);
  const at::Tensor w = at::linalg_matrix_exp(a - a.transpose(1, 2));
  const ModelConfig config = layer_config("ape_tree", {{"decay", 0.5}}, 1, 6);
  const Layer layer = layer_of(config, {}, q, k, q, at::kDouble, {{"generator", a}},
                               at::tensor({1, 4, 5, 10}, at::kLong));
  const at::Tensor scores = all_scores(layer)[0][0];
  const auto score = [&](std::int64_t i, std::int64_t j, const at::Tensor& path, int steps) {
    return at::matmul(q[0][i], at::matmul(path, k[0][j])).item<double>() * std::pow(0.5, steps) /
           std::sqrt(6.0);
  };
  EXPECT_NEAR(scores[2][1].item<double>(), score(2, 1, at::matmul(w[1], w[0].t()), 2), 1e-13);
  EXPECT_NEAR(scores[1][0].item<double>(), score(1, 0, at::matmul(w[0], w[0]), 2), 1e-13);
  // 10 is the left child of 5.
  EXPECT_NEAR(scores[3][2].item<double>(), score(3, 2, w[0], 1), 1e-13);
  EXPECT_NEAR(scores[3][1].item<double>(),
              score(3, 1, at::matmul(w[0], at::matmul(w[1], w[0].t())), 3), 1e-13);
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
