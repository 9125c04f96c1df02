// The analyses of models against brute force on their explicit maps.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/divergence.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/metrics/registry.h"
#include "analysis/metrics/repeated.h"
#include "analysis/shift.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "golden_tape.h"
#include "map_reading.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::Passes;
using testing::passes_for;
using testing::reading_of_map;
using testing::small_config;
using testing::small_model;
using testing::weights_of;

const char* const kEncodings[] = {"none", "rope", "alibi", "kerple_log", "cape", "tape", "tapa"};

constexpr float kMasked = -std::numeric_limits<float>::infinity();

class EveryEncoding : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryEncoding, HeadStatisticsEqualThoseOfTheExplicitMap) {
  const auto model = small_model(GetParam());
  const Passes passes = passes_for(model, 1, 45);
  protocol::NoProgress progress;
  HeadsOptions options;
  options.period = 9;
  options.metrics = {"entropy",        "entropy_normalised", "sink",
                     "previous_token", "mean_distance",      "mean_distance_without_first",
                     "window_mass",    "top1_mass",          "effective_keys"};
  const auto out = analyse_heads(passes, options, progress);
  ASSERT_EQ(out.result.rows.size(), 4u);
  for (const protocol::HeadRow& row : out.result.rows) {
    const auto map = to_vector<double>(weights_of(*passes[0], row.layer)[row.head]);
    const HeadReading reading = reading_of_map(map, 45);
    for (const HeadMetric& metric : select_metrics(options.metrics)) {
      const double expected = metric.value({&reading, nullptr, 0});
      // float32 rows of 45 weights, two orders of summation; distances and keys are up to 45.
      EXPECT_NEAR(row.values.at(metric.info.key).mean, expected, 2e-4 * (1 + std::abs(expected)))
          << GetParam() << ' ' << metric.info.key << " L" << row.layer << 'H' << row.head;
    }
  }
}

TEST_P(EveryEncoding, RepeatedTokensEqualTheExplicitMap) {
  const auto model = small_model(GetParam());
  protocol::NoProgress progress;
  HeadsOptions options;
  options.period = 10;
  options.seed = 3;
  options.metrics = {"duplicate_token", "induction", "induction_loss"};
  const auto out = analyse_heads(passes_for(model, 1, 12), options, progress);
  TextPass pass(model, ids_tensor(repeated_tokens(10, {}, 32, 3)));
  for (const protocol::HeadRow& row : out.result.rows) {
    const at::Tensor map = weights_of(pass, row.layer)[row.head];
    double duplicate = 0, induction = 0;
    for (std::int64_t q = 10; q < 20; ++q) {
      duplicate += map[q][q - 10].item<double>() / 10;
      induction += map[q][q - 9].item<double>() / 10;
    }
    EXPECT_NEAR(row.values.at("duplicate_token").mean, duplicate, 1e-5);
    EXPECT_NEAR(row.values.at("induction").mean, induction, 1e-5);
  }
  const double loss = pass.losses().slice(1, 9).mean().item<double>();
  EXPECT_NEAR(out.result.model_values.at("induction_loss").mean, loss, 1e-5);
}

TEST_P(EveryEncoding, ProfileEqualsBruteForce) {
  const auto model = small_model(GetParam());
  protocol::NoProgress progress;
  DistanceOptions options;
  options.per_head = true;
  options.pairs = 64;
  options.near = {{1, 4}}, options.far = {{20, 30}};
  const Passes corpus = passes_for(model, 3, 33);
  const auto by_probes = analyse_distance(corpus, options, progress);
  ASSERT_EQ(by_probes.layers.size(), 2u);
  ASSERT_EQ(by_probes.profile.size(), 33u);
  for (const protocol::DistanceGroup& group : by_probes.heads) {
    for (const std::int64_t d : {0, 1, 7, 32}) {
      double score = 0, content = 0, square = 0, weight = 0, pairs = 0;
      for (const auto& pass : corpus) {
        const AttentionPointer attention = pass->layer(*group.layer);
        const auto parts = attention->scores(attention->whole());
        const auto diagonal = [&](const at::Tensor& x) {
          return x[*group.head].diagonal(-d).sum().item<double>();
        };
        score += diagonal(parts.score[0]);
        content += diagonal(parts.content[0]);
        square += diagonal(parts.content[0].square());
        weight += diagonal(weights_of(*pass, *group.layer));
        pairs += static_cast<double>(33 - d);
      }
      const protocol::DistancePoint& point = group.profile[static_cast<std::size_t>(d)];
      EXPECT_EQ(point.distance, d);
      EXPECT_EQ(point.count, static_cast<std::int64_t>(pairs));
      EXPECT_NEAR(point.score_mean, score / pairs, 2e-4 * (1 + std::abs(score / pairs)));
      EXPECT_NEAR(point.content_mean, content / pairs, 2e-4 * (1 + std::abs(content / pairs)));
      EXPECT_NEAR(point.positional_mean, (score - content) / pairs, 1e-3);
      const double mean = content / pairs;
      const double deviation = std::sqrt(std::max(0.0, square / pairs - mean * mean));
      EXPECT_NEAR(point.content_sd, deviation, 1e-3 * (1 + deviation));
      EXPECT_NEAR(point.weight_mean, weight / pairs, 1e-5);
    }
  }
}

TEST_P(EveryEncoding, OneTextByRowsEqualsProbes) {
  const auto model = small_model(GetParam());
  protocol::NoProgress progress;
  DistanceOptions options;
  options.histogram = options.intrinsic = false;
  const Passes one = passes_for(model, 1, 40);
  const auto rows = analyse_distance(one, options, progress);
  const auto probes = analyse_distance({one[0], one[0]}, options, progress);  // as a corpus of two
  ASSERT_EQ(rows.profile.size(), 40u);
  const auto attention = one[0]->layer(0);
  const bool rotates = !attention->q().is_same(attention->q_rotated());
  for (std::size_t d = 0; d < 40; ++d) {
    const auto &a = rows.profile[d], &b = probes.profile[d];
    EXPECT_EQ(2 * a.count, b.count);
    EXPECT_NEAR(a.score_mean, b.score_mean, 1e-3 * (1 + std::abs(b.score_mean)));
    EXPECT_NEAR(a.score_sd, b.score_sd, 1e-3 * (1 + b.score_sd));
    EXPECT_NEAR(a.content_mean, b.content_mean, 1e-3 * (1 + std::abs(b.content_mean)));
    EXPECT_NEAR(a.content_sd, b.content_sd, 1e-3 * (1 + b.content_sd));
    EXPECT_NEAR(a.positional_mean, b.positional_mean, 1e-3 * (1 + std::abs(b.positional_mean)));
    // Rows see both scores of a pair; the kernel does where it does not rotate q and k before.
    ASSERT_TRUE(a.positional_sd);
    EXPECT_EQ(b.positional_sd.has_value(), !rotates);
    if (b.positional_sd) {
      EXPECT_NEAR(*a.positional_sd, *b.positional_sd, 1e-3 * (1 + *b.positional_sd));
    }
    EXPECT_NEAR(a.weight_mean, b.weight_mean, 1e-5);
  }
}

// Its term is -m lambda for every pair of a distance, m = 1/16 and 1/256.
TEST(DistanceProfile, OfAlibiHasItsSlopes) {
  const auto model = small_model("alibi");
  protocol::NoProgress progress;
  DistanceOptions options;
  options.per_head = true;
  options.histogram = options.intrinsic = false;
  for (const std::int64_t texts : {1, 3}) {  // by rows, by probes
    const auto out = analyse_distance(passes_for(model, texts, 60), options, progress);
    for (const protocol::DistanceGroup& group : out.heads) {
      const double slope = *group.head == 0 ? 1.0 / 16 : 1.0 / 256;
      for (const protocol::DistancePoint& point : group.profile) {
        // Float32 scores of order one to ten.
        EXPECT_NEAR(point.positional_mean, -slope * static_cast<double>(point.distance), 2e-6);
        ASSERT_TRUE(point.positional_sd);
        if (point.count > 1) {
          EXPECT_LT(*point.positional_sd, 2e-6) << point.distance;
          continue;
        }
        // Of one text a head has the first key of its last query once.
        EXPECT_TRUE(texts == 1 && point.distance == 59) << point.distance;
        EXPECT_TRUE(std::isnan(*point.positional_sd) && std::isnan(point.score_sd) &&
                    std::isnan(point.content_sd) && std::isnan(point.weight_sd.value()));
      }
    }
    // Heads of both slopes, as often: half their difference.
    for (const protocol::DistancePoint& point : out.profile) {
      const double expected = 0.5 * (1.0 / 16 - 1.0 / 256) * static_cast<double>(point.distance);
      EXPECT_NEAR(point.positional_sd.value(), expected, 2e-6) << point.distance;
    }
  }
}

class BothWays : public ::testing::TestWithParam<const char*> {};

// lambda = |i - j|: both diagonals at a distance.
TEST_P(BothWays, ProfileCountsKeysOnBothSides) {
  model::ModelConfig config = small_config(GetParam());
  config.attention.causal = false;
  const auto model = model::random_model(config, 2);
  protocol::NoProgress progress;
  DistanceOptions options;
  options.per_head = true;
  options.histogram = options.intrinsic = false;
  for (const std::int64_t texts : {1, 3}) {  // by rows, by probes
    const Passes passes = passes_for(model, texts, 33);
    const auto out = analyse_distance(passes, options, progress);
    EXPECT_NE(out.note.find("|i - j|"), std::string::npos);
    for (const protocol::DistanceGroup& group : out.heads) {
      for (const std::int64_t d : {0, 1, 7, 32}) {
        double score = 0, weight = 0, pairs = 0;
        for (const auto& pass : passes) {
          const AttentionPointer attention = pass->layer(*group.layer);
          const auto parts = attention->scores(attention->whole());
          for (const std::int64_t side : d == 0 ? std::vector{d} : std::vector{d, -d}) {
            score += parts.score[0][*group.head].diagonal(side).sum().item<double>();
            weight +=
                weights_of(*pass, *group.layer)[*group.head].diagonal(side).sum().item<double>();
            pairs += static_cast<double>(33 - d);
          }
        }
        const protocol::DistancePoint& point = group.profile[static_cast<std::size_t>(d)];
        EXPECT_EQ(point.count, static_cast<std::int64_t>(pairs)) << GetParam() << ' ' << d;
        EXPECT_NEAR(point.score_mean, score / pairs, 2e-4 * (1 + std::abs(score / pairs)));
        EXPECT_NEAR(point.weight_mean, weight / pairs, 1e-5);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, BothWays,
                         ::testing::Values("none", "rope", "alibi", "t5", "shaw", "learned"));

TEST(Heads, OfAnEncoderLeaveOutWhatOnlyCausalRowsHave) {
  model::ModelConfig config = small_config("rope");
  config.attention.causal = false;
  protocol::NoProgress progress;
  const Passes passes = passes_for(model::random_model(config, 2), 1, 20);
  const auto out = analyse_heads(passes, {}, progress);
  ASSERT_EQ(out.result.rows.size(), 4u);
  const auto& values = out.result.rows[3].values;
  EXPECT_FALSE(values.contains("mean_distance") || values.contains("induction"));
  const at::Tensor map = weights_of(*passes[0], 1)[1].to(at::kDouble);
  EXPECT_NEAR(values.at("top1_mass").mean, std::get<0>(map.max(1)).mean().item<double>(), 1e-5);
  const at::Tensor entropy = -at::xlogy(map, map).sum(1).mean();  // row 0 has all keys too
  EXPECT_NEAR(values.at("entropy").mean, entropy.item<double>(), 1e-4);
}

// The divergence of two maps reads their whole rows.
TEST(Compare, ModelsThatSeeBothWaysByTheirWholeRows) {
  model::ModelConfig config = small_config("none");
  config.attention.causal = false;
  const auto a = passes_for(model::random_model(config, 2), 1, 20);
  const auto b = passes_for(model::random_model(config, 3), 1, 20);
  const at::Tensor divergence = divergence_of(*a[0]->layer(0), *b[0]->layer(0)).mean(1);
  const at::Tensor p = weights_of(*a[0], 0).to(at::kDouble),
                   q = weights_of(*b[0], 0).to(at::kDouble);
  const auto entropy = [](const at::Tensor& x) { return -at::xlogy(x, x).sum(-1); };
  const at::Tensor expected = (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).mean(-1);
  EXPECT_LT((divergence - expected).abs().max().item<double>(), 1e-6);
}

// Scores that are ALiBi's bias alone: near - far is the slope times the distances' difference.
TEST(Distance, NearAndFarKeysOnBothSidesHaveTheirBias) {
  model::ModelConfig config = small_config("alibi");
  config.attention.causal = false;
  const auto drawn = model::random_model(config, 2);
  model::Weights weights = drawn->decoder.weights();
  for (model::LayerWeights& layer : weights.layers) layer.wq = at::zeros_like(layer.wq);
  const auto model = model::model_of(config, weights, "bias alone");
  protocol::NoProgress progress;
  DistanceOptions options;
  options.per_head = true;
  options.profile = false;
  options.near = {{3, 4}}, options.far = {{40, 41}};
  options.pairs = 400;
  const auto out = analyse_distance(passes_for(model, 3, 60), options, progress);
  EXPECT_TRUE(out.intrinsic.empty());
  for (const protocol::DistanceGroup& group : out.heads) {
    const double slope = std::exp2(-4.0 * static_cast<double>(*group.head + 1));
    EXPECT_NEAR(group.histogram->mean, 37 * slope, 1e-5);
    EXPECT_NEAR(group.histogram->sigma, 0, 1e-5);
    EXPECT_EQ(group.histogram->pairs, 400);
  }
}

// Far keys outside a local layer's window have no score there.
TEST(Distance, KeysThatAWindowHidesAreNoSamples) {
  model::ModelConfig config = small_config("rope");
  config.attention.window = 8;
  config.attention.local_layers = {0};
  protocol::NoProgress progress;
  DistanceOptions options;
  options.near = {{1, 4}}, options.far = {{20, 30}};
  options.pairs = 200;
  const auto out =
      analyse_distance(passes_for(model::random_model(config, 2), 3, 40), options, progress);
  EXPECT_FALSE(out.layers[0].histogram.has_value());
  ASSERT_TRUE(out.layers[1].histogram.has_value());
  EXPECT_EQ(out.layers[1].histogram->pairs, 200);
  EXPECT_EQ(out.histogram->pairs, 100);  // every second sample is of the first layer
  EXPECT_TRUE(std::isfinite(out.histogram->mean));
  EXPECT_NE(out.note.find("200 samples"), std::string::npos) << out.note;
  EXPECT_EQ(out.layers[0].profile.size(), 8u);  // distances inside the window
}

TEST(Distance, RefusesAnEncoderWithADecoder) {
  model::ModelConfig config = small_config("t5");
  config.encoder_layers = 1;
  protocol::NoProgress progress;
  EXPECT_THROW(analyse_distance(passes_for(model::random_model(config, 2), 1, 40), {}, progress),
               formats::Error);
}

TEST_P(EveryEncoding, HistogramHasTheSamplesAskedFor) {
  const auto model = small_model(GetParam());
  protocol::NoProgress progress;
  DistanceOptions options;
  options.profile = false;
  options.pairs = 501;
  const auto out = analyse_distance(passes_for(model, 4, 64), options, progress);
  EXPECT_EQ(out.histogram->pairs, 501);
  EXPECT_EQ(out.histogram->texts, 4);
  EXPECT_EQ(out.layers[1].histogram->pairs, 501);
  EXPECT_EQ(out.histogram->intervals.mean.unit, "texts");
  const auto one = analyse_distance(passes_for(model, 1, 64), options, progress);
  // Of one text an interval is one of blocks; too few rows give none.
  EXPECT_TRUE(!one.histogram->intervals.mean.known() ||
              one.histogram->intervals.mean.unit == "blocks");
  EXPECT_EQ(one.histogram->texts, 1);
}

TEST_P(EveryEncoding, MapsAreExactAndKeepTheirSums) {
  const auto model = small_model(GetParam());
  const Passes passes = passes_for(model, 1, 40);
  protocol::MapRequest options;
  options.head = {"L1H1"};
  options.rows = protocol::Range{10, 14}, options.cols = protocol::Range{3, 9};
  const auto zoomed = analyse_map(*passes[0], options);
  EXPECT_EQ(zoomed.result.height, 4);
  EXPECT_EQ(zoomed.result.width, 6);
  const at::Tensor whole = weights_of(*passes[0], 1)[1];
  const auto expected = to_vector<float>(whole.slice(0, 10, 14).slice(1, 3, 9));
  const auto got = zoomed.tensors[0].values<float>();
  for (std::size_t n = 0; n < expected.size(); ++n) EXPECT_NEAR(got[n], expected[n], 1e-6);

  options.rows.reset(), options.cols.reset();
  options.size = {8, 8};
  const auto pooled = analyse_map(*passes[0], options);
  const auto cells = pooled.tensors[0].values<float>();
  double sum = 0;  // of the last row of cells: its width is 5 keys
  for (std::size_t x = 0; x < 8; ++x) sum += 5 * static_cast<double>(cells[7 * 8 + x]);
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(cells[7], kMasked);  // row 0, column 7
  // The row profile is the mean over unmasked pairs: rows sum to 1 over q + 1 keys.
  const auto profile = pooled.tensors[1].values<float>();
  double keys = 0;
  for (int q = 35; q < 40; ++q) keys += q + 1;
  EXPECT_NEAR(profile[7], 5 / keys, 1e-6);
}

// Of all keys, whichever are shown.
TEST_P(EveryEncoding, MapsNameTheTopKeysOfTheirQueries) {
  const auto passes = passes_for(small_model(GetParam()), 1, 40);
  protocol::MapRequest options;
  options.head = {"L1H1"};
  options.rows = protocol::Range{1, 14}, options.cols = protocol::Range{3, 9};
  options.top = 3;
  const auto out = analyse_map(*passes[0], options);
  ASSERT_EQ(out.result.top.size(), 13u);
  const at::Tensor weights = weights_of(*passes[0], 1)[1];
  for (const protocol::TopKeys& top : out.result.top) {
    const at::Tensor row = weights[top.query].slice(0, 0, top.query + 1);
    const auto largest = to_vector<double>(std::get<0>(row.sort(0, true)));
    ASSERT_EQ(top.keys.size(), std::min<std::size_t>(3, largest.size())) << top.query;
    for (std::size_t n = 0; n < top.keys.size(); ++n) {
      EXPECT_NEAR(top.weights[n], largest[n], 1e-6);
      EXPECT_NEAR(row[top.keys[n]].item<double>(), largest[n], 1e-6);
    }
  }
  EXPECT_EQ(out.result.top[0].query, 1);
}

TEST_P(EveryEncoding, ScoresAddUp) {
  const Passes passes = passes_for(small_model(GetParam()), 1, 24);
  protocol::MapRequest options;
  options.head = {"L1H0"};
  const auto values = [&](const std::string& of) {
    options.of = of;
    const auto map = analyse_map(*passes[0], options);
    const auto span = map.tensors[0].values<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  const auto score = values("score"), content = values("content"),
             positional = values("positional");
  for (std::size_t n = 0; n < score.size(); ++n) {
    const bool masked = n % 24 > n / 24;
    EXPECT_EQ(score[n] == kMasked, masked) << n;
    EXPECT_EQ(content[n] == kMasked, masked) << n;
    EXPECT_EQ(positional[n] == kMasked, masked) << n;
    if (masked) continue;
    EXPECT_NEAR(score[n], content[n] + positional[n], 1e-4 * (1 + std::abs(content[n])));
  }
}

// A cell that is masked and a cell that holds a NaN are two things, in every form of a map.
TEST_P(EveryEncoding, ANaNIsNoMask) {
  const auto whole = small_model(GetParam());
  model::Weights weights = whole->decoder.weights();
  weights.embedding = weights.embedding.clone();
  weights.embedding[31].fill_(std::nan(""));
  const auto model = std::make_shared<const model::Model>(
      model::Model{whole->report, whole->tokenizer,
                   model::Decoder(whole->config(), whole->decoder.shared_encoding(), weights)});
  std::vector<std::int64_t> ids(40, 3);
  ids[20] = 31;
  TextPass pass(model, ids_tensor(ids));
  protocol::MapRequest options;
  options.head = {"L0H0"};
  for (const char* of : {"weight", "score", "content", "positional"}) {
    for (const char* pool : {"mean", "max"}) {
      options.of = of, options.pool = pool;
      const auto map = analyse_map(pass, options);
      const auto cells = map.tensors[0].values<float>();
      const bool by_row = options.of == "weight";  // one NaN score leaves no weight of its row
      for (std::size_t q = 0; q < 40; ++q) {
        for (std::size_t k = 0; k < 40; ++k) {
          const float cell = cells[q * 40 + k];
          const bool lost = q == 20 || (by_row ? q > 20 : k == 20);
          EXPECT_EQ(cell == kMasked, k > q) << of << pool << q << ' ' << k;
          EXPECT_EQ(std::isnan(cell), k <= q && lost) << of << pool << q << ' ' << k;
        }
      }
      EXPECT_TRUE(std::isfinite(map.result.low) && std::isfinite(map.result.high));
    }
  }
  options.of = "content", options.pool = "mean";
  options.size = {8, 8};
  const auto pooled = analyse_map(pass, options);
  for (std::size_t x = 0; x < 8; ++x) {  // the last row of cells: only column 20 has a NaN
    EXPECT_EQ(std::isnan(pooled.tensors[0].values<float>()[7 * 8 + x]), x == 4) << x;
  }
  model::AllRan kernels;
  const auto thumbnail = to_vector<float>(layer_thumbnails(*pass.layer(0), 40, &kernels)[0]);
  EXPECT_EQ(kernels, pass.kernels());
  EXPECT_EQ(thumbnail[1], kMasked);
  EXPECT_TRUE(std::isfinite(thumbnail[19 * 40]));
  EXPECT_TRUE(std::isnan(thumbnail[20 * 40]));
}

TEST_P(EveryEncoding, ShiftedIdsChangeWhatTheEncodingSays) {
  const auto model = small_model(GetParam());
  protocol::NoProgress progress;
  ShiftOptions options;
  options.methods = {ShiftMethod::ids};
  const auto ids = random_texts(1, 30, 32, 8).items[0].ids;
  const ShiftOutput out = analyse_shift(model, ids, options, progress);
  ASSERT_FALSE(out.rows.empty());
  for (const protocol::ShiftRow& row : out.rows) {
    EXPECT_TRUE(model->encoding().shift_invariant());
    // 100 x float32 rounding of weights, or float64's.
    EXPECT_LT(row.attention_difference, row.dtype == "f64" ? 1e-9 : 1e-2) << row.dtype;
    EXPECT_LT(row.logits_difference, row.dtype == "f64" ? 1e-10 : 1e-3);
    EXPECT_EQ(row.position_difference.has_value(), model->encoding().has_state());
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryEncoding, ::testing::ValuesIn(kEncodings));

TEST(Shift, AddedTokensMoveWhatReadsThem) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  ShiftOptions options;
  options.methods = {ShiftMethod::tokens};
  options.by = {3};
  options.dtypes = {"f64"};
  const auto ids = random_texts(1, 20, 32, 8).items[0].ids;
  const auto rows = analyse_shift(model, ids, options, progress).rows;
  ASSERT_EQ(rows.size(), 2u);
  // By hand: the same text after three tokens of id 0.
  const auto exact = model::in_dtype(model, at::kDouble);
  auto longer = ids;
  longer.insert(longer.begin(), 3, 0);
  TextPass before(exact, ids_tensor(ids)), after(exact, ids_tensor(longer));
  const at::Tensor difference =
      (weights_of(before, 1) - weights_of(after, 1).slice(1, 3, 23).slice(2, 3, 23)).abs();
  EXPECT_NEAR(rows[1].attention_difference, 100 * difference.sum(-1).mean().item<double>(), 1e-9);
  EXPECT_GT(rows[1].attention_difference, 1);
}

TEST(Heads, CorpusHasIntervals) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"entropy", "induction", "distance_profile"};
  const auto out = analyse_heads(passes_for(model, 6, 20, 0), options, progress);
  EXPECT_TRUE(out.result.corpus);
  const Interval entropy = out.result.rows[0].values.at("entropy");
  EXPECT_EQ(entropy.n, 6);
  EXPECT_LT(*entropy.low, entropy.mean);
  EXPECT_GT(*entropy.high, entropy.mean);
  EXPECT_EQ(out.result.rows[0].distance_profile->count[0], 6 * 20);
}

// The means that Gamma is made of are those of all texts, as the measured scores are.
TEST(Distance, IntrinsicBiasReadsEveryText) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  DistanceOptions options;
  options.histogram = false;
  const Passes corpus = passes_for(model, 3, 21);
  const auto out = analyse_distance(corpus, options, progress);
  ASSERT_EQ(out.intrinsic.size(), 4u);
  for (const protocol::IntrinsicBias& bias : out.intrinsic) {
    double mu = 0, nu = 0;
    for (const auto& pass : corpus) {
      const AttentionPointer attention = pass->layer(bias.layer);
      const at::Tensor q = attention->q()[0][bias.head].to(at::kDouble);
      const at::Tensor k = attention->k()[0][bias.head].to(at::kDouble);
      const at::Tensor x = q.narrow(1, 0, 4), y = q.narrow(1, 4, 4);
      const at::Tensor u = k.narrow(1, 0, 4).t(), v = k.narrow(1, 4, 4).t();
      const at::Tensor a = at::matmul(x, u) + at::matmul(y, v);
      const at::Tensor b = at::matmul(x, v) - at::matmul(y, u);
      mu += a.tril().sum().item<double>() / (3 * 231 * 4);
      nu += b.tril().sum().item<double>() / (3 * 231 * 4);
    }
    EXPECT_NEAR(bias.mu, mu, 1e-12);
    EXPECT_NEAR(bias.nu, nu, 1e-12);
  }
}

TEST(Heads, ThumbnailsAndDivergences) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"entropy", "js_divergence"};
  options.thumbnails = 16;
  const Passes passes = passes_for(model, 1, 40);
  const auto out = analyse_heads(passes, options, progress);
  const auto* thumbnails = protocol::find_tensor(out.tensors, "thumbnails");
  ASSERT_NE(thumbnails, nullptr);
  EXPECT_EQ(thumbnails->shape, (std::vector<std::int64_t>{2, 2, 16, 16}));
  EXPECT_EQ(thumbnails->values<float>()[0], 1);  // row 0 has one key
  const auto divergence = protocol::find_tensor(out.tensors, "js_divergence")->values<double>();
  const auto a = to_vector<double>(weights_of(*passes[0], 0)[1]);
  const auto b = to_vector<double>(weights_of(*passes[0], 1)[0]);
  double expected = 0;
  for (std::size_t q = 0; q < 40; ++q) {
    const std::span<const double> x(a), y(b);
    expected += js_divergence(x.subspan(q * 40, 40), y.subspan(q * 40, 40)) / 40;
  }
  EXPECT_NEAR(divergence[1 * 4 + 2], expected, 1e-5);
  EXPECT_EQ(divergence[0], 0);
}

TEST(Heads, SayWhichMetricsATextIsTooShortFor) {
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"entropy", "sink", "previous_token"};
  const auto note_of = [&](std::int64_t tokens) {
    const auto out = analyse_heads(passes_for(small_model("rope"), 1, tokens), options, progress);
    return out.result.provenance.note;
  };
  EXPECT_NE(note_of(1).find("no head has a value of entropy, previous_token"), std::string::npos)
      << note_of(1);
  EXPECT_EQ(note_of(2).find("no head has a value"), std::string::npos) << note_of(2);
}

TEST(Compare, AModelWithItself) {
  const auto model = small_model("alibi");
  protocol::NoProgress progress;
  const auto same = analyse_compare(passes_for(model, 2, 30), passes_for(model, 2, 30), progress);
  for (const auto& head : same.heads) EXPECT_NEAR(head.js_divergence, 0, 1e-6);
  EXPECT_EQ(same.loss.at("difference"), 0);
  const auto other = analyse_compare(passes_for(model, 2, 30),
                                     passes_for(small_model("rope", 2), 2, 30), progress);
  EXPECT_GT(other.heads[0].js_divergence, 1e-3);
  EXPECT_NEAR(other.loss.at("difference"), other.loss.at("b") - other.loss.at("a"), 1e-12);
}

}  // namespace
}  // namespace phasescope::analysis
