// Figures of single heads and of pairs of heads, and `map`, which draws them.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/options.h"
#include "app/figures/figures.h"
#include "app/figures/intervention_figures.h"
#include "app/figures/map_look.h"
#include "app/figures/query_figures.h"
#include "app/figures/query_key_figures.h"
#include "app/verbs/factories.h"
#include "fake_run.h"
#include "formats/error.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/map.h"
#include "protocol/messages/query.h"
#include "protocol/sink_words.h"

namespace phasescope::app {
namespace {

using protocol::TensorRef;

// ---- a query ----

TEST(QueryRows, LearnedSinksAreAStripBesideTheRowsOfAQuery) {
  protocol::QueryResult query;
  query.model = "rope", query.layers = 2, query.heads = 2;
  query.tokens = query.keys = query.width = 1;
  for (const std::int64_t layer : {0, 1}) {
    for (const std::int64_t head : {0, 1}) query.rows.push_back({layer, head, {0}, {1.0}, {}});
  }
  const Grid cells{{2, 2, 1}, {1, 1, 0.75F, 0.5F}};
  const ModelNames names({"rope"});
  EXPECT_TRUE(query_figure(query, cells, names).map->margin.empty());
  const auto plain = query_table(query);
  query.rows[2].sink = 0.25, query.rows[3].sink = 0.5;  // layer 0 has none
  const auto plot = query_figure(query, cells, names);
  EXPECT_EQ(plot.map->margin,
            (std::vector<float>{widgets::kMaskedCell, widgets::kMaskedCell, 0.25F, 0.5F}));
  EXPECT_EQ(plot.map->margin_name, "learned sink");
  EXPECT_TRUE(std::ranges::any_of(
      plot.notes, [](const auto& note) { return note.find("strip") != std::string::npos; }));
  EXPECT_EQ(query_table(query).notes.size(), plain.notes.size() + 1);
  EXPECT_EQ(query_table(query).notes.front(), protocol::kSinksBesideWeights);
}

// ---- q and k ----

TEST(QueryKey, HeadsThatShareKeysReadTheirOwn) {
  // Four heads read two of keys: head 3 the second one. Two tokens of two channels.
  const std::vector<TensorRef> tensors = {
      TensorRef::own<float>("q.1", {1, 1, 2, 2}, {1, 2, 3, 4}),
      TensorRef::own<float>("k.1", {1, 2, 2, 2}, {0, 0, 0, 0, 5, 6, 7, 8}),
      TensorRef::own<float>("q.1.rotated", {1, 1, 2, 2}, {1, 2, -4, 3}),
      TensorRef::own<float>("k.1.rotated", {1, 2, 2, 2}, {0, 0, 0, 0, 5, 6, -8, 7})};
  const QueryKey values = query_key_of(tensors, "rope", "", 1, 3, 4);
  ASSERT_EQ(values.tokens, 2);
  EXPECT_EQ(values.k, (std::vector<float>{5, 6, 7, 8}));
  const auto figures = pair_channel_figures(values, 1, 0, ModelNames({"rope"}));
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0].series.at(0).y, (std::vector<double>{15, 24}));   // (3, 4) (5, 6)
  EXPECT_EQ(figures[0].series.at(1).y, (std::vector<double>{-20, 18}));  // (-4, 3) (5, 6)
  EXPECT_EQ(figures[0].notes.at(0), "sum before the encoding 39, after it -2");
  const auto maps = channel_maps(values, ModelNames({"rope"}));
  ASSERT_EQ(maps.size(), 4u);
  EXPECT_EQ(maps[2].map->range, (widgets::ValueRange{-8, 8}));  // k before and after
  EXPECT_EQ(maps[2].map->range, maps[3].map->range);
}

// Another colour would be taken for another model's: before and after differ in line and points.
TEST(QueryKey, AreInTheColourOfTheirModel) {
  std::vector<TensorRef> tensors = {TensorRef::own<float>("q.0", {1, 1, 1, 2}, {1, 2}),
                                    TensorRef::own<float>("k.0", {1, 1, 1, 2}, {3, 4}),
                                    TensorRef::own<float>("q.0.rotated", {1, 1, 1, 2}, {2, -1}),
                                    TensorRef::own<float>("k.0.rotated", {1, 1, 1, 2}, {3, 4})};
  const ModelNames names({"rope", "tapa"});
  const auto figures_now = [&] {
    return pair_channel_figures(query_key_of(tensors, "tapa", "", 0, 0, 1), 0, 0, names);
  };
  const std::vector<widgets::PlotSpec> before_and_after = figures_now();
  ASSERT_EQ(before_and_after.size(), 3U);  // the products, q and k
  for (const widgets::PlotSpec& plot : before_and_after) {
    ASSERT_EQ(plot.series.size(), 2U) << plot.id;
    for (const widgets::Series& series : plot.series) {
      EXPECT_EQ(series.color, names.color("tapa")) << plot.id;
    }
    EXPECT_TRUE(plot.series[0].dashed && !plot.series[1].dashed) << plot.id;
    EXPECT_NE(plot.series[0].points, plot.series[1].points) << plot.id;
    const bool same = std::ranges::count(plot.notes, "the encoding leaves these as they are") > 0;
    EXPECT_EQ(same, plot.id.starts_with("key_")) << plot.id;  // k alone stays
  }
  tensors.resize(2);
  const std::vector<widgets::PlotSpec> before = figures_now();
  ASSERT_EQ(before.size(), 3U);
  for (const widgets::PlotSpec& plot : before) {
    ASSERT_EQ(plot.series.size(), 1U) << plot.id;
    EXPECT_FALSE(plot.series[0].dashed) << "alone";
  }
}

TEST(QueryKey, WithoutItsTensorsThereIsNothing) {
  EXPECT_EQ(query_key_of({}, "rope", "", 0, 0, 4).tokens, 0);
}

// Cross attention has queries of one text and keys of another: of three and of two tokens.
TEST(QueryKey, CrossAttentionHasKeysOfItsOwn) {
  const std::vector<TensorRef> tensors = {
      TensorRef::own<float>("enc.q.0", {1, 1, 2, 1}, {9, 9}),
      TensorRef::own<float>("cross.q.0", {1, 1, 3, 1}, {1, 2, 3}),
      TensorRef::own<float>("cross.k.0", {1, 1, 2, 1}, {4, 5})};
  const QueryKey values = query_key_of(tensors, "t5", "cross", 0, 0, 1);
  EXPECT_EQ(values.tokens, 3);
  EXPECT_EQ(values.keys, 2);
  EXPECT_EQ(values.head, "cross.L0H0");
  const ModelNames names({"t5"});
  const auto figures = pair_channel_figures(values, 2, 1, names);
  EXPECT_EQ(figures.at(0).series.at(0).y, std::vector<double>{15});  // 3 times 5
  EXPECT_EQ(figures[2].title, "t5 cross.L0H0: k of the encoder's token 1");
  const auto maps = channel_maps(values, names);
  ASSERT_EQ(maps.size(), 2U);  // nothing rotates
  EXPECT_EQ(maps[0].map->rows, 3);
  EXPECT_EQ(maps[1].map->rows, 2);
  EXPECT_EQ(maps[1].y.of, widgets::Coordinate::key);
  EXPECT_EQ(maps[1].id, "k_before_t5_cross_L0H0");
}

// ---- two models' heads ----

// Models of 2 x 3 and of 1 x 2 heads: only two of the six have a partner, and neither is the last
// of its layer, so that the pairs do not tell how many heads a layer has.
TEST(MatchedHeads, HaveTheirNamesWhereMostHaveNoPartner) {
  protocol::CompareResult result{.a = "rope", .b = "tapa"};
  result.matches = {{0, 1, 0, 0, {}}, {1, 0, 0, 1, {}}};
  const Grid matrix{{6, 2}, std::vector<float>(12, 0.5F)};
  const auto plot = matched_heads_figure(result, matrix, {3, 2}, ModelNames({"rope", "tapa"}));
  std::vector<std::string> rows, columns;
  for (const auto& tick : plot.y.ticks) rows.push_back(tick.label);
  for (const auto& tick : plot.x.ticks) columns.push_back(tick.label);
  EXPECT_EQ(rows, (std::vector<std::string>{"L0H0", "L0H1", "L0H2", "L1H0", "L1H1", "L1H2"}));
  EXPECT_EQ(columns, (std::vector<std::string>{"L0H0", "L0H1"}));
  ASSERT_EQ(plot.series.at(0).y.size(), 2U);
  EXPECT_EQ(std::floor(plot.series[0].y[0]), 1);
  EXPECT_EQ(std::floor(plot.series[0].y[1]), 3);  // L1H0 is the fourth head
  EXPECT_EQ(std::floor(plot.series[0].x[1]), 1);
  EXPECT_TRUE(std::ranges::any_of(plot.notes, [](const std::string& note) {
    return note.find("4 heads of rope have no partner") != std::string::npos;
  }));
}

// A model of 2 layers of 2 heads, the first of which has a state in place of attention, beside one
// of 3 heads: the cells of heads that are not there are no heads without a partner.
TEST(MatchedHeads, CountNoHeadsThatAreNotThere) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  protocol::CompareResult result{.a = "rope", .b = "tapa"};
  result.matches = {{1, 0, 0, 0, {}}, {1, 1, 0, 1, {}}};
  const auto notes_of = [&](const Grid& matrix) {
    std::string notes;
    for (const std::string& note :
         matched_heads_figure(result, matrix, {2, 3}, ModelNames({"rope", "tapa"})).notes) {
      notes += note + "\n";
    }
    return notes;
  };
  const Grid three{{4, 3}, {kNone, kNone, kNone, kNone, kNone, kNone, 0, 1, 2, 3, 4, 5}};
  EXPECT_NE(notes_of(three).find("; 1 head of tapa has no partner"), std::string::npos)
      << notes_of(three);
  const Grid two{{4, 2}, {kNone, kNone, kNone, kNone, 0, 1, 2, 3}};
  EXPECT_EQ(notes_of(two).find("no partner"), std::string::npos) << notes_of(two);
}

// ---- maps ----

// Of weights of two rows and two cells, each of which holds `pairs` x `pairs` pairs.
protocol::MapResult map_result(const std::string& model, std::int64_t pairs = 1) {
  protocol::MapResult map{.model = model};
  map.height = map.width = 2;
  map.tokens = map.keys = map.row_end = map.column_end = 2 * pairs;
  map.pool = "max";
  return map;
}

// Two maps that differ by 0.5 somewhere may have the same largest weight.
TEST(MapDifference, SaysThatItIsOfPooledCells) {
  const Grid a{{2, 2}, {0.75F, 0, 0.5F, 0.5F}}, b{{2, 2}, {0.25F, 0, 0.75F, 0.25F}};
  const ModelNames names({"rope", "tapa"});
  const auto note_of = [&](const std::string& pool, std::int64_t pairs) {
    protocol::MapResult one = map_result("rope", pairs), other = map_result("tapa", pairs);
    one.pool = other.pool = pool;
    return map_difference_figure(one, a, other, b, names).notes.back();
  };
  EXPECT_NE(note_of("max", 4).find("not the largest difference"), std::string::npos);
  EXPECT_EQ(note_of("max", 1).find("largest"), std::string::npos);
  EXPECT_EQ(note_of("mean", 4).find("largest"), std::string::npos);  // a mean of differences
}

// What a verb makes of words in the order of a command line.
Output made_by(std::unique_ptr<Verb> verb, FakeRun& run, std::vector<std::string> words) {
  CLI::App parser;
  Options options(parser);
  verb->declare(options);
  std::ranges::reverse(words);  // the parser takes them from the end
  parser.parse(words);
  return verb->run(run);
}

TEST(MapVerb, DrawsTheLookThatIsChosen) {
  FakeRun run;
  run.replies["map"] = {protocol::to_json_form(map_result("rope")), {}};
  run.replies["map"].tensors.push_back(
      TensorRef::own<float>("map", {2, 2}, {1, widgets::kMaskedCell, 0.75F, 0.25F}));
  const auto spec = [&](const std::vector<std::string>& words) {
    return *made_by(map_verb(), run, words).figures.at(0).map;
  };
  EXPECT_EQ(spec({"rope"}).log_decades, 0);
  EXPECT_EQ(spec({"rope"}).range, (widgets::ValueRange{0, 1}));
  EXPECT_EQ(spec({"rope", "--scale", "log", "--decades", "3"}).log_decades, 3);
  EXPECT_EQ(spec({"rope", "--low", "0.25", "--high", "0.5"}).range,
            (widgets::ValueRange{0.25, 0.5}));
  EXPECT_EQ(spec({"rope", "--leave-out-first"}).range, (widgets::ValueRange{0, 0.25}));
  EXPECT_FALSE(run.requests.back().params.contains("scale")) << "no worker sees it";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"rope", "--low", "1", "--high", "0.5"},
        {"rope", "--scale", "log", "--low", "0.5"},
        {"rope", "--decades", "3"},
        {"rope", "--of", "score", "--scale", "log"}}) {
    EXPECT_THROW(made_by(map_verb(), run, words), formats::Error)
        << ::testing::PrintToString(words);
  }
}

TEST(MapVerb, SubtractsAnotherMap) {
  FakeRun run;
  run.replies["map"] = {protocol::to_json_form(map_result("rope")), {}};
  run.replies["map"].tensors.push_back(
      TensorRef::own<float>("map", {2, 2}, {1, widgets::kMaskedCell, 0.75F, 0.25F}));
  const Output output = made_by(
      map_verb(), run, {"rope", "--head", "L1H1", "--minus", "tapa", "--minus-head", "L2H3"});
  ASSERT_EQ(run.requests.size(), 2U);
  EXPECT_EQ(run.requests[0].params["head"], nlohmann::json::array({"L1H1"}));
  EXPECT_EQ(run.requests[1].params["model"], "tapa");
  EXPECT_EQ(run.requests[1].params["head"], nlohmann::json::array({"L2H3"}));
  ASSERT_EQ(output.figures.size(), 3U);
  // The canned maps are equal.
  EXPECT_EQ(output.figures[2].map->values, (std::vector<float>{0, widgets::kMaskedCell, 0, 0}));
  EXPECT_TRUE(output.result.contains("a") && output.result.contains("b"));
  made_by(map_verb(), run, {"rope", "--minus-head", "L2H3"});
  EXPECT_EQ(run.requests.back().params["model"], "rope");
}

// ---- the table of heads ----

TEST(HeadsVerb, SortsBothWaysAndHeadsWithoutANumberStandLast) {
  protocol::HeadsResult heads{.model = "rope", .layers = 1, .heads = 4};
  const double none = std::nan("");
  for (const double sink : {0.25, none, 0.75, 0.5}) {
    const auto head = static_cast<std::int64_t>(heads.rows.size());
    heads.rows.push_back({0, head, {{"sink", {sink, {}, {}, 1}}}, {}});
  }
  FakeRun run;
  run.replies["heads"] = {protocol::to_json_form(heads), {}};
  const auto order = [&](const std::vector<std::string>& words) {
    std::vector<int> found;
    const Output output = made_by(heads_verb(), run, words);
    for (const auto& row : output.tables.at(0).rows) found.push_back(row["head"]);
    return found;
  };
  EXPECT_EQ(order({"rope"}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(order({"rope", "--sort", "sink"}), (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(order({"rope", "--sort", "sink", "--ascending"}), (std::vector<int>{0, 3, 2, 1}));
  EXPECT_THROW(order({"rope", "--ascending"}), formats::Error);
}

}  // namespace
}  // namespace phasescope::app
