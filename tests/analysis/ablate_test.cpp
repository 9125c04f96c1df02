// What is changed in heads: known answers on constructed models, the readings against the
// definition on explicit maps, and what `ablate` tells against losses computed here.
#include "analysis/ablate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "analysis/intervals/intervals.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "model/attention/repairs.h"
#include "model/checkpoints/tensor_io.h"
#include "model/loss.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::ModelPointer;
using testing::passes_for;
using testing::small_model;
using testing::weights_of;

// Some hundred roundings of float64 sums of order 1.
constexpr double kRounding = 1e-11;

Texts texts_of_eight(std::int64_t count, std::int64_t tokens) {
  Texts texts;
  for (std::int64_t t = 0; t < count; ++t) {
    Text text{"period " + std::to_string(t), "", {}, {}};
    for (std::int64_t n = 0; n < tokens + t; ++n) text.ids.push_back(10 + t + (n % 8) * 23);
    texts.items.push_back(std::move(text));
  }
  texts.corpus = count > 1;
  return texts;
}

AblateOutput ablated_by(const ModelPointer& model, const Texts& texts, AblateOptions options) {
  protocol::NoProgress progress;
  return analyse_ablate(model, texts, options, progress);
}

// The head outputs of proof-copy7's head 0 by its definition, (N, 256): the mean one-hot of the
// keys under weights e^6 at distance 7 and 1 elsewhere.
at::Tensor copied(const std::vector<std::int64_t>& ids) {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  at::Tensor out = at::zeros({tokens, 256}, at::kDouble);
  for (std::int64_t i = 0; i < tokens; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) sum += i - j == 7 ? std::exp(6.0) : 1;
    for (std::int64_t j = 0; j <= i; ++j) {
      out[i][ids[static_cast<std::size_t>(j)]] += (i - j == 7 ? std::exp(6.0) : 1) / sum;
    }
  }
  return out;
}

// The losses of proof-copy7 where its head 0 gives `out`: logits are half of what the final norm
// leaves of it beside a token's row of squared length 2, of 520 channels.
double loss_sum(const at::Tensor& out, const std::vector<std::int64_t>& ids, double eps) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const at::Tensor row = out[static_cast<std::int64_t>(i)];
    const double length = 2 + row.square().sum().item<double>();
    const at::Tensor logits = 0.5 * row / std::sqrt(length / 520 + eps);
    sum += (at::logsumexp(logits, 0) - logits[ids[i + 1]]).item<double>();
  }
  return sum;
}

TEST(Ablate, CopyingHeadIsTheWholeModel) {
  const auto model = model::open_model("proof-copy7", {.dtype = at::kDouble});
  const Texts texts = texts_of_eight(3, 60);
  const auto result = ablated_by(model, texts, {}).result;
  ASSERT_EQ(result.rows.size(), 2u);
  // Without head 0 all logits are 0; head 1 writes nothing.
  EXPECT_NEAR(result.rows[0].loss.mean, std::log(256.0), kRounding);
  EXPECT_NEAR(result.rows[0].loss_change.mean, std::log(256.0) - result.loss.mean, kRounding);
  EXPECT_EQ(result.rows[1].loss_change.mean, 0);
  EXPECT_EQ(result.rows[1].logits_divergence.mean, 0);
  EXPECT_EQ(result.rows[1].guesses_changed.mean, 0);
  double sum = 0, rows = 0;
  for (const Text& text : texts.items) {
    sum += loss_sum(copied(text.ids), text.ids, model->config().norm_eps);
    rows += static_cast<double>(text.ids.size()) - 1;
  }
  // Weights are float32 numbers, also in float64.
  EXPECT_NEAR(result.loss.mean, sum / rows, 1e-5);
  EXPECT_EQ(result.loss.n, 3);
  EXPECT_EQ(result.rows[0].loss_change.method, "jackknife t");
}

TEST(Ablate, MeansAreThoseOfAllRows) {
  const auto model = model::open_model("proof-copy7", {.dtype = at::kDouble});
  const Texts texts = texts_of_eight(2, 50);
  const auto out = ablated_by(model, texts, {.heads = {"L0H0"}, .how = "mean"});
  std::vector<at::Tensor> outputs;
  for (const Text& text : texts.items) outputs.push_back(copied(text.ids));
  const at::Tensor mean = at::cat(outputs).mean(0, true);
  double sum = 0, rows = 0;
  for (const Text& text : texts.items) {
    const auto count = static_cast<std::int64_t>(text.ids.size());
    sum += loss_sum(mean.expand({count, -1}), text.ids, model->config().norm_eps);
    rows += static_cast<double>(count) - 1;
  }
  EXPECT_NEAR(out.result.rows[0].loss.mean, sum / rows, 1e-5);
  const auto* stored = protocol::find_tensor(out.tensors, "mean");
  ASSERT_NE(stored, nullptr);
  EXPECT_EQ(stored->shape, (std::vector<std::int64_t>{1, 2, 256}));
  const auto values = stored->values<float>();
  for (std::int64_t c = 0; c < 256; ++c) {
    EXPECT_NEAR(values[static_cast<std::size_t>(c)], mean[0][c].item<double>(), 1e-6);
  }
}

// The file that `ablate` gives, named in a reading, is the same ablation.
TEST(Ablate, MeansOpenAsAReading) {
  const auto model = model::open_model("proof-copy7", {.dtype = at::kDouble});
  const Texts texts = texts_of_eight(2, 50);
  const auto out = ablated_by(model, texts, {.heads = {"L0H0"}, .how = "mean"});
  EXPECT_EQ(out.result.rows[0].reading,
            "proof-copy7 (head_ablations=L0H0:mean, ablation_means=FILE.safetensors)");
  const auto file = std::filesystem::path(::testing::TempDir()) / "means.safetensors";
  const auto values = out.tensors[0].values<float>();
  const at::Tensor mean =
      at::tensor(std::vector<float>(values.begin(), values.end())).view({1, 2, 256});
  model::write_tensors(formats::real_file_system(), file, {{"mean", mean}});
  const auto reading = model::with_overrides(model, {{"encoding.head_ablations", "L0H0:mean"},
                                                     {"encoding.ablation_means", file.string()}});
  const auto again = ablated_by(reading, texts, {.heads = {"L0H1"}}).result;
  EXPECT_EQ(again.loss.mean, out.result.rows[0].loss.mean);
  const auto without = model::with_overrides(model, {{"encoding.head_ablations", "L0H0:mean"}});
  EXPECT_THROW(passes_for(without, 1, 8)[0]->run(), formats::Error);
}

TEST(Ablate, DrawnRowsAreEarlierOnesAndUniform) {
  constexpr std::int64_t rows = 4000;
  // Row i of head h says i.
  const at::Tensor out =
      at::arange(rows, at::kDouble).view({1, 1, rows, 1}).expand({1, 2, rows, 1}).contiguous();
  model::Repairs repairs;
  repairs.ablations = {{3, 1, model::Repairs::How::resample}};
  const at::Tensor drawn = model::ablated(repairs, 3, out);
  EXPECT_TRUE(model::ablated(repairs, 2, out).is_same(out));
  EXPECT_TRUE(drawn.select(1, 0).equal(out.select(1, 0)));
  const at::Tensor from = drawn.select(1, 1).flatten(), to = at::arange(rows, at::kDouble);
  EXPECT_TRUE((from <= to).all().item<bool>());
  // Mean of `rows` uniform numbers: a standard deviation of 0.289 / sqrt(rows); five of them.
  const at::Tensor share = (from + 0.5) / (to + 1);
  EXPECT_NEAR(share.mean().item<double>(), 0.5, 5 * 0.289 / std::sqrt(double(rows)));
  EXPECT_NEAR(share.square().mean().item<double>(), 1.0 / 3, 0.025);
  // The beginning of a longer text is what a shorter one has.
  const at::Tensor brief = model::ablated(repairs, 3, out.slice(2, 0, 100));
  EXPECT_TRUE(brief.equal(drawn.slice(2, 0, 100)));
  repairs.seed = 1;
  EXPECT_FALSE(model::ablated(repairs, 3, out).equal(drawn));
}

// ---- readings -----------------------------------------------------------------------------------

TEST(SinkCap, OfAHeadWithAKnownSink) {
  const auto model = model::open_model("proof-sink", {.dtype = at::kDouble});
  const auto capped = model::with_overrides(model, {{"encoding.head_sink_caps", "L0H0:0.1"}});
  constexpr std::int64_t tokens = 64;
  std::vector<std::int64_t> ids{0};
  while (ids.size() < tokens) ids.push_back(3 + static_cast<std::int64_t>(ids.size()));
  TextPass pass(capped, ids_tensor(ids));
  const at::Tensor weights = weights_of(pass, 0);
  for (std::int64_t i = 1; i < tokens; ++i) {
    const double sink = std::exp(4.0) / (std::exp(4.0) + static_cast<double>(i));
    const double first = std::min(sink, 0.1), other = (1 - first) / static_cast<double>(i);
    // The constructed score is 4 to float32's rounding.
    EXPECT_NEAR(weights[0][i][0].item<double>(), first, 1e-6) << i;
    EXPECT_NEAR(weights[0][i][i].item<double>(), other, 1e-6) << i;
    EXPECT_NEAR(weights[1][i][0].item<double>(), 1.0 / static_cast<double>(i + 1), 1e-12);
  }
  EXPECT_EQ(weights[0][0][0].item<double>(), 1);  // it sees nothing else
}

std::vector<std::string> encodings_read() {
  std::vector<std::string> keys;
  for (const char* key :
       {"none", "rope", "xpos", "alibi", "t5", "kerple_log", "kerple_power", "fire", "cope", "shaw",
        "transformer_xl", "cape", "tape", "tapa", "learned"}) {
    keys.emplace_back(key);
  }
  return keys;
}

// min(w, c), the rest of a row in its proportions; the first layer's, whose input is the same.
TEST(SinkCap, OfEveryEncodingIsWhatItSays) {
  for (const std::string& key : encodings_read()) {
    const auto model = model::in_dtype(small_model(key), at::kDouble);
    const auto capped = model::with_overrides(model, {{"encoding.head_sink_caps", "L0:0.05"}});
    const at::Tensor before = weights_of(*passes_for(model, 1, 30)[0], 0);
    const at::Tensor after = weights_of(*passes_for(capped, 1, 30)[0], 0);
    const at::Tensor first = before.select(2, 0), bound = first.clamp_max(0.05);
    at::Tensor expected = before * ((1 - bound) / (1 - first)).unsqueeze(2);
    expected.select(2, 0).copy_(bound);
    // Row 0 has one key. Float64, and 1 - w_0 of no less than 1e-4.
    EXPECT_LT((after - expected).slice(1, 1).abs().max().item<double>(), 1e-11) << key;
    EXPECT_NEAR(after.select(1, 0).select(1, 0).min().item<double>(), 1, 1e-12) << key;
    EXPECT_GT((after - before).abs().max().item<double>(), 1e-3) << key;
  }
}

TEST(SinkCap, FusedAndPlainAgree) {
  const auto model =
      model::with_overrides(small_model("alibi"), {{"encoding.head_sink_caps", "all:0.05"}});
  const at::Tensor ids = ids_tensor(random_texts(1, 30, 32, 5).items[0].ids);
  const auto logits = [&](model::Backend backend) {
    const at::NoGradGuard no_gradients;
    model::ForwardOptions options;
    options.backend = backend;
    return model->decoder.forward(ids, options);
  };
  const at::Tensor plain = logits(model::Backend::plain);
  EXPECT_LT((logits(model::Backend::fused) - plain).abs().max().item<double>(), 1e-5);
}

// Of all that the bound is made of: a step of h along a direction is off by h^2 of the third
// derivative, and by two losses' roundings over 2 h.
TEST(SinkCap, HasGradients) {
  const auto model = model::with_overrides(model::in_dtype(small_model("alibi"), at::kDouble),
                                           {{"encoding.head_sink_caps", "all:0.03"}});
  const at::Tensor ids = ids_tensor(random_texts(1, 30, 32, 5).items[0].ids);
  const auto loss_at = [&](const at::Tensor& embedding) {
    model::Weights weights = model->decoder.weights();
    weights.embedding = embedding;
    return model::token_losses(model::model_of(model->config(), weights, "moved")->decoder, ids)
        .sum();
  };
  const at::Tensor own = model->decoder.weights().embedding.clone().requires_grad_(true);
  const at::Tensor loss = loss_at(own);
  loss.backward();
  const at::NoGradGuard no_gradients;
  const at::Tensor direction = at::linspace(0, 40, own.numel(), at::kDouble).sin().view_as(own);
  const double expected = (own.grad() * direction).sum().item<double>();
  const double step = 1e-5;
  const double measured =
      (loss_at(own + step * direction) - loss_at(own - step * direction)).item<double>() /
      (2 * step);
  EXPECT_GT(std::abs(expected), 1e-3);
  EXPECT_NEAR(measured, expected, 1e-6 * std::max(1.0, std::abs(expected)));
}

// content + factor (score - content), of each encoding that adds something.
TEST(BiasScale, MultipliesWhatIsAdded) {
  for (const std::string key : {"alibi", "t5", "kerple_log", "kerple_power", "fire", "shaw"}) {
    const auto model = small_model(key);
    const auto scaled = model::with_overrides(model, {{"encoding.head_bias_scales", "L0H1:-2.5"}});
    const auto parts = [](const ModelPointer& of) {
      const auto attention = passes_for(of, 1, 30)[0]->layer(0);
      return attention->scores(attention->whole());
    };
    const auto before = parts(model), after = parts(scaled);
    const at::Tensor seen = at::ones({30, 30}, at::kBool).tril();
    const at::Tensor added = before.score - before.content;
    for (const std::int64_t head : {0, 1}) {
      const double factor = head == 1 ? -2.5 : 1;
      const at::Tensor expected = before.content[0][head] + factor * added[0][head];
      const at::Tensor off = (after.score[0][head] - expected).masked_select(seen).abs();
      EXPECT_LT(off.max().item<double>(), 1e-4) << key << head;
    }
  }
  for (const char* key : {"rope", "tapa", "none"}) {
    const auto scaled =
        model::with_overrides(small_model(key), {{"encoding.head_bias_scales", "all:2"}});
    EXPECT_THROW(passes_for(scaled, 1, 8)[0]->run(), formats::Error) << key;
  }
}

at::Tensor losses_of(const ModelPointer& model, const std::vector<std::int64_t>& ids) {
  const at::NoGradGuard no_gradients;
  return model::token_losses(model->decoder, ids_tensor(ids))[0].to(at::kDouble);
}

TEST(Readings, LayersAndAllStandForTheirHeads) {
  const auto ids = random_texts(1, 30, 32, 5).items[0].ids;
  for (const char* option : {"head_windows", "head_clamps", "head_sink_caps", "head_ablations"}) {
    const std::string name = std::string("encoding.") + option;
    const std::string value = name.ends_with("caps")     ? "0.1"
                              : name.ends_with("ations") ? "zero"
                                                         : "4";
    const auto read = [&](std::vector<std::string> heads) {
      std::string list;
      for (const std::string& head : heads) list += (list.empty() ? "" : " ") + head + ":" + value;
      return losses_of(model::with_overrides(small_model("rope"), {{name, list}}), ids);
    };
    const at::Tensor all = read({"all"}), layer = read({"L1"});
    EXPECT_TRUE(all.equal(read({"L0H0", "L0H1", "L1H0", "L1H1"}))) << option;
    EXPECT_TRUE(layer.equal(read({"L1H0", "L1H1"}))) << option;
    EXPECT_FALSE(all.equal(layer)) << option;
    EXPECT_FALSE(all.equal(losses_of(small_model("rope"), ids))) << option;
  }
}

TEST(Readings, BadListsAreRefused) {
  const auto model = small_model("rope");
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"head_windows", "L0H7:4"},   {"head_windows", "L9:4"},        {"head_windows", "L0H0:0"},
      {"head_sink_caps", "all:2"},  {"head_ablations", "L0H0:half"}, {"head_ablations", "H0:zero"},
      {"head_bias_scales", "all:x"}};
  for (const auto& [key, value] : bad) {
    EXPECT_THROW(model::with_overrides(model, {{"encoding." + key, value}}), formats::Error) << key;
  }
}

// ---- what is told -------------------------------------------------------------------------------

TEST(Ablate, NumbersAreThoseOfTheReadings) {
  const auto model = small_model("rope");
  const Texts texts = random_texts(4, 40, 32, 3);
  const auto result = ablated_by(model, texts, {.how = "resample", .seed = 7}).result;
  ASSERT_EQ(result.rows.size(), 4u);
  EXPECT_EQ(result.passes, 4 * 5);
  EXPECT_EQ(result.rows[2].change, "L1H0 resample");
  const auto reading = model::with_overrides(
      model, {{"encoding.head_ablations", "L1H0:resample"}, {"encoding.ablation_seed", "7"}});
  EXPECT_TRUE(result.rows[2].reading.ends_with(" (head_ablations=L1H0:resample, ablation_seed=7)"))
      << result.rows[2].reading;
  std::vector<Part> parts, first_block, divergence, differs;
  for (const Text& text : texts.items) {
    const at::Tensor change = losses_of(reading, text.ids) - losses_of(model, text.ids);
    parts.push_back({change.sum().item<double>(), 39});
    first_block.push_back({change.slice(0, 0, 2).sum().item<double>(), 2});
    const at::NoGradGuard no_gradients;
    const at::Tensor p = model->decoder.forward(ids_tensor(text.ids))[0].to(at::kDouble);
    const at::Tensor q = reading->decoder.forward(ids_tensor(text.ids))[0].to(at::kDouble);
    const at::Tensor weight = p.softmax(-1);
    divergence.push_back(
        {(weight * (weight.log() - q.softmax(-1).log())).sum().item<double>(), 40});
    differs.push_back({(p.argmax(-1) != q.argmax(-1)).sum().item<double>(), 40});
  }
  const auto expect = [](const Interval& got, const std::vector<Part>& parts, bool share = false) {
    const Interval want = share ? share_interval(parts, Draws(7)) : ratio_interval(parts, Draws(7));
    // Losses are float32 numbers of order 3; the KL divergence is clamped at 0 row by row.
    EXPECT_NEAR(got.mean, want.mean, 2e-6);
    EXPECT_NEAR(*got.low, *want.low, 2e-6);
    EXPECT_NEAR(*got.high, *want.high, 2e-6);
  };
  expect(result.rows[2].loss_change, parts);
  expect(result.rows[2].positions[0].change, first_block);
  expect(result.rows[2].logits_divergence, divergence);
  expect(result.rows[2].guesses_changed, differs, true);
  EXPECT_EQ(result.rows[2].positions.back().end, 39);
}

// Without layer 0's head, layer 1's finds nothing: its rows become uniform.
TEST(Ablate, MapsMoveBehindAnAblatedHead) {
  const auto model = model::open_model("proof-induction", {.dtype = at::kDouble});
  Texts texts;
  texts.items.push_back({"one", "", {}, {}});
  for (std::int64_t n = 0; n < 40; ++n) texts.items[0].ids.push_back(5 + (n * 7) % 20);
  const auto result = ablated_by(model, texts, {.heads = {"L0H0"}}).result;
  ASSERT_EQ(result.rows[0].maps.size(), 4u);
  TextPass pass(model, ids_tensor(texts.items[0].ids));
  const auto finding = to_vector<double>(weights_of(pass, 1)[1]);
  double expected = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    std::vector<double> uniform(40);
    for (std::size_t j = 0; j <= i; ++j) uniform[j] = 1 / static_cast<double>(i + 1);
    const std::span<const double> row(finding);
    expected += js_divergence(row.subspan(i * 40, 40), uniform) / 40;
  }
  EXPECT_GT(expected, 0.05);
  EXPECT_NEAR(result.rows[0].maps[3].divergence.mean, expected, 1e-9);
  for (const std::size_t still : {0, 1, 2}) {
    EXPECT_EQ(result.rows[0].maps[still].divergence.mean, 0) << still;
  }
}

TEST(Ablate, WaysAndGroups) {
  const auto model = small_model("alibi");
  const Texts texts = random_texts(2, 30, 32, 3);
  const auto changes = [&](const AblateOptions& options) {
    std::vector<std::string> list;
    for (const auto& row : ablated_by(model, texts, options).result.rows) {
      list.push_back(row.change);
    }
    return list;
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(changes({}), (List{"L0H0 zero", "L0H1 zero", "L1H0 zero", "L1H1 zero"}));
  EXPECT_EQ(changes({.by = "layer"}), (List{"L0 zero", "L1 zero"}));
  EXPECT_EQ(changes({.heads = {"L1", "L0H0"}}), (List{"L1 L0H0 zero"}));
  EXPECT_EQ(changes({.heads = {"L1", "L0H0"}, .by = "head"}),
            (List{"L0H0 zero", "L1H0 zero", "L1H1 zero"}));
  EXPECT_EQ(changes({.heads = {"all"}, .how = "window", .limit = 4}), (List{"all heads window 4"}));
  EXPECT_EQ(changes({.heads = {"all"}, .how = "clamp", .limit = 4}), (List{"all heads clamp 4"}));
  EXPECT_EQ(changes({.heads = {"all"}, .how = "sink", .limit = 0.25}),
            (List{"all heads sink 0.25"}));
  EXPECT_EQ(changes({.heads = {"all"}, .how = "bias", .limit = 0.5}), (List{"all heads bias 0.5"}));
  EXPECT_EQ(changes({.set = {{"encoding.slopes", "next_power"}}}),
            (List{"encoding.slopes=next_power"}));
}

// A window as long as the text, a factor of 1 and a bound of 1 change nothing at all.
TEST(Ablate, WhatChangesNothingReadsZero) {
  const auto model = small_model("t5");
  const Texts texts = random_texts(2, 30, 32, 3);
  for (const auto& [how, limit] : std::vector<std::pair<std::string, double>>{
           {"window", 30}, {"clamp", 29}, {"sink", 1}, {"bias", 1}}) {
    const auto result =
        ablated_by(model, texts, {.heads = {"all"}, .how = how, .limit = limit}).result;
    EXPECT_EQ(result.rows[0].loss_change.mean, 0) << how;
    EXPECT_EQ(result.rows[0].logits_divergence.mean, 0) << how;
    for (const auto& map : result.rows[0].maps) EXPECT_NEAR(map.divergence.mean, 0, 1e-7) << how;
  }
}

// What a reading says already stays: ablating the second head of one without the first is ablating
// both.
TEST(Ablate, ReadingsAreAddedTo) {
  const auto model = small_model("rope");
  const Texts texts = random_texts(2, 30, 32, 3);
  const auto one = model::with_overrides(model, {{"encoding.head_ablations", "L0H0:zero"}},
                                         "small (head_ablations=L0H0:zero)");
  const auto added = ablated_by(one, texts, {.heads = {"L0H1"}}).result.rows[0];
  EXPECT_EQ(added.reading, "small (head_ablations=L0H0:zero L0H1:zero)");
  const auto both = ablated_by(model, texts, {.heads = {"L0H0", "L0H1"}}).result.rows[0];
  EXPECT_EQ(added.loss.mean, both.loss.mean);
}

TEST(Ablate, BadRequestsAreRefused) {
  const auto model = small_model("rope");
  const Texts texts = random_texts(2, 30, 32, 3);
  const std::vector<AblateOptions> bad = {
      {.heads = {"L7H0"}},
      {.heads = {"first"}},
      {.how = "window"},
      {.how = "zero", .limit = 3},
      {.how = "window", .limit = 2.5},
      {.how = "sink", .limit = 1.5},
      {.how = "burn"},
      {.how = "bias", .limit = 2},
  };
  for (const AblateOptions& options : bad) {
    EXPECT_THROW(ablated_by(model, texts, options), formats::Error) << options.how;
  }
}

TEST(Ablate, TheSameSeedGivesTheSameBytes) {
  const auto model = small_model("tape");
  const Texts texts = random_texts(3, 30, 32, 3);
  const AblateOptions options{.how = "resample", .seed = 3};
  const auto json = [&] {
    return protocol::to_json_form(ablated_by(model, texts, options).result);
  };
  EXPECT_EQ(json().dump(), json().dump());
}

}  // namespace
}  // namespace phasescope::analysis
