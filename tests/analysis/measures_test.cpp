// Distance bias, shifts and patterns against closed forms and direct float64 sums.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "analysis/adaptive_bias.h"
#include "analysis/distance.h"
#include "analysis/patterns.h"
#include "analysis/plane_coefficients.h"
#include "analysis/shift.h"
#include "analysis/theory/cape_surface.h"
#include "broken_encodings.h"
#include "formats/error.h"
#include "golden_tape.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::Passes;
using testing::passes_for;
using testing::small_config;
using testing::small_model;
using testing::weights_of;

// Sums of A_d and B_d and of their squares by plain loops.
struct DirectSums {
  double a = 0, a_square = 0, b = 0, b_square = 0, pairs = 0;
};
DirectSums direct_sums(const at::Tensor& q, const at::Tensor& k, PlaneLayout layout,
                       std::int64_t plane, std::int64_t begin, std::int64_t end, std::int64_t low,
                       std::int64_t high) {
  const std::int64_t planes = q.size(1) / 2;
  const bool half = layout == PlaneLayout::half;
  const std::int64_t x = half ? plane : 2 * plane, y = half ? plane + planes : 2 * plane + 1;
  const auto value = [](const at::Tensor& t, std::int64_t row, std::int64_t column) {
    return t[row][column].item<double>();
  };
  DirectSums out;
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      if (i - j < low || i - j >= high) continue;
      const double a = value(q, i, x) * value(k, j, x) + value(q, i, y) * value(k, j, y);
      const double b = value(q, i, x) * value(k, j, y) - value(q, i, y) * value(k, j, x);
      out.a += a, out.a_square += a * a, out.b += b, out.b_square += b * b, ++out.pairs;
    }
  }
  return out;
}

// Every bucket of every plane, for all queries and for a block of them, in both layouts.
TEST(PlaneCoefficients, AreTheSumsOverPairs) {
  const at::NoGradGuard no_gradients;
  const auto model = small_model("rope");
  const Passes passes = passes_for(model, 1, 21);
  const AttentionPointer attention = passes[0]->layer(1);
  const at::Tensor q = attention->q()[0][1].to(at::kDouble);
  const at::Tensor k = attention->k()[0][1].to(at::kDouble);
  const std::vector<std::int64_t> edges = {0, 1, 2, 5, 12, 21};
  for (const PlaneLayout layout : {PlaneLayout::half, PlaneLayout::interleaved}) {
    for (const auto& [begin, end] : {std::pair{0, 21}, std::pair{5, 9}}) {
      const CoefficientSums sums = coefficient_sums(*attention, layout, {1, begin, end}, edges);
      ASSERT_EQ(sums.planes(), static_cast<std::size_t>(q.size(1) / 2));
      for (std::size_t d = 0; d < sums.planes(); ++d) {
        for (std::size_t bucket = 0; bucket < sums.buckets(); ++bucket) {
          const DirectSums direct = direct_sums(q, k, layout, static_cast<std::int64_t>(d), begin,
                                                end, edges[bucket], edges[bucket + 1]);
          const std::size_t at = d * sums.buckets() + bucket;
          // Transforms of 42 numbers round to some 1e-16 of the largest sum.
          EXPECT_NEAR(sums.a[at], direct.a, 1e-12) << d << ' ' << bucket;
          EXPECT_NEAR(sums.b[at], direct.b, 1e-12);
          EXPECT_NEAR(sums.a_square[at], direct.a_square, 1e-12);
          EXPECT_NEAR(sums.b_square[at], direct.b_square, 1e-12);
          EXPECT_EQ(sums.pairs[bucket], direct.pairs);
        }
      }
    }
  }
}

// theory.md: at base 10^4 the local range ends at 7.85 of a model's distances, and 1 / theta_0 is
// 2 pi base; positions divided by 4 move it by 4.
TEST(Regimes, AreThoseOfTheBase) {
  for (const std::size_t planes : {16, 32, 64}) {
    std::vector<double> angles = frequencies_of_base(10000, planes);
    EXPECT_DOUBLE_EQ(angles[0], 1);
    EXPECT_NEAR(angles[planes / 2], 0.01, 1e-15);
    const double turn = 2 * std::numbers::pi;
    EXPECT_NEAR(regimes_of(angles).local_to, turn * 10 / 8, 1e-9);
    EXPECT_NEAR(regimes_of(angles).ultra_from, turn * 10000, 1e-6);
    for (double& angle : angles) angle /= 4;
    EXPECT_NEAR(regimes_of(angles).ultra_from, 4 * turn * 10000, 1e-5);
  }
}

DistanceOptions head_options() {
  DistanceOptions options;
  options.per_head = true;
  options.near = {{1, 4}}, options.far = {{20, 30}};
  options.pairs = 200;
  options.heads = {{1, 1}};
  options.bases = {10000, 500};
  options.factors = {1, 3};
  return options;
}

TEST(HeadBias, IsOfTheHeadAskedFor) {
  protocol::NoProgress progress;
  const auto model = small_model("rope");
  const Passes passes = passes_for(model, 3, 33);
  const auto out = analyse_distance(passes, head_options(), progress);
  ASSERT_EQ(out.head_bias.size(), 1u);
  const protocol::HeadBias& bias = out.head_bias[0];
  const auto& group = out.heads[static_cast<std::size_t>(model->config().heads + 1)];
  ASSERT_EQ(group.layer, 1);
  ASSERT_EQ(group.head, 1);
  ASSERT_EQ(bias.profile.size(), group.profile.size());
  EXPECT_EQ(bias.profile[5].score_mean, group.profile[5].score_mean);
  EXPECT_EQ(bias.profile[5].score_low, group.profile[5].score_low);
  // The mean over all pairs is that of the intrinsic bias, whose means are sums of another kind.
  double pairs = 0, a = 0;
  for (const protocol::CoefficientPoint& point : bias.coefficients) {
    pairs += static_cast<double>(point.count);
    a += static_cast<double>(point.count) * point.a_mean;
    EXPECT_EQ(point.n, 3);
    EXPECT_LE(*point.a_low, point.a_mean);
    EXPECT_GE(std::abs(point.a_mean), bias.smallest_a);
  }
  EXPECT_EQ(pairs, 3 * 33 * 34 / 2);
  const auto& curve = out.intrinsic[static_cast<std::size_t>(model->config().heads + 1)];
  EXPECT_NEAR(a / pairs, curve.mu, 1e-12 * (1 + std::abs(curve.mu)));
  double by_plane = 0;
  for (const protocol::PlanePoint& point : bias.planes) by_plane += point.a_mean;
  EXPECT_NEAR(by_plane / static_cast<double>(bias.planes.size()), curve.mu, 1e-12);
  EXPECT_EQ(bias.per_plane, curve.per_plane);
  // Its own base, and positions divided by 1, change nothing.
  ASSERT_EQ(bias.sweep.size(), 4u);
  for (std::size_t n = 0; n < bias.distances.size(); ++n) {
    const double size = 1e-9 * (1 + bias.distances[n] * 1e-6);  // angles of up to 1e7 radians
    EXPECT_NEAR(bias.sweep[0].score[n], bias.per_plane[n], 10 * size);
    EXPECT_EQ(bias.sweep[2].score[n], bias.per_plane[n]);
  }
  // Divided by 3, the value at 0 stays and that at 3 lambda is the old one at lambda.
  EXPECT_EQ(bias.sweep[3].score[0], bias.per_plane[0]);
  EXPECT_NE(bias.sweep[3].score[40], bias.per_plane[40]);
  EXPECT_NE(bias.sweep[1].score[40], bias.per_plane[40]);
}

// The bands of a coefficient are those of the ratio over texts, and its spread that over pairs.
TEST(HeadBias, BandsAreOverTextsAndSpreadOverPairs) {
  const at::NoGradGuard no_gradients;
  protocol::NoProgress progress;
  const auto model = small_model("rope");
  const Passes passes = passes_for(model, 4, 20);
  DistanceOptions options = head_options();
  options.far = {{15, 19}};
  const auto out = analyse_distance(passes, options, progress);
  const PlaneLayout layout = rotation_of(*passes[0])->layout;
  for (const std::int64_t d : {0, 3, 19}) {
    std::vector<Part> parts;
    double sum = 0, square = 0, count = 0;
    for (const auto& pass : passes) {
      const AttentionPointer attention = pass->layer(1);
      const PlaneProducts products =
          plane_products(attention->q()[0][1].to(at::kDouble).slice(0, d),
                         attention->k()[0][1].to(at::kDouble).slice(0, 0, 20 - d), layout);
      parts.push_back({products.a.sum().item<double>(), static_cast<double>(products.a.numel())});
      sum += parts.back().sum, count += parts.back().weight;
      square += products.a.square().sum().item<double>();
    }
    const Interval band = ratio_interval(parts, Draws());
    const auto point = std::ranges::find_if(out.head_bias[0].coefficients, [d](const auto& p) {
      return p.distance <= d && d < p.distance_end;
    });
    if (point->distance_end - point->distance > 1) continue;  // a bucket of several distances
    EXPECT_NEAR(point->a_mean, sum / count, 1e-12);
    EXPECT_NEAR(point->a_sd, std::sqrt(square / count - sum / count * sum / count), 1e-9);
    EXPECT_NEAR(*point->a_low, *band.low, 1e-9);
    EXPECT_NEAR(*point->a_high, *band.high, 1e-9);
  }
}

TEST(HeadBias, IsOfRotationsAlone) {
  protocol::NoProgress progress;
  const auto out =
      analyse_distance(passes_for(small_model("alibi"), 2, 33), head_options(), progress);
  EXPECT_TRUE(out.head_bias.empty());
  EXPECT_NE(out.note.find("no head's bias is shown"), std::string::npos) << out.note;
  DistanceOptions options = head_options();
  options.heads = {{2, 0}};
  EXPECT_THROW(analyse_distance(passes_for(small_model("rope"), 1, 33), options, progress),
               formats::Error);
}

// A score of nothing but the bias by distance: weights in closed form.
TEST(NearFarWeights, AreDifferencesOfTheWeights) {
  protocol::NoProgress progress;
  const auto model = small_model("tapa");
  const Passes passes = passes_for(model, 1, 40);
  DistanceOptions options = head_options();
  options.profile = options.intrinsic = false;
  options.near = {{2, 3}}, options.far = {{30, 31}};
  options.pairs = 2000;  // all ten queries, many times
  NearFarValues values;
  const auto out = analyse_distance(passes, options, progress, &values);
  for (const protocol::DistanceGroup& group : out.heads) {
    const at::Tensor map = weights_of(*passes[0], *group.layer)[*group.head].to(at::kDouble);
    double low = 1, high = -1;
    for (std::int64_t q = 30; q < 40; ++q) {
      const double delta = (map[q][q - 2] - map[q][q - 30]).item<double>();
      low = std::min(low, delta), high = std::max(high, delta);
    }
    // float32 weights by two ways of rounding.
    EXPECT_NEAR(group.weight_histogram->edges.front(), low, 1e-6);
    EXPECT_NEAR(group.weight_histogram->edges.back(), high, 1e-6);
  }
  EXPECT_EQ(values.all.weights.size(), 2000u);
  EXPECT_EQ(values.heads.size(), out.heads.size());
}

TEST(NearFarBins, AreTheSameOfAllModels) {
  protocol::NoProgress progress;
  std::vector<protocol::DistanceModel> models;
  std::vector<NearFarValues> values(2);
  for (const char* key : {"rope", "alibi"}) {
    models.push_back(analyse_distance(passes_for(small_model(key), 3, 40), head_options(), progress,
                                      &values[models.size()]));
  }
  const auto own = models;
  share_bins(models, values);
  const auto expect_shared = [](const NearFar& a, const NearFar& b, const NearFar& before) {
    EXPECT_EQ(a.edges, b.edges);
    EXPECT_LE(a.edges.front(), before.edges.front());
    EXPECT_GE(a.edges.back(), before.edges.back());
    EXPECT_EQ(std::accumulate(a.counts.begin(), a.counts.end(), std::int64_t{0}), before.pairs);
    EXPECT_EQ(a.mean, before.mean);
  };
  expect_shared(*models[0].histogram, *models[1].histogram, *own[0].histogram);
  expect_shared(*models[1].histogram, *models[0].histogram, *own[1].histogram);
  expect_shared(*models[0].weight_histogram, *models[1].weight_histogram, *own[0].weight_histogram);
  expect_shared(*models[1].layers[1].histogram, *models[0].layers[1].histogram,
                *own[1].layers[1].histogram);
  expect_shared(*models[0].heads[3].histogram, *models[1].heads[3].histogram,
                *own[0].heads[3].histogram);
  // One model keeps its own.
  std::vector<protocol::DistanceModel> one = {own[0]};
  share_bins(one, std::span(values).first(1));
  EXPECT_EQ(one[0].histogram->edges, own[0].histogram->edges);
}

std::vector<std::vector<std::int64_t>> some_texts(std::int64_t count) {
  std::vector<std::vector<std::int64_t>> texts;
  for (std::int64_t t = 0; t < count; ++t) {
    texts.push_back(
        random_texts(1, 20 + 3 * t, 32, static_cast<std::uint64_t>(8 + t)).items[0].ids);
  }
  return texts;
}

ShiftOptions tokens_by_three() {
  ShiftOptions options;
  options.methods = {ShiftMethod::tokens};
  options.by = {3};
  options.dtypes = {"f64"};
  return options;
}

TEST(ShiftTexts, MeansAndIntervalsAreOverTexts) {
  protocol::NoProgress progress;
  const auto model = small_model("tape");
  const auto texts = some_texts(4);
  const auto rows = analyse_shift(model, texts, tokens_by_three(), progress).rows;
  std::vector<double> attention;
  double logits = 0;
  std::vector<Part> products;
  const auto exact = model::in_dtype(model, at::kDouble);
  for (const auto& ids : texts) {
    const auto alone = analyse_shift(model, ids, tokens_by_three(), progress).rows;
    attention.push_back(alone[1].attention_difference);
    logits = std::max(logits, alone[1].logits_difference);
    auto longer = ids;
    longer.insert(longer.begin(), 3, 0);
    TextPass before(exact, ids_tensor(ids)), after(exact, ids_tensor(longer));
    const auto last = [](TextPass& pass) {
      at::Tensor z;
      pass.visit_positions([&z](std::int64_t, const model::PositionState& state) { z = state.z; });
      return z;
    };
    const std::int64_t tokens = std::ssize(ids);
    const at::Tensor g = position_products(last(before), at::arange(tokens));
    const at::Tensor h = position_products(last(after), at::arange(3, tokens + 3));
    products.push_back({(g - h).square().sum().item<double>(), g.square().sum().item<double>()});
  }
  const Interval mean = mean_interval(attention, Draws());
  EXPECT_NEAR(rows[1].attention_difference, mean.mean, 1e-12);
  EXPECT_NEAR(*rows[1].attention_low, *mean.low, 1e-9);
  EXPECT_NEAR(*rows[1].attention_high, *mean.high, 1e-9);
  EXPECT_EQ(rows[1].n, 4);
  EXPECT_EQ(rows[1].unit, "texts");
  EXPECT_EQ(rows[1].logits_difference, logits);
  const Interval ratio = ratio_interval(products, Draws());
  EXPECT_NEAR(*rows[1].position_difference, 100 * std::sqrt(ratio.mean), 1e-9);
  EXPECT_NEAR(*rows[1].position_high, 100 * std::sqrt(*ratio.high), 1e-9);
  EXPECT_TRUE(rows[1].verdict.empty());  // added tokens are read
}

std::string verdict_of(const std::shared_ptr<const model::Model>& model, std::int64_t by,
                       std::vector<std::string> dtypes = {"f32", "f64"}) {
  protocol::NoProgress progress;
  ShiftOptions options;
  options.methods = {ShiftMethod::ids};
  options.by = {by};
  options.dtypes = std::move(dtypes);
  const auto rows = analyse_shift(model, some_texts(1)[0], options, progress).rows;
  std::set<std::string> verdicts;
  for (const protocol::ShiftRow& row : rows) verdicts.insert(row.verdict);
  return verdicts.size() == 1 ? *verdicts.begin() : "several";
}

TEST(ShiftVerdict, TellsRoundingFromFailure) {
  for (const char* key : {"rope", "tape", "alibi", "tapa"}) {
    EXPECT_EQ(verdict_of(small_model(key), 3), "rounding") << key;
    EXPECT_EQ(verdict_of(small_model(key), 1'000'000), "rounding") << key;
  }
  EXPECT_EQ(verdict_of(small_model("sinusoidal"), 3), "as declared");
  // One dtype cannot tell.
  EXPECT_EQ(verdict_of(small_model("rope"), 3, {"f32"}), "");
}

// An encoding that says a shift changes nothing, and reads the ids themselves.
class ReadsIds final : public testing::Wrapped {
 public:
  using Wrapped::Wrapped;
  at::Tensor embed(const at::Tensor& x, const model::StartContext& context) const override {
    const at::Tensor ramp = at::arange(x.size(-1), x.options());
    return x + ramp * (1e-4 * static_cast<double>(context.positions.shift));
  }
};

TEST(ShiftVerdict, AnEncodingThatMovesAgainstItsWordFails) {
  const model::ModelConfig config = small_config("rope");
  const auto right = model::in_dtype(small_model("rope"), at::kDouble);
  const auto broken = std::make_shared<const model::Model>(model::Model{
      right->report, right->tokenizer,
      model::Decoder(config, std::make_shared<ReadsIds>(model::make_encoding(config), config),
                     right->decoder.weights())});
  EXPECT_EQ(verdict_of(broken, 16, {"f64"}), "failure");
  EXPECT_EQ(verdict_of(right, 16, {"f64"}), "rounding");
}

TEST(ShiftVerdict, RoundingGrowsWithTheShiftAndStaysSmall) {
  EXPECT_LT(shift_rounding(0, 256), 1.1e-9);
  EXPECT_GT(shift_rounding(1'000'000, 256), shift_rounding(1000, 256));
  EXPECT_LT(shift_rounding(1'000'000, 256), 1e-6);  // what a failure moves is larger by far
}

// Added tokens beyond what a text is read behind are left out where ids were asked for too.
TEST(ShiftTexts, LeavesFarAddedTokensOut) {
  protocol::NoProgress progress;
  ShiftOptions options;
  options.by = {1, kTokensBesideIds + 1};
  options.dtypes = {"f32"};
  const auto rows = analyse_shift(small_model("rope"), some_texts(1)[0], options, progress).rows;
  EXPECT_EQ(rows.size(), 2u * 3);  // two layers: ids by both, tokens by one
}

// A rotation by one frequency alone has its power there.
TEST(Spectra, OfRopeIsAtItsFrequencies) {
  protocol::NoProgress progress;
  const auto model = small_model("rope");
  const auto out = analyse_patterns(passes_for(model, 1, 256), {}, progress);
  const auto& layer = out.result.layers.at(0);
  const auto& at = out.result.spectrum_frequencies;
  ASSERT_EQ(layer.spectrum.size(), at.size());
  EXPECT_LE(std::accumulate(layer.spectrum.begin(), layer.spectrum.end(), 0.0), 1 + 1e-12);
  // A window of N tokens spreads a tone over some 2 pi / N; of each plane as much as of any other.
  const double planes = static_cast<double>(out.result.frequencies.size());
  for (const double f : out.result.frequencies) {
    if (f < 0.1) continue;
    double share = 0;
    for (std::size_t n = 0; n < at.size(); ++n) {
      const double next = n + 1 < at.size() ? at[n + 1] : std::numbers::pi;
      if (next > f - 0.08 && at[n] < f + 0.08) share += layer.spectrum[n];
    }
    EXPECT_GT(share, 0.8 / planes) << f;
  }
}

TEST(BiasRows, AreThePartsOfTheScore) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.queries = {7, 15};
  const auto model = small_model("cape");
  const Passes passes = passes_for(model, 3, 20);
  const auto out = analyse_patterns(passes, options, progress);
  const model::ModelConfig& config = model->config();
  ASSERT_EQ(out.result.rows.size(),
            static_cast<std::size_t>(2 * 2 * config.layers * config.heads));  // queries, texts
  for (const protocol::BiasRow& row : out.result.rows) {
    const AttentionPointer attention = passes[static_cast<std::size_t>(row.text)]->layer(row.layer);
    const at::Tensor scores = attention->scores(attention->whole()).score[0][row.head][row.query];
    model::Parameters parameters =
        model->decoder.weights().layers[static_cast<std::size_t>(row.layer)].encoding;
    const at::Tensor table = model->encoding().bias_table(parameters, row.query + 1, at::kDouble);
    ASSERT_EQ(row.distances.size(), static_cast<std::size_t>(row.query + 1));
    for (const std::int64_t d : row.distances) {
      const auto n = static_cast<std::size_t>(d);
      EXPECT_NEAR(row.content[n] + row.base[n] + row.correction[n],
                  scores[row.query - d].item<double>(), 1e-5);
      EXPECT_EQ(row.base[n], table[row.head][d].item<double>());
      EXPECT_NEAR(row.base[n] + row.correction[n], row.positional[n], 1e-12);
    }
  }
  options.queries = {20};
  EXPECT_THROW(analyse_patterns(passes, options, progress), formats::Error);
}

// A bias that is the base alone: where f adds nothing, no text differs from another, and ALiBi
// falls.
TEST(AdaptiveBiases, OfAFunctionThatAddsNothingAreTheBase) {
  protocol::NoProgress progress;
  const model::ModelConfig config = small_config("cape");
  const auto drawn = model::random_model(config, 2);
  model::Weights weights = drawn->decoder.weights();
  for (model::LayerWeights& layer : weights.layers) {
    layer.encoding["mlp.2.weight"] = at::zeros_like(layer.encoding["mlp.2.weight"]);
    layer.encoding["mlp.2.bias"] = at::zeros_like(layer.encoding["mlp.2.bias"]);
  }
  const auto model = model::model_of(config, weights, "base alone");
  // A class needs 64 texts.
  const auto few = analyse_patterns(passes_for(model, 63, 30), {}, progress);
  for (const protocol::AdaptiveBiasOfHead& head : few.result.adaptive) {
    EXPECT_EQ(head.kind, "");
    EXPECT_EQ(head.why, "no class: it needs 64 texts, and 63 reach this query");
    EXPECT_EQ(head.slope.n, 63);
  }
  const auto out = analyse_patterns(passes_for(model, 64, 30), {}, progress);
  ASSERT_EQ(out.result.adaptive.size(), static_cast<std::size_t>(config.layers * config.heads));
  for (const protocol::AdaptiveBiasOfHead& head : out.result.adaptive) {
    EXPECT_LT(head.over_contexts, 1e-10);
    EXPECT_GT(head.over_distance, 0);
    EXPECT_EQ(head.kind, "local");
    EXPECT_EQ(head.why, "");
    EXPECT_EQ(head.query, 29);
    const at::Tensor table = model->encoding().bias_table(
        weights.layers[static_cast<std::size_t>(head.layer)].encoding, 30, at::kDouble);
    for (std::size_t n = 0; n < head.distances.size(); ++n) {
      EXPECT_NEAR(head.mean[n],
                  table[head.head][static_cast<std::int64_t>(head.distances[n])].item<double>(),
                  1e-5);
    }
  }
  for (const protocol::BiasRow& row : out.result.rows) {
    for (const double x : row.correction) EXPECT_NEAR(x, 0, 1e-5);
  }
}

TEST(Surfaces, AreThoseOfF) {
  const at::NoGradGuard no_gradients;
  protocol::NoProgress progress;
  const auto model = small_model("cape");
  const auto out = analyse_patterns(passes_for(model, 1, 20), {}, progress);
  const auto* tensor = protocol::find_tensor(out.tensors, "surface.1");
  ASSERT_NE(tensor, nullptr);
  const auto heads = model->config().heads;
  const auto side = static_cast<std::int64_t>(out.result.surface_content.size());
  ASSERT_EQ(tensor->shape, (std::vector<std::int64_t>{heads, side, side}));
  // By hand: w2 leaky(w1 z + b1) + b2, z at the means of the only row of each head but for one
  // content and one bias.
  const auto& layer = model->decoder.weights().layers[1].encoding;
  const auto get = [&](const char* name) { return layer.at(name).to(at::kDouble); };
  at::Tensor z = at::zeros({2 * heads}, at::kDouble);
  for (const protocol::BiasRow& row : out.result.rows) {
    if (row.layer != 1) continue;
    const auto mean = [](const std::vector<double>& x) {
      return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    };
    z[row.head] = mean(row.content), z[heads + row.head] = mean(row.base);
  }
  z[1] = out.result.surface_content[3], z[heads + 1] = out.result.surface_bias[5];
  const at::Tensor hidden = at::leaky_relu(get("mlp.0.weight").mv(z) + get("mlp.0.bias"), 0.01);
  const double wanted = (get("mlp.2.weight").mv(hidden) + get("mlp.2.bias"))[1].item<double>();
  EXPECT_NEAR(tensor->values<float>()[static_cast<std::size_t>((side + 3) * side + 5)], wanted,
              1e-6 * (1 + std::abs(wanted)));  // rounded once to float32
  EXPECT_EQ(out.result.surfaces.size(), static_cast<std::size_t>(2 * heads));
}

// APE that starts as RoPE: angles base^(-2m/d) of every head.
TEST(LearnedAngles, OfApeThatStartsAsRope) {
  protocol::NoProgress progress;
  model::ModelConfig config = small_config("ape_sequence");
  config.encoding.options["start"] = "rope";
  const auto out =
      analyse_patterns(passes_for(model::random_model(config, 2), 1, 12), {}, progress);
  const auto planes = static_cast<std::size_t>(config.head_dim / 2);
  const std::vector<double> wanted =
      frequencies_of_base(config.encoding.options.value("base", 10000.0), planes);
  ASSERT_EQ(out.result.angles.size(), static_cast<std::size_t>(config.heads));
  for (const protocol::LearnedAngles& one : out.result.angles) {
    ASSERT_EQ(one.angles.size(), planes);
    // The generator is kept in float32.
    for (std::size_t m = 0; m < planes; ++m) EXPECT_NEAR(one.angles[m], wanted[m], 1e-6) << m;
  }
}

TEST(Against, PutsStatesOfTheSamePositionsBesideEachOther) {
  protocol::NoProgress progress;
  auto out = analyse_patterns(passes_for(small_model("tape"), 1, 20), {}, progress);
  const std::size_t tensors = out.tensors.size();
  add_against(out, analyse_patterns(passes_for(small_model("rope"), 1, 20), {}, progress));
  EXPECT_EQ(out.result.against_layers.size(), 1u);
  EXPECT_EQ(out.tensors.size(), tensors + 1);
  EXPECT_NE(protocol::find_tensor(out.tensors, "against.pe_dot.0"), nullptr);
  EXPECT_THROW(
      add_against(out, analyse_patterns(passes_for(small_model("rope"), 1, 24), {}, progress)),
      formats::Error);
  EXPECT_THROW(
      add_against(out, analyse_patterns(passes_for(small_model("alibi"), 1, 20), {}, progress)),
      formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
