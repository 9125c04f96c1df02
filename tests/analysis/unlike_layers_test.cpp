// Models whose layers differ: in the rope that they turn by, in having maps at all, in their heads.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "analysis/ablate.h"
#include "analysis/bias_rows.h"
#include "analysis/distance.h"
#include "analysis/intrinsic_bias.h"
#include "analysis/patterns.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/xray.h"
#include "analysis/theory/check.h"
#include "analysis/theory/equality.h"
#include "formats/error.h"
#include "model/positions.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::passes_for;

// Layer 0 turns nothing, layer 2 by another base than layers 1 and 3.
testing::ModelPointer model_of_ropes() {
  model::ModelConfig config = testing::small_config("rope");
  config.layers = 4;
  config.layer_groups = {
      {.layers = {0}, .encoding = model::EncodingConfig{"none", {}}},
      {.layers = {2}, .encoding = model::EncodingConfig{"rope", {{"base", 100}}}}};
  return model::random_model(config, 3);
}

// Layer 0 has a state in place of attention, layer 1 three heads, layer 2 two.
testing::ModelPointer model_of_few_heads() {
  model::ModelConfig config = testing::small_config("rope");
  config.layers = 3, config.heads = config.kv_heads = 3;
  config.linear = {.layers = {0}, .key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4};
  config.layer_groups = {{.layers = {2}, .heads = 2, .kv_heads = 2}};
  return model::random_model(config, 3);
}

// Layer 1 turns by a rope of its own, and what the others update is not its state.
testing::ModelPointer tape_beside_rope() {
  model::ModelConfig config = testing::small_config("tape");
  config.layers = 3;
  config.layer_groups = {
      {.layers = {1}, .encoding = model::EncodingConfig{"rope", {{"base", 100}}}}};
  model::Weights weights = model::random_model(config, 3)->decoder.weights();
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  for (model::LayerWeights& layer : weights.layers) {
    for (auto& [name, tensor] : layer.encoding) {
      tensor = at::randn(tensor.sizes(), generator, tensor.options()) / 4;
    }
  }
  return model::model_of(config, std::move(weights), "tape beside rope");
}

TEST(UnlikeLayers, OnlyAStateThatIsUpdatedDrifts) {
  protocol::NoProgress nobody;
  const auto out = analyse_patterns(passes_for(tape_beside_rope(), 1, 24), {}, nobody);
  std::set<std::int64_t> layers;
  for (const protocol::PatternsLayer& layer : out.result.layers) {
    layers.insert(layer.layer);
    EXPECT_EQ(layer.drift > 1e-3, layer.layer >= 2) << layer.layer;
  }
  EXPECT_EQ(layers, (std::set<std::int64_t>{0, 1, 2, 3}));
}

// Places that are drawn for each layer are other places, not a state that has moved.
TEST(UnlikeLayers, AnotherDrawIsNoDrift) {
  protocol::NoProgress nobody;
  model::ModelConfig encoding = testing::small_config("randomized_rope");
  encoding.layers = 3;
  encoding.encoding.options = {{"draw", "layer"}};
  model::ModelConfig map = testing::small_config("rope");
  map.layers = 3;
  map.positions.map = "random_by_layer", map.positions.draw = "always";
  for (const model::ModelConfig& config : {encoding, map}) {
    const auto passes = passes_for(model::random_model(config, 3), 1, 24);
    const auto out = analyse_patterns(passes, {}, nobody);
    ASSERT_EQ(out.result.layers.size(), 3u) << config.encoding.key;
    for (std::int64_t n = 0; n < 3; ++n) {
      const protocol::PatternsLayer& layer = out.result.layers[static_cast<std::size_t>(n)];
      EXPECT_EQ(layer.layer, n);
      EXPECT_EQ(layer.drift, 0) << config.encoding.key;
    }
    EXPECT_NE(out.result.provenance.note.find("their own draw"), std::string::npos);
    // Of layer n the draw of seed 1 + n, from 0 to twice the context; float32 angles of some 100
    // radians are off by 1e-5.
    passes[0]->visit_positions([](std::int64_t index, const model::PositionState& state) {
      if (index == 3) return;
      const at::Tensor ids =
          model::drawn_positions(24, 128, 1 + static_cast<std::uint64_t>(index)).to(at::kDouble);
      const at::Tensor fastest = state.z[0][0].select(-1, 0).to(at::kDouble);  // (N, 2)
      const at::Tensor expected = at::stack({ids.cos(), ids.sin()}, 1);
      EXPECT_LT((fastest - expected).abs().max().item<double>(), 1e-4) << index;
    });
  }
  const auto fixed =
      analyse_patterns(passes_for(testing::small_model("randomized_rope"), 1, 24), {}, nobody);
  EXPECT_EQ(fixed.result.layers.size(), 1u);
  EXPECT_EQ(fixed.result.provenance.note, "");
}

TEST(UnlikeLayers, FrequenciesSayWhoseTheyAre) {
  protocol::NoProgress nobody;
  const auto out = analyse_patterns(passes_for(model_of_ropes(), 1, 24), {}, nobody);
  ASSERT_EQ(out.result.frequencies.size(), 4u);
  EXPECT_NEAR(out.result.frequencies[1], 0.1, 1e-12);  // 10000^(-1/4)
  const std::string& note = out.result.provenance.note;
  EXPECT_NE(note.find("those of layers 1, 3"), std::string::npos) << note;
  EXPECT_NE(note.find("layer 0: nothing turns"), std::string::npos) << note;
  EXPECT_NE(note.find("layer 2: 4 planes of 1 to 0.0316"), std::string::npos) << note;
  const auto alike = analyse_patterns(passes_for(testing::small_model("rope"), 1, 24), {}, nobody);
  EXPECT_EQ(alike.result.provenance.note, "");
}

// Layers that turn nothing, or otherwise, have no bias of the model's angles.
TEST(UnlikeLayers, TheIntrinsicBiasIsOfTheLayersThatTurnByIt) {
  protocol::NoProgress nobody;
  DistanceOptions options;
  options.histogram = false;
  const auto passes = passes_for(model_of_ropes(), 1, 24);
  const auto out = analyse_distance(passes, options, nobody, nullptr);
  EXPECT_NE(out.note.find("layers 0, 2 is left out"), std::string::npos) << out.note;
  ASSERT_EQ(out.intrinsic.size(), 4u);
  for (const protocol::IntrinsicBias& bias : out.intrinsic) {
    EXPECT_TRUE(bias.layer == 1 || bias.layer == 3) << bias.layer;
    // At distance 0 nothing turns, and means over all pairs of q.k / sqrt(d) are left.
    const AttentionPointer attention = passes[0]->layer(bias.layer);
    const at::Tensor q = attention->q()[0][bias.head].to(at::kDouble);
    const at::Tensor k = attention->k()[0][bias.head].to(at::kDouble);
    const double sum = at::matmul(q, k.t()).tril().sum().item<double>() / std::sqrt(8.0);
    // Rotations have the gain that float32 gives: cos^2 + sin^2 is 1 within two units of 2^-24.
    const double expected = sum / (24 * 25 / 2);
    EXPECT_NEAR(bias.per_plane.at(0), expected, std::abs(expected) * 2 / (1 << 24));
  }
  ASSERT_EQ(out.head_bias.size(), 1u);
  EXPECT_EQ(out.head_bias[0].layer, 3);  // the next one from the middle, layer 2, on
  EXPECT_FALSE(rotation_of_all(*passes[0]).has_value());
  EXPECT_TRUE(rotation_of_all(*passes_for(testing::small_model("rope"), 1)[0]).has_value());
}

TEST(UnlikeLayers, TheStatesOfAKeptPassStandAtTheirLayers) {
  const auto pass = passes_for(model_of_ropes(), 1)[0];
  const auto indices = [&pass] {
    std::vector<std::int64_t> all;
    pass->visit_positions(
        [&all](std::int64_t index, const model::PositionState&) { all.push_back(index); });
    return all;
  };
  EXPECT_EQ(indices(), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(indices(), (std::vector<std::int64_t>{1, 2, 3, 4}));  // of what was kept
}

TEST(UnlikeLayers, TablesAreThoseOfTheLayersEncoding) {
  model::ModelConfig config = testing::small_config("alibi");
  config.layers = 3;
  config.linear = {.layers = {2}, .key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4};
  config.layer_groups = {{.layers = {1}, .encoding = model::EncodingConfig{"none", {}}}};
  const auto model = model::random_model(config, 3);
  EXPECT_TRUE(table_of_layer(*model, 0, 8).defined());
  EXPECT_FALSE(table_of_layer(*model, 1, 8).defined());
  EXPECT_FALSE(table_of_layer(*model, 2, 8).defined());
}

// Of layer 1, which turns by powers of 10, past 8 tokens: weights by hand from its map.
TEST(UnlikeLayers, UnseenPhasesAreOfTheLayersOwnRope) {
  model::ModelConfig config = testing::small_config("rope");
  config.context = 8;
  config.layer_groups = {
      {.layers = {1}, .encoding = model::EncodingConfig{"rope", {{"base", 10}}}}};
  const auto model = model::random_model(config, 3, at::kDouble);
  const Texts texts = random_texts(1, 20, 32, 1);
  protocol::NoProgress nobody;
  const auto result = analyse_xray(model, texts, {}, nobody);
  TextPass pass(model, ids_tensor(texts.items[0].ids));
  const at::Tensor weights = testing::weights_of(pass, 1)[0];
  ASSERT_EQ(result.unseen.size(), 4u);
  const std::vector<double>& planes = result.unseen[2].planes;
  ASSERT_EQ(planes.size(), 4u);
  for (std::size_t m = 0; m < planes.size(); ++m) {
    const auto unseen = unseen_phases(std::pow(10.0, -static_cast<double>(m) / 4), 8, 19);
    double sum = 0;
    for (std::int64_t i = 8; i < 19; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        if (unseen[static_cast<std::size_t>(i - j)]) sum += weights[i][j].item<double>() / 11;
      }
    }
    EXPECT_NEAR(planes[m], sum, 1e-12) << m;
  }
}

TEST(UnlikeLayers, AblationIsOfTheHeadsThatThereAre) {
  protocol::NoProgress nobody;
  const auto model = model_of_few_heads();
  const Texts texts = random_texts(2, 24, 32, 9);
  AblateOptions options;
  options.maps = "yes";
  const auto result = analyse_ablate(model, texts, options, nobody).result;
  ASSERT_EQ(result.rows.size(), 5u);
  for (const protocol::AblateRow& row : result.rows) {
    EXPECT_TRUE(row.layer == 1 || (row.layer == 2 && row.head < 2)) << row.change;
    EXPECT_NE(row.loss_change.mean, 0) << row.change;
    ASSERT_EQ(row.maps.size(), 5u);
    EXPECT_EQ(row.maps.back().layer, 2);
    EXPECT_EQ(row.maps.back().head, 1);
  }
  for (const char* words : {"L0", "L0H1", "L2H2"}) {
    options.heads = {words};
    EXPECT_THROW(analyse_ablate(model, texts, options, nobody), formats::Error) << words;
  }
}

// Of all heads at once, whose setting names each: a layer may have fewer than "all" are.
TEST(UnlikeLayers, MeanOutputsAreOfTheHeadsThatThereAre) {
  protocol::NoProgress nobody;
  AblateOptions options;
  options.heads = {"all"}, options.how = "mean", options.maps = "no";
  const Texts texts = random_texts(2, 24, 32, 9);
  const auto out = analyse_ablate(model_of_few_heads(), texts, options, nobody);
  ASSERT_EQ(out.result.rows.size(), 1u);
  EXPECT_TRUE(std::isfinite(out.result.rows[0].loss_change.mean));
  EXPECT_NE(out.result.rows[0].reading.find("L2H1:mean"), std::string::npos);
  EXPECT_EQ(out.result.rows[0].reading.find("all:mean"), std::string::npos);
  ASSERT_EQ(out.tensors.size(), 1u);
  EXPECT_EQ(out.tensors[0].shape, (std::vector<std::int64_t>{3, 3, 8}));
  const auto means = out.tensors[0].values<float>();
  for (std::size_t n = 0; n < means.size(); ++n) {
    const std::size_t head = n / 8;  // of all layers
    EXPECT_EQ(means[n] != 0, head >= 3 && head < 8) << n;
    EXPECT_TRUE(std::isfinite(means[n])) << n;
  }
}

TEST(UnlikeLayers, MeanOutputsOfSeveralWidthsAreRefused) {
  model::ModelConfig config = testing::small_config("rope");
  config.layer_groups = {{.layers = {1}, .head_dim = 4}};
  protocol::NoProgress nobody;
  AblateOptions options;
  options.how = "mean", options.maps = "no";
  try {
    analyse_ablate(model::random_model(config, 3), random_texts(1, 24, 32, 9), options, nobody);
    ADD_FAILURE() << "was not refused";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "not_applicable");
  }
}

TEST(UnlikeLayers, ATokenWithoutALogitHasNoLoss) {
  model::ModelConfig config = testing::small_config("rope");
  config.head.rows = 20;
  const auto model = model::random_model(config, 3);
  Texts texts = random_texts(1, 24, 20, 9);
  protocol::NoProgress nobody;
  texts.items[0].ids[0] = 31;  // nothing predicts it
  EXPECT_TRUE(std::isfinite(analyse_demand(model, texts, {}, nobody).result.loss.mean));
  texts.items[0].ids[5] = 20;
  try {
    analyse_demand(model, texts, {}, nobody);
    ADD_FAILURE() << "was not refused";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "bad_input");
    EXPECT_NE(error.message().find("beyond the 20 that have a logit"), std::string::npos);
  }
}

// ---- checks of the theory ----

// Layer 0 has experts alone, layer 1 an MLP alone.
testing::ModelPointer model_of_experts() {
  model::ModelConfig config = testing::small_config("rope");
  config.experts.count = 4, config.experts.per_token = 2, config.experts.width = 6;
  config.experts.shared_width = 5;
  config.experts.layers = {0};
  return model::random_model(config, 3);
}

// Values are made of what keys are made of.
testing::ModelPointer latent_model() {
  model::ModelConfig config = testing::small_config("rope");
  config.head_dim = 10;
  config.attention.kv_rank = 7, config.attention.position_dim = 4, config.attention.value_dim = 6;
  config.encoding.options["partial_rotary_factor"] = 0.4;
  return model::random_model(config, 3);
}

testing::ModelPointer two_stacks() {
  model::ModelConfig config = testing::small_config("t5");
  config.encoder_layers = 2;
  return model::random_model(config, 3);
}

CheckResult checked(const std::string& id, const testing::ModelPointer& model) {
  const Texts texts = random_texts(1, 24, model->config().vocab_size, 11);
  protocol::NoProgress nobody;
  CheckContext context;
  context.model = model, context.texts = &texts, context.progress = &nobody;
  return run_check(select_checks({id}).at(0), context);
}

// Experts' units, too, are summed in another order, which changes nothing but roundings.
TEST(UnlikeLayers, AnotherOrderOfSumsIsTheSameFunction) {
  const at::NoGradGuard no_gradients;
  const auto model = model::in_dtype(model_of_experts(), at::kDouble);
  const auto other = reordered(model, 5);
  for (const char* what : {"experts", "shared expert", "MLP"}) {
    const auto units = [&](const testing::ModelPointer& of) {
      const std::vector<model::LayerWeights>& layers = of->decoder.weights().layers;
      return what[0] == 'e'   ? layers[0].experts[1].up
             : what[0] == 's' ? layers[0].shared_expert.up
                              : layers[1].up;
    };
    EXPECT_FALSE(at::equal(units(model), units(other))) << what;
  }
  const at::Tensor ids = ids_tensor(random_texts(1, 24, 32, 11).items[0].ids);
  const at::Tensor got = model->decoder.forward(ids), again = other->decoder.forward(ids);
  // Sums of a few dozen float64 terms.
  EXPECT_LE(relative_difference(again, got), 1e-13);
}

TEST(UnlikeLayers, ChecksReadModelsWithExperts) {
  const auto model = model_of_experts();
  EXPECT_LE(checked("tape.permutation", model).value.value_or(1), 1e-10);
  EXPECT_LE(checked("tape.shift", model).value.value_or(1), 1e-7);  // 64 s 2^-53 at a shift of 10^6
  EXPECT_EQ(checked("ape.no_order", model).verdict, "premise_not_met");  // it is rope
}

// With W_V (or W_O) and what the MLP ends with at 0 nothing is added to any stream, bit for bit.
TEST(UnlikeLayers, ALayerThatChangesNothingHasExpertsAndStatesToo) {
  for (const testing::ModelPointer& model :
       {model_of_experts(), latent_model(), model_of_few_heads()}) {
    const CheckResult got = checked("tape.identity_layer", model);
    EXPECT_EQ(got.verdict, "holds") << got.detail;
    EXPECT_EQ(got.value.value_or(1), 0) << got.detail;
  }
}

// What keeps a statement from being one about a model is named as it is.
TEST(UnlikeLayers, PremisesThatAreNotMetAreNamed) {
  const auto expect_premise = [](const char* id, const testing::ModelPointer& model,
                                 const char* words) {
    const CheckResult got = checked(id, model);
    EXPECT_EQ(got.verdict, "premise_not_met") << id << ": " << got.detail;
    EXPECT_NE(got.detail.find(words), std::string::npos) << id << ": " << got.detail;
  };
  // A state is fed in the order that tokens have in memory.
  expect_premise("tape.permutation", model_of_few_heads(), "a state that reads them");
  expect_premise("tape.permutation", two_stacks(), "a decoder reads an encoder's");
  expect_premise("tape.identity_layer", two_stacks(), "a third one reads an encoder");
  expect_premise("rope.intrinsic_bias", testing::small_model("tape"),
                 "layers update the positions");
}

// No scaling stretches sines that are stored: the identity that tries one has no verdict.
TEST(UnlikeLayers, StoredSinesHaveNoScalingToTry) {
  model::ModelConfig config = testing::small_config("rope");
  config.encoding.options = {{"table_rows", 64}};
  const CheckResult got = checked("rope.effective_context", model::random_model(config, 3));
  EXPECT_EQ(got.verdict, "undecided") << got.detail;
}

}  // namespace
}  // namespace phasescope::analysis
