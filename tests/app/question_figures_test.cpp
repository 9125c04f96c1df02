// Figures of the questions about positions.
#include "app/figures/question_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "app/outputs/question_output.h"

namespace phasescope::app {
namespace {

protocol::Interval about(double mean, double half) {
  protocol::Interval interval{mean, mean - half, mean + half, 5};
  interval.method = "jackknife t";
  return interval;
}

TEST(QuestionFigures, DemandHasASmallPlotAHeadOnOneScale) {
  protocol::DemandResult result{.model = "rope", .edges = {0, 1, 2, 4}, .trained = 3};
  for (std::int64_t head = 0; head < 3; ++head) {
    protocol::DemandRow row{head / 2, head % 2, {}};
    for (const double x : {1.0, -2.0, 0.5, 0.5}) row.demand.push_back(about(double(head) * x, 1));
    result.rows.push_back(row);
  }
  const widgets::GridSpec grid = demand_grid(result, ModelNames({"rope"}));
  ASSERT_EQ(grid.cells.size(), 3u);
  EXPECT_EQ(grid.columns, 2);
  for (const widgets::GridCell& cell : grid.cells) {
    ASSERT_TRUE(cell.plot);
    EXPECT_LE(*cell.plot->y.low, -5);  // head 2's -4 - 1
    EXPECT_GE(*cell.plot->y.high, 3);
    EXPECT_EQ(cell.plot->y.low, grid.cells[0].plot->y.low);
    const widgets::Series& bars = cell.plot->series.at(0);
    EXPECT_EQ(bars.kind, widgets::SeriesKind::bars);
    EXPECT_EQ(bars.high[1], bars.y[1] + 1);
    // Distance 3 stands in the middle of the bucket [2, 4), which is drawn from 1.5 to 2.5.
    EXPECT_TRUE(cell.plot->markers.back().beyond);
    EXPECT_EQ(cell.plot->markers.back().at, 2);
  }
  EXPECT_EQ(grid.cells[2].caption, "L1H0");
  EXPECT_EQ(grid.cells[2].plot->series[0].y, (std::vector<double>{2, -4, 1, 1}));
}

TEST(QuestionFigures, AcuityOfHeadsIsAMapOfTheBandThatMattersMost) {
  const auto band = [](std::int64_t low, std::optional<double> change) {
    protocol::AcuityBand one{.low = low, .high = 2 * low};
    if (change) one.change_seen = about(*change, 0.1);
    return one;
  };
  protocol::AcuityResult result{.model = "rope", .bands = {band(1, 3), band(2, 4)}};
  const ModelNames names({"rope"});
  EXPECT_EQ(acuity_figures(result, names).size(), 1u);
  result.rows = {{0, 0, {band(1, 0.5), band(2, 0.1)}},
                 {0, 1, {band(1, 0.2), band(2, -0.9)}},
                 {1, 1, {band(1, {}), band(2, 0.3)}}};
  const auto figures = acuity_figures(result, names);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_NE(figures[1].title.find("distances 2..3"), std::string::npos) << figures[1].title;
  ASSERT_TRUE(figures[1].map);
  const std::vector<float>& values = figures[1].map->values;
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[0], 0.1F);
  EXPECT_EQ(values[1], -0.9F);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[3], 0.3F);
}

TEST(QuestionFigures, XrayHasABarAShare) {
  protocol::XrayResult result{.model = "rope", .treatment = "window"};
  result.rows = {{0, 0, about(1, 1), about(1, 1), {}}, {0, 1, about(2, 1), about(1, 1), {}}};
  const ModelNames names({"rope"});
  const auto ids_of = [&] {
    std::vector<std::string> ids;
    for (const widgets::PlotSpec& plot : xray_figures(result, names)) ids.push_back(plot.id);
    return ids;
  };
  EXPECT_EQ(std::ranges::count(ids_of(), "xray_shares_rope"), 0);  // nothing fails
  for (protocol::XrayRow& row : result.rows) row.share = about(row.one_alone.mean / 4, 0.1);
  ASSERT_EQ(ids_of().at(2), "xray_shares_rope");
  const widgets::PlotSpec plot = xray_figures(result, names)[2];
  EXPECT_EQ(plot.series.at(0).y, (std::vector<double>{0.25, 0.5}));
  EXPECT_EQ(plot.series[0].kind, widgets::SeriesKind::bars);
  EXPECT_NEAR(plot.series[0].low[1], 0.4, 1e-12);
  EXPECT_EQ(plot.x.ticks.at(1).label, "L0H1");
}

// Columns are heads of all layers, so that their number is no head's.
TEST(QuestionFigures, ColumnsOfUnseenPhasesAreNoHeadNumbers) {
  protocol::XrayResult result{.model = "rope", .treatment = "window"};
  result.unseen.push_back({.layer = 3, .head = 1, .planes = {0.5}});
  int found = 0;
  for (const widgets::PlotSpec& plot : xray_figures(result, ModelNames({"rope"}))) {
    if (plot.id.find("unseen") == std::string::npos) continue;
    EXPECT_TRUE(plot.x.of == widgets::Coordinate::none) << plot.id;
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST(QuestionTables, NameNoHeadWhereAWholeLayerIsTreated) {
  protocol::XrayResult result{.model = "rope", .treatment = "window"};
  result.rows = {{1, -1, about(1, 1), about(1, 1), {}}, {1, 2, about(1, 1), about(1, 1), {}}};
  const std::vector<Answered<protocol::XrayResult>> one{
      {result, protocol::to_json_form(result), {}}};
  const Table table = question_output(one, ModelNames({"rope"})).tables.at(0);
  EXPECT_EQ(cell_text(table, table.rows[0], "head"), "-");
  EXPECT_EQ(cell_text(table, table.rows[1], "head"), "2");
}

// No two layers, and no two models, differ by their colour alone.
TEST(QuestionFigures, HeadsOfAddressingAreToldApartByShapes) {
  protocol::AddressingResult result{.model = "a", .formula = "f"};
  protocol::AddressingRow row;
  row.distance_first = row.key_first = row.key_last = row.interaction = about(0.25, 2);
  row.query = about(0.5, 2);
  for (row.layer = 0; row.layer < 3; ++row.layer) result.rows.push_back(row);
  const auto shapes = [](const widgets::PlotSpec& plot) {
    std::set<widgets::PointShape> all;
    for (const widgets::Series& series : plot.series) {
      if (series.kind == widgets::SeriesKind::scatter) all.insert(series.points);
    }
    return all;
  };
  EXPECT_EQ(shapes(addressing_figure(result, ModelNames({"a"}))).size(), 3u);
  protocol::AddressingResult other = result;
  other.model = "b";
  const ModelNames names({"a", "b"});
  EXPECT_EQ(shapes(addressing_of_models({result, other}, names)).size(), 2u);
}

TEST(QuestionFigures, ACurveThatEndsEarlySaysSo) {
  protocol::PairResult result{.model = "xpos"};
  result.curve = {{0, 1, 0.5}, {1, 2, 0.5}};
  result.cut = "the curve ends at distance 1 of 1000000: farther away there are no numbers";
  const ModelNames names({"xpos"});
  for (const widgets::PlotSpec& plot : pair_figures(result, names)) {
    EXPECT_EQ(std::ranges::count(plot.notes, result.cut), 1) << plot.id;
  }
  const auto all = pair_of_models({result}, names);
  EXPECT_EQ(std::ranges::count(all.notes, "xpos: " + result.cut), 1);
}

// The hand's tip stands at the score; other scores are stacked from their parts.
TEST(QuestionFigures, APairIsAHandOrItsParts) {
  const ModelNames names({"tapa"});
  protocol::PairResult tapa{.model = "tapa", .true_distance = 3};
  tapa.clock = {2, 4.0};
  tapa.score = 2 * std::cos(4.0);
  const widgets::PlotSpec hand = pair_figures(tapa, names).at(0);
  EXPECT_EQ(hand.id, "pair_hand_tapa_L0H0");
  EXPECT_NEAR(hand.series.at(1).x.back(), tapa.score, 1e-12);
  EXPECT_NEAR(std::hypot(hand.series[1].x.back(), hand.series[1].y.back()), 2, 1e-12);
  EXPECT_TRUE(hand.equal_axes);
  protocol::PairResult cape{.model = "tapa", .true_distance = 1};
  cape.content = 1, cape.base = -0.5, cape.correction = 0.25;
  cape.curve = {{0, 1.5, 0.5, 0.0, 0.5}, {1, 0.75, 0.5, -0.5, 0.25}};
  const widgets::PlotSpec parts = pair_figures(cape, names).at(0);
  EXPECT_EQ(parts.id, "pair_parts_tapa_L0H0");
  ASSERT_EQ(parts.series.size(), 3u);
  EXPECT_EQ(parts.series[1].y, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(parts.series[2].y, (std::vector<double>{1.5, 0.75}));  // the scores
  EXPECT_EQ(parts.series[1].low, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(parts.series[1].high, (std::vector<double>{1, 1}));
}

// A loss by position has one name for its axis, whichever view it is in.
TEST(QuestionFigures, LossByPositionIsOfPositions) {
  const ModelNames names({"rope"});
  const std::string axis = position_loss_figure(protocol::EvalResult{}, names).x.label;
  EXPECT_EQ(xray_of_models({protocol::XrayResult{.model = "rope"}}, names).x.label, axis);
  EXPECT_EQ(axis, "position (token)");
}

// Heads of two models in one cloud are told apart without their colours.
TEST(QuestionFigures, ProfilesOfModelsDifferInShape) {
  std::vector<protocol::ProfileResult> results;
  for (const char* model : {"rope", "tapa"}) {
    protocol::ProfileResult result{.model = model};
    protocol::ProfileRow row{.layer = 0, .head = 1};
    row.positional = about(0.1, 0.05), row.semantic = about(0.4, 0.05);
    result.rows.push_back(row);
    results.push_back(std::move(result));
  }
  const widgets::PlotSpec plot = profile_of_models(results, ModelNames({"rope", "tapa"}));
  ASSERT_EQ(plot.series.size(), 2U);
  EXPECT_NE(plot.series[0].points, plot.series[1].points);
}

// That of the second model is not drawn as the first one's.
TEST(QuestionFigures, APairIsInTheColourOfItsModel) {
  const ModelNames names({"rope", "tapa"});
  protocol::PairResult result{.model = "tapa", .true_distance = 3};
  result.phasors = {{1, 0.5}}, result.clock = {2, 4.0};
  result.curve = {{0, 1, 0.5}, {1, 2, 0.5}};
  const auto figures = pair_figures(result, names);
  ASSERT_EQ(figures.size(), 4U);
  for (const widgets::PlotSpec& plot : figures) {
    EXPECT_EQ(plot.series.back().color, names.color("tapa")) << plot.id;
  }
}

// The worst head of a metric is its dot; what is undefined on both sides is none.
TEST(QuestionFigures, ClaimsStandByHowFarTheyAreOff) {
  protocol::ProveResult result;
  const double none = std::nan("");
  result.claims = {{"proof-sink", "sink", "text", 0, 0, 0.5, 0.75, 0.5, true},
                   {"proof-sink", "sink", "text", 0, 1, 0.5, 0.4, 0.5, true},
                   {"proof-sink", "entropy", "text", 0, 1, none, none, 0.5, true},
                   {"tape.circuit", "sink", "text", 1, 0, 0, 2, 0.5, false}};
  const widgets::PlotSpec plot = prove_figure(result);
  ASSERT_EQ(plot.series.size(), 1u);
  EXPECT_EQ(plot.series[0].y, (std::vector<double>{0.5, 4}));
  EXPECT_EQ(plot.series[0].names, (std::vector<std::string>{"sink of L0H0", "sink of L1H0"}));
  EXPECT_EQ(plot.x.ticks.at(0).label, "sink");
  EXPECT_NE(plot.notes.at(0).find("4 claims, 1 fail"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::app
