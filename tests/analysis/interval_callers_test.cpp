// 17.A5: every number that is shown has its interval by the rule for it, or none and says so. The
// intervals of whole analyses are made again here from analyses of single texts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/heads.h"
#include "analysis/intervals/intervals.h"
#include "analysis/shift.h"
#include "golden_tape.h"
#include "protocol/messages/addressing.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::Passes;
using testing::passes_for;
using testing::small_config;
using testing::small_model;

// Two orders of the same sums of float32 scores.
constexpr double kOrders = 1e-5;

// Texts of unequal lengths through one model.
Passes uneven_passes(const testing::ModelPointer& model) {
  Passes passes;
  for (const std::int64_t length : {20, 33, 48, 27, 64}) {
    passes.push_back(std::make_shared<TextPass>(
        model, ids_tensor(random_texts(1, length, model->config().vocab_size,
                                       static_cast<std::uint64_t>(length))
                              .items[0]
                              .ids)));
  }
  return passes;
}

void expect_near(const protocol::IntervalEnd& got, const protocol::IntervalEnd& expected) {
  ASSERT_EQ(got.has_value(), expected.has_value());
  if (!got) return;
  EXPECT_NEAR(*got, *expected, kOrders * (1 + std::abs(*expected)));
}

protocol::HeadsResult heads_of(const Passes& passes) {
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"entropy", "sink", "induction", "induction_loss", "js_divergence"};
  if (passes.size() > 1) options.draws = 16;
  return analyse_heads(passes, options, progress).result;
}

TEST(HeadIntervals, ASingleTextHasNone) {
  const auto heads = heads_of(passes_for(small_model("rope"), 1, 40));
  // As a client of the worker reads it.
  const auto read = protocol::from_json_form<protocol::HeadsResult>(protocol::to_json_form(heads));
  for (const protocol::HeadsResult& result : {heads, read}) {
    for (const protocol::HeadRow& row : result.rows) {
      EXPECT_EQ(row.values.size(), 4u);
      for (const auto& [key, value] : row.values) {
        EXPECT_FALSE(value.known()) << key;
        EXPECT_EQ(value.n, 1) << key;
      }
    }
    for (const auto& [key, value] : result.model_values) EXPECT_FALSE(value.known()) << key;
  }
}

TEST(HeadIntervals, SayWhatTheyCount) {
  const auto result = heads_of(passes_for(small_model("rope"), 6, 20));
  for (const protocol::HeadRow& row : result.rows) {
    EXPECT_EQ(words_of(row.values.at("entropy")), "Student t, n = 6 texts");
    EXPECT_EQ(words_of(row.values.at("induction")), "Student t, n = 16 draws");
    EXPECT_EQ(words_of(row.values.at("js_divergence")), "Student t, n = 6 texts");
  }
  EXPECT_EQ(words_of(result.model_values.at("induction_loss")), "Student t, n = 16 draws");
}

TEST(HeadIntervals, FromThirtyTextsOnAreStudentised) {
  const auto result = heads_of(passes_for(small_model("rope"), 30, 12));
  EXPECT_EQ(result.rows[0].values.at("entropy").method, "bootstrap-t");
}

// A model of which half of the heads are sinks in some texts alone: weights on key 0 of about .3.
TEST(HeadIntervals, SinkRateIsCountedTextByText) {
  const auto model = small_model("none");
  Passes passes;
  for (const std::int64_t length : {4, 5, 6, 7, 8, 12}) {  // about ln(N) / N on key 0
    passes.push_back(std::make_shared<TextPass>(
        model,
        ids_tensor(random_texts(1, length, 32, static_cast<std::uint64_t>(length)).items[0].ids)));
  }
  std::vector<double> rates;
  for (const auto& pass : passes) rates.push_back(heads_of({pass}).sink_rate);
  const Interval expected = mean_interval(rates, Draws());
  ASSERT_TRUE(expected.known());
  EXPECT_GT(*expected.high, *expected.low);  // the texts differ
  const auto result = heads_of(passes);
  const Interval& got = result.model_values.at("sink_rate");
  EXPECT_EQ(result.sink_rate, got.mean);
  EXPECT_DOUBLE_EQ(got.mean, expected.mean);
  EXPECT_EQ(got.n, 6);
  expect_near(got.low, expected.low);
  expect_near(got.high, expected.high);
}

// Of two texts Student's t reaches 12.7 standard errors.
TEST(HeadIntervals, OfTwoTextsStayAmongTheValuesThatThereAre) {
  const auto model = small_model("none");
  Passes passes;
  for (const std::int64_t length : {4, 12}) {
    passes.push_back(std::make_shared<TextPass>(
        model,
        ids_tensor(random_texts(1, length, 32, static_cast<std::uint64_t>(length)).items[0].ids)));
  }
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"entropy",        "entropy_normalised", "sink",
                     "previous_token", "window_mass_16",     "mean_distance",
                     "effective_keys", "js_divergence",      "distance_profile"};
  const protocol::HeadsResult result = analyse_heads(passes, options, progress).result;
  const std::map<std::string, ValueRange> ranges{{"entropy", {.low = 0}},
                                                 {"mean_distance", {.low = 0}},
                                                 {"effective_keys", {.low = 1}},
                                                 {"js_divergence", {0, std::log(2.0)}}};
  std::map<std::string, int> known;
  // The weights of twelve keys sum to 1 but for the rounding of each.
  constexpr double kRowOfFloats = 12 * std::numeric_limits<float>::epsilon();
  for (const protocol::HeadRow& row : result.rows) {
    for (const auto& [key, value] : row.values) {
      if (!value.known()) continue;
      const auto own = ranges.find(key);
      const ValueRange range = own != ranges.end() ? own->second : ValueRange{0, 1};
      // All keys are among the last sixteen: what the texts differ by is rounding.
      const double least = key == "window_mass_16" ? 1 - 20 * kRowOfFloats : range.low;
      EXPECT_GE(*value.low, least) << key;
      EXPECT_LE(*value.high, range.high + kRowOfFloats) << key;
      ++known[key];
    }
    for (const protocol::ProfileBand& band : row.distance_profile->bands) {
      if (!band.weight.known()) continue;
      EXPECT_GE(*band.weight.low, 0);
      EXPECT_LE(*band.weight.high, 1);
      ++known["distance_profile"];
    }
  }
  for (const std::string& key : options.metrics) EXPECT_GT(known[key], 0) << key;
  const Interval& rate = result.model_values.at("sink_rate");
  EXPECT_EQ(words_of(rate), "too few to tell, n = 2 texts");
  EXPECT_EQ(rate.low, protocol::IntervalEnd(0));
  EXPECT_EQ(rate.high, protocol::IntervalEnd(1));
}

protocol::DistanceModel distance_of(const Passes& passes, bool histogram = false) {
  protocol::NoProgress progress;
  DistanceOptions options;
  options.per_head = true;
  options.histogram = histogram;
  options.pairs = 4000;
  return analyse_distance(passes, options, progress);
}

// The pairs of a text are its weight: of 5 texts of 20 to 64 tokens.
TEST(DistanceIntervals, ProfilesAreRatiosOverTexts) {
  const auto model = small_model("alibi");
  const Passes passes = uneven_passes(model);
  const auto corpus = distance_of(passes);
  std::vector<protocol::DistanceModel> alone;
  for (const auto& pass : passes) alone.push_back(distance_of({pass}));
  for (const std::size_t d : {1u, 15u, 30u, 60u}) {
    std::vector<Part> scores, weights, contents;
    for (const protocol::DistanceModel& text : alone) {
      if (d >= text.heads[3].profile.size()) continue;
      const protocol::DistancePoint& point = text.heads[3].profile[d];
      const auto count = static_cast<double>(point.count);
      scores.push_back({count * point.score_mean, count});
      weights.push_back({count * point.weight_mean, count});
      contents.push_back({count * point.content_mean, count});
    }
    const protocol::DistancePoint& point = corpus.heads[3].profile[d];
    EXPECT_EQ(point.n, static_cast<std::int64_t>(scores.size())) << d;
    const Interval score = ratio_interval(scores, Draws());
    expect_near(point.score_low, score.low);
    expect_near(point.score_high, score.high);
    expect_near(point.weight_high, ratio_interval(weights, Draws()).high);
    expect_near(point.content_low, ratio_interval(contents, Draws()).low);
    EXPECT_EQ(point.score_low.has_value(), d != 60);  // one text of 64 tokens reaches it
  }
  EXPECT_TRUE(corpus.profile[1].score_low && corpus.layers[1].profile[1].weight_low);
  EXPECT_NE(corpus.bands.find("jackknife t"), std::string::npos);
}

TEST(DistanceIntervals, ASingleTextHasBlocksOrNone) {
  const auto model = small_model("alibi");
  const auto brief = distance_of(passes_for(model, 1, 60), true);
  EXPECT_FALSE(brief.profile[1].score_low.has_value());
  EXPECT_NE(brief.bands.find("none"), std::string::npos) << brief.bands;
  // 15/16 of 60 tokens leaves 4 queries with a far key.
  EXPECT_FALSE(brief.histogram->intervals.mean.known());
  EXPECT_EQ(brief.histogram->texts, 1);
  const auto longer = distance_of(passes_for(model, 1, 96), true);
  EXPECT_EQ(longer.profile[1].n, 8);
  EXPECT_LT(*longer.profile[1].score_low, longer.profile[1].score_mean);
  EXPECT_FALSE(longer.profile[12].score_low.has_value());  // the first block's 12 rows end before
  EXPECT_NE(longer.bands.find("8 blocks"), std::string::npos);
  protocol::NoProgress progress;
  DistanceOptions options;
  options.near = {1, 4}, options.far = {20, 90};  // 76 queries
  const auto blocks = analyse_distance(passes_for(model, 1, 96), options, progress);
  const Interval& mean = blocks.histogram->intervals.mean;
  EXPECT_EQ(words_of(mean), "8 blocks of one text");
  EXPECT_EQ(mean.n, 8);
  EXPECT_EQ(blocks.histogram->texts, 1);
  EXPECT_LT(*mean.low, mean.mean);
}

TEST(DistanceIntervals, HistogramsHaveTheirMomentsByText) {
  const auto result = distance_of(uneven_passes(small_model("alibi")), true);
  const protocol::NearFarIntervals& got = result.histogram->intervals;
  // 15/16 of 64 tokens: one text of five has such a far key.
  EXPECT_EQ(words_of(got.mean), "none (one text)");
  const auto even = distance_of(passes_for(small_model("alibi"), 5, 64), true);
  EXPECT_FALSE(even.histogram->intervals.skewness.known());  // from 30 texts on
  for (const Interval& of : {even.histogram->intervals.mean, even.histogram->intervals.sigma}) {
    EXPECT_EQ(words_of(of), "jackknife t, n = 5 texts");
    EXPECT_LT(*of.low, *of.high);
  }
  EXPECT_EQ(even.histogram->intervals.share_positive.method, "Wilson");
  const auto read = protocol::from_json_form<protocol::DistanceModel>(protocol::to_json_form(even));
  EXPECT_EQ(read.histogram->intervals.sigma.low, even.histogram->intervals.sigma.low);
}

// The scaling has other angles for other lengths: the curve is that of the longest text.
TEST(DistanceIntervals, IntrinsicBiasIsThatOfTextsOfItsAngles) {
  auto config = small_config("rope");
  config.encoding.options = {{"scaling", "dynamic"}, {"factor", 2.0}, {"trained_context", 16}};
  const auto model = model::random_model(config, 3);
  const Passes passes = uneven_passes(model);
  const auto corpus = distance_of(passes), longest = distance_of({passes.back()});
  ASSERT_EQ(corpus.intrinsic.size(), longest.intrinsic.size());
  ASSERT_FALSE(corpus.intrinsic.empty());
  for (std::size_t n = 0; n < corpus.intrinsic.size(); ++n) {
    EXPECT_DOUBLE_EQ(corpus.intrinsic[n].mu, longest.intrinsic[n].mu);
    EXPECT_EQ(corpus.intrinsic[n].sqrt_d_gamma, longest.intrinsic[n].sqrt_d_gamma);
  }
  EXPECT_NE(corpus.note.find("4 shorter texts turn by others"), std::string::npos) << corpus.note;
}

TEST(ShiftIntervals, AreOfTheBlocksOfTheText) {
  const auto model = small_model("tape");
  protocol::NoProgress progress;
  ShiftOptions options;
  options.methods = {ShiftMethod::tokens};
  options.by = {3};
  options.dtypes = {"f64"};
  const auto rows_of = [&](std::int64_t tokens) {
    return analyse_shift(model, random_texts(1, tokens, 32, 8).items[0].ids, options, progress)
        .rows;
  };
  const protocol::ShiftRow brief = rows_of(40)[1], longer = rows_of(100)[1];
  EXPECT_FALSE(brief.attention_low || brief.position_low);
  EXPECT_EQ(brief.interval, "none");
  EXPECT_EQ(longer.interval, "8 blocks of one text");
  EXPECT_EQ(longer.n, 8);
  EXPECT_LT(*longer.attention_low, longer.attention_difference);
  EXPECT_GT(*longer.attention_high, longer.attention_difference);
  EXPECT_LE(*longer.position_low, *longer.position_difference);
  EXPECT_GE(*longer.position_high, *longer.position_difference);
}

TEST(CompareIntervals, ArePairedByText) {
  protocol::NoProgress progress;
  const auto a = small_model("rope"), b = small_model("alibi");
  const Passes first = uneven_passes(a), second = uneven_passes(b);
  const auto got = analyse_compare(first, second, progress);
  std::vector<Part> losses, divergences;
  for (std::size_t t = 0; t < first.size(); ++t) {
    const auto alone = analyse_compare({first[t]}, {second[t]}, progress);
    EXPECT_EQ(alone.loss_difference.known(), first[t]->tokens() == 65);  // 63 losses at most
    const auto count = static_cast<double>(first[t]->tokens());
    losses.push_back({alone.loss.at("difference") * (count - 1), count - 1});
    divergences.push_back({alone.heads[3].js_divergence * count, count});
    EXPECT_EQ(alone.heads[3].low.has_value(), count == 64);  // by blocks
  }
  const Interval loss = ratio_interval(losses, Draws()),
                 divergence = ratio_interval(divergences, Draws());
  EXPECT_NEAR(got.loss.at("difference"), loss.mean, kOrders);
  expect_near(got.loss_difference.low, loss.low);
  expect_near(got.loss_difference.high, loss.high);
  expect_near(got.heads[3].low, divergence.low);
  EXPECT_EQ(got.heads[3].n, 5);
  EXPECT_EQ(got.heads[3].method, "jackknife t");
}

TEST(IntervalJson, HasNullWhereThereIsNone) {
  const auto json = protocol::to_json_form(Interval{2.5, {}, {}, 1});
  EXPECT_EQ(json.at("value"), 2.5);
  EXPECT_FALSE(json.contains("mean"));
  EXPECT_TRUE(json.at("low").is_null() && json.at("high").is_null());
  EXPECT_EQ(*protocol::value_of_interval(json), 2.5);
  EXPECT_EQ(protocol::value_of_interval({{"what", "rows"}, {"value", 3}}), nullptr);
  EXPECT_EQ(protocol::value_of_interval(3), nullptr);
  const auto back = protocol::from_json_form<Interval>(json);
  EXPECT_FALSE(back.known());
  EXPECT_EQ(back.n, 1);
  // As files of before have it.
  const auto old = protocol::from_json_form<Interval>(
      {{"mean", 1.5}, {"low", "nan"}, {"high", "nan"}, {"n", 1}});
  EXPECT_FALSE(old.known());
  EXPECT_EQ(old.mean, 1.5);
  const auto known =
      protocol::from_json_form<Interval>({{"mean", 1.5}, {"low", 1}, {"high", 2.25}, {"n", 7}});
  EXPECT_EQ(known.high, protocol::IntervalEnd(2.25));
  EXPECT_EQ(known.mean, 1.5);
  auto histogram = protocol::to_json_form(protocol::NearFar{});
  histogram.erase("intervals");
  histogram.update({{"mean", 1.5},
                    {"mean_low", 1},
                    {"mean_high", 2},
                    {"texts", 9},
                    {"interval", "clustered by text (9 texts)"}});
  const Interval mean = protocol::from_json_form<protocol::NearFar>(histogram).intervals.mean;
  EXPECT_EQ(mean.low, protocol::IntervalEnd(1));
  EXPECT_EQ(words_of(mean), "clustered by text (9 texts), n = 9 texts");
}

// What is undefined is null, and the reason stands beside it; what was left out before reads alike.
TEST(IntervalJson, OfWhatIsUndefinedIsNullWithAReason) {
  protocol::AddressingRow row;
  row.why = "the scores do not vary";
  auto json = protocol::to_json_form(row);
  ASSERT_TRUE(json.contains("trend"));
  EXPECT_TRUE(json["trend"].is_null() && json["distance_first"].is_null());
  EXPECT_EQ(json["why"], row.why);
  EXPECT_FALSE(protocol::from_json_form<protocol::AddressingRow>(json).trend);
  json.erase("trend");
  EXPECT_FALSE(protocol::from_json_form<protocol::AddressingRow>(json).trend);
  row.trend = Interval{0.5, 0.25, 0.75, 4};
  const auto read = protocol::from_json_form<protocol::AddressingRow>(protocol::to_json_form(row));
  EXPECT_EQ(read.trend->high, protocol::IntervalEnd(0.75));
}

}  // namespace
}  // namespace phasescope::analysis
