// Results as figures and as tables of verbs.
#include "app/figures/figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/figures/cost_figures.h"
#include "app/figures/map_look.h"
#include "app/figures/plot_json.h"
#include "app/outputs/eval_output.h"
#include "app/outputs/result_tables.h"
#include "cli_tools.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/text.h"
#include "protocol/messages/theory.h"
#include "widgets/plot_svg.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

TEST(Figures, NearFarHistogramIsADensity) {
  const auto result = two_models();
  const widgets::PlotSpec plot = near_far_figure(result.models, app::names_in(result));
  ASSERT_EQ(plot.series.size(), 2u);
  const widgets::Series& series = plot.series[0];
  double area = 0;
  for (std::size_t bin = 0; bin < series.y.size(); ++bin) {
    area += series.y[bin] * (series.x[bin + 1] - series.x[bin]);
  }
  EXPECT_NEAR(area, 1.0, 1e-12);  // four pairs in two bins of widths 1 and 2
}

// A printed mean is a line without words over the histograms; the legend says whose it is and of
// what models, and points of another shape tell two of them apart.
TEST(Figures, PublishedMeansAreSaidInTheLegend) {
  auto result = two_models();
  result.models[0].encoding = "rope", result.models[1].encoding = "tapa";
  const widgets::PlotSpec plot = near_far_figure(result.models, app::names_in(result));
  ASSERT_EQ(plot.series.size(), 4u);
  EXPECT_EQ(plot.series[2].label, "published: mean of rope 4.1 (7B models)");
  for (const double mean : {4.1, 0.03}) {
    const widgets::Series& line = plot.series[mean == 4.1 ? 2 : 3];
    EXPECT_TRUE(line.quiet);
    EXPECT_EQ(line.x, (std::vector{mean, mean}));
    EXPECT_EQ(line.y, (std::vector{0.0, std::max(std::ranges::max(plot.series[0].y),
                                                 std::ranges::max(plot.series[1].y))}));
  }
  EXPECT_NE(plot.series[2].points, plot.series[3].points);
}

TEST(Figures, EveryLineOfTheShiftFigureLooksDifferent) {
  const widgets::PlotSpec plot = shift_figure(two_shifted(), app::names_in(two_shifted()));
  ASSERT_EQ(plot.series.size(), 12u);
  std::set<std::tuple<int, bool, double>> looks;
  for (const widgets::Series& series : plot.series) {
    looks.insert({series.color, series.dashed, series.width});
  }
  EXPECT_EQ(looks.size(), 12u);
  // What a log axis cannot show is said.
  bool said = false;
  for (const std::string& note : plot.notes) {
    said = said || note.find("tapa ids by 1, tapa ids by 3, tapa ids by 16") != note.npos;
  }
  EXPECT_TRUE(said);
}

TEST(Figures, CurvesOfACheckWithTheSameAxesShareAFigure) {
  protocol::CheckResult check{.id = "x", .model = "rope"};
  check.curves.push_back({.label = "measured", .x_label = "distance", .x = {1, 2}, .y = {1, 2}});
  check.curves.push_back({.label = "expected", .x_label = "distance", .x = {1, 2}, .y = {2, 1}});
  check.curves.push_back({.label = "other", .x_label = "shift", .x = {1, 2}, .y = {3, 3}});
  const auto figures = check_figures(check, ModelNames({"rope"}));
  ASSERT_EQ(figures.size(), 2u);
  ASSERT_EQ(figures[0].series.size(), 2u);
  EXPECT_EQ(figures[0].series[1].label, "expected");
  EXPECT_NE(figures[0].series[0].color, figures[0].series[1].color);
  EXPECT_NE(figures[0].id, figures[1].id);
}

TEST(Figures, EveryCurveOfACheckIsBesideItsOwnBound) {
  protocol::CheckResult check{.id = "x", .model = "rope"};
  for (int head = 0; head < 14; ++head) {
    check.curves.push_back({.label = "head " + std::to_string(head),
                            .x_label = "distance",
                            .x = {1, 2},
                            .y = {1, 2},
                            .bound = {double(head), 3}});
  }
  const auto figures = check_figures(check, ModelNames({"rope"}));
  ASSERT_EQ(figures.size(), 2u);  // twelve curves, then two
  ASSERT_EQ(figures[1].series.size(), 4u);
  EXPECT_EQ(figures[1].series[3].label, "bound of head 13");
  EXPECT_EQ(figures[1].series[3].y[0], 13);
  EXPECT_EQ(figures[1].series[3].color, figures[1].series[1].color);
  EXPECT_TRUE(figures[1].series[2].in_legend);
  EXPECT_FALSE(figures[1].series[3].in_legend);
}

TEST(Tables, DifferencesOfModelsStandWithTheirIntervals) {
  protocol::EvalResult result;
  EXPECT_TRUE(differences_table(result).rows.empty());
  result.differences = {{.model = "tapa",
                         .against = "rope",
                         .per = "byte",
                         .length = 64,
                         .difference = {-0.25, -0.5, 0.0, 8, "jackknife t"}}};
  const Table table = differences_table(result);
  EXPECT_EQ(csv_of(table),
            "model,against,length,difference,low,high,n\n"
            "tapa,rope,64,-0.25,-0.5,0.0,8\n");
  EXPECT_NE(text_of(table).find("loss above it (nats)"), std::string::npos) << text_of(table);
  EXPECT_EQ(table.notes.at(0),
            "nats a byte, model - against; 95 % interval: jackknife t, n = 8 texts");
  // One row's rule is not that of all: two that are the same model have a constant.
  protocol::EvalDifference same = result.differences[0];
  same.model = "rope (dynamic x2)", same.difference = {0, 0.0, 0.0, 8, "constant"};
  result.differences.insert(result.differences.begin(), same);
  EXPECT_EQ(
      differences_table(result).notes.at(0),
      "nats a byte, model - against; 95 % interval: constant, n = 8 texts; jackknife t, n = 8 "
      "texts");
}

TEST(Tables, ShiftHasARowForEachShiftAndAColumnForEachLayer) {
  const Table table = shift_table(two_shifted());
  EXPECT_EQ(table.rows.size(), 12u);
  EXPECT_EQ(table.rows[1]["by"], 3);
  EXPECT_EQ(table.rows[1]["L0"], 3.0);
  EXPECT_EQ(table.rows[1]["L1"], 4.0);
}

// A model without a head, or one that sees both ways, has no loss and no logits.
TEST(Figures, WhatIsAbsentIsDrawnAsAbsent) {
  protocol::ShiftResult shift = two_shifted();
  for (protocol::ShiftRow& row : shift.rows) row.logits_difference = std::nan("");
  shift.provenance.push_back({.models = {"rope"}, .note = "it has no head"});
  const widgets::PlotSpec plot = shift_figure(shift, app::names_in(shift));
  EXPECT_EQ(plot.notes.back(), "rope: it has no head");
  EXPECT_NE(widgets::svg_of(plot).find("</svg>"), std::string::npos);
  EXPECT_EQ(shift_table(shift).rows[0]["logits"], "nan");

  protocol::TextResult text{.model = "bert"};
  text.tokens = {{.id = 0, .text = "a"}, {.id = 60, .text = "b"}};
  text.loss = std::nan("");
  text.provenance.note = "it sees both ways";
  const widgets::PlotSpec losses = token_loss_figure(std::vector{text}, ModelNames({"bert"}));
  EXPECT_TRUE(losses.series.empty());
  EXPECT_NE(widgets::svg_of(losses).find("sees both ways"), std::string::npos);

  const protocol::CompareResult nothing{.a = "x", .b = "y"};
  EXPECT_NE(widgets::svg_of(divergence_figure(nothing, app::names_in(nothing))).find("</svg>"),
            std::string::npos);
}

// ---- what papers print ----

// A line each of two encodings, shifted by `by` in both ways.
protocol::ShiftResult shifted_by(std::int64_t by) {
  protocol::ShiftResult result;
  for (const char* model : {"rope", "tape"}) {
    result.expected.push_back({model, model, "stays", "a reason"});
    for (const char* method : {"ids", "tokens"}) {
      protocol::ShiftRow row{.model = model, .method = method, .by = by};
      row.attention_difference = 1.5, row.position_difference = 0.25;
      result.rows.push_back(row);
    }
  }
  return result;
}

const widgets::Series* series_called(const widgets::PlotSpec& plot, const std::string& begin,
                                     const std::vector<double>& y) {
  for (const widgets::Series& series : plot.series) {
    if (series.label.starts_with(begin) && series.y == y) return &series;
  }
  return nullptr;
}

// The numbers of Table 8 as kPublishedShift says them, at layers 1, 2, 4, 8 counted from 1.
TEST(Published, StandsQuietBesideWhatWasMeasured) {
  const auto result = shifted_by(3);
  const widgets::PlotSpec plot = shift_figure(result, app::names_in(result));
  const auto* rope = series_called(plot, "published: rope", {8.93, 8.51, 12.29, 11.46});
  ASSERT_NE(rope, nullptr);
  EXPECT_TRUE(rope->quiet);
  EXPECT_EQ(rope->x, (std::vector<double>{0, 1, 3, 7}));
  EXPECT_NE(rope->label.find("Table 8"), std::string::npos) << rope->label;
  // Layers that the models have not are named on the axis too.
  EXPECT_EQ(plot.x.ticks.back().at, 7);
  EXPECT_EQ(plot.x.ticks.back().label, "L7");
  EXPECT_NE(series_called(plot, "published: tape", {9.08, 11.24, 12.23, 13.78}), nullptr);
  EXPECT_NE(series_called(plot, "published: tape", {0.01, 0.02, 0.04, 0.04}), nullptr);
  const widgets::PlotSpec positions = position_shift_figure(result, app::names_in(result));
  EXPECT_NE(series_called(positions, "published: tape", {0.03, 0.37, 2.75, 6.62}), nullptr);
  EXPECT_NE(series_called(positions, "published: tape, not", {0.03, 0.54, 0.44, 0.86}), nullptr);
  // What was measured is never pale, and has no published number in it.
  std::size_t measured = 0, published = 0;
  std::set<widgets::PointShape> shapes;
  for (const widgets::Series& series : plot.series) {
    EXPECT_EQ(series.quiet, series.label.starts_with("published: ")) << series.label;
    measured += !series.quiet;
    if (series.quiet) shapes.insert(series.points), ++published;
  }
  EXPECT_EQ(shapes.size(), published);  // of one colour, and told apart
  EXPECT_FALSE(shapes.contains(widgets::PointShape::none));
  EXPECT_EQ(measured, 4u);
  EXPECT_NE(widgets::svg_of(plot).find("not measured here"), std::string::npos);
  EXPECT_EQ(published_shift_table(result).rows.size(), 12u);  // three models, two halves, two ways
}

// A log axis has no place for 0: the legend says where a curve is that is not to be seen.
TEST(Figures, ShiftsThatChangeNothingAreNamed) {
  protocol::ShiftResult result;
  for (const std::int64_t by : {1, 16}) {
    for (const char* model : {"rope", "alibi"}) {
      protocol::ShiftRow row{.model = model, .method = "ids", .by = by};
      row.attention_difference = model == std::string("rope") ? 1e-5 : 0;
      result.rows.push_back(row);
    }
  }
  for (const widgets::PlotSpec& plot : shift_figures(result, app::names_in(result))) {
    for (const widgets::Series& series : plot.series) {
      EXPECT_EQ(series.label.ends_with(": exactly 0"), series.label.starts_with("alibi"))
          << plot.id << " " << series.label;
    }
  }
  EXPECT_EQ(shift_figures(result, app::names_in(result)).size(), 2U);
}

TEST(Published, StandsNowhereElse) {
  const auto other = shifted_by(16);
  for (const widgets::Series& series : shift_figure(other, app::names_in(other)).series) {
    EXPECT_FALSE(series.quiet) << series.label;
  }
  EXPECT_TRUE(published_shift_table(other).rows.empty());
}

TEST(Tables, ShiftSaysWhatIsDeclaredAndWhatFailed) {
  auto result = shifted_by(3);
  for (protocol::ShiftRow& row : result.rows) {
    if (row.method == "ids") row.expected = "stays", row.verdict = "rounding";
  }
  result.rows.insert(result.rows.begin(), result.rows.front());
  result.rows[1].layer = 1, result.rows[0].verdict = "failure";  // another layer's rounding
  const Table table = shift_table(result);
  EXPECT_EQ(table.rows[0]["verdict"], "failure");
  EXPECT_EQ(table.rows[0]["declared"], "stays");
  EXPECT_EQ(table.rows[2]["verdict"], "rounding");
  EXPECT_FALSE(table.rows[1].contains("verdict"));  // added tokens are read
}

// ---- patterns ----

protocol::TensorRef products(const std::string& name, std::vector<float> values) {
  return protocol::TensorRef::own<float>(name, {2, 2}, std::move(values));
}

TEST(Figures, ProductsOfAllLayersAndModelsHaveOneScale) {
  protocol::PatternsResult result{.model = "tape", .against = "rope"};
  result.positions = {0, 1}, result.position_count = 2;
  result.layers = {{.layer = 0}, {.layer = 1}};
  const std::vector<protocol::TensorRef> tensors = {
      products("pe_dot.0", {1, 2, 3, 4}), products("pe_dot.1", {1, 2, 3, 9}),
      protocol::TensorRef::own<float>("pe_dot_heads.1", {2, 2, 2}, {0, 1, 2, 3, 2, 3, 4, 15}),
      products("against.pe_dot.0", {-1, 0, 0, 1})};
  const ModelNames names({"tape", "rope"});
  auto figures = figures_of(result, tensors, names);
  for (GroupedFigure& one : more_figures_of(result, tensors, names)) {
    figures.push_back(std::move(one));
  }
  std::vector<float> difference;
  for (const GroupedFigure& one : figures) {
    if (!one.plot.map) continue;
    const auto& map = *one.plot.map;
    if (one.plot.id.find("_less_") == std::string::npos) {
      EXPECT_EQ(map.range.low, -1) << one.plot.id;
      EXPECT_EQ(map.range.high, 9) << one.plot.id;
    } else if (one.layer == 1) {
      difference = map.values;
    }
  }
  // The other model's start is its state in every layer.
  EXPECT_EQ(difference, (std::vector<float>{2, 2, 3, 8}));
  const auto grids = grids_of(result, tensors, names);
  ASSERT_EQ(grids.size(), 1u);
  EXPECT_EQ(grids[0].columns, 3);  // the mean and two heads
  EXPECT_EQ(grids[0].cells.size(), 6u);
  EXPECT_EQ(grids[0].cells[5].map.values, (std::vector<float>{2, 3, 4, 15}));
  for (const widgets::GridCell& cell : grids[0].cells) EXPECT_EQ(cell.map.range.high, 15);
}

TEST(Figures, ABiasStandsOnItsProfileWithItsRegimes) {
  protocol::DistanceModel model{.model = "rope", .encoding = "rope"};
  protocol::HeadBias bias{.layer = 1, .head = 2, .local_to = 7.85, .ultra_from = 62832};
  bias.profile.push_back({.distance = 1, .score_mean = 3, .score_low = 2.5, .score_high = 3.5});
  bias.distances = {1, 1e7}, bias.per_plane = {3, 0}, bias.sqrt_d_gamma = {2, 0};
  bias.coefficients.push_back({.distance = 1, .distance_end = 2, .a_mean = 1, .a_sd = 2});
  bias.planes.push_back({.plane = 0, .a_mean = 1});
  bias.a_by_plane = {{1}}, bias.b_by_plane = {{-4}};
  bias.sweep = {{"base", 500, {3, 1}}, {"factor", 4, {3, 2}}};
  const auto figures = head_bias_figures(model, bias, ModelNames({"rope"}));
  ASSERT_EQ(figures.size(), 6u);
  EXPECT_EQ(figures[0].id, "bias_rope_L1H2");
  EXPECT_EQ(figures[0].series[0].low, std::vector<double>{2.5});
  ASSERT_EQ(figures[0].markers.size(), 2u);
  EXPECT_EQ(figures[0].markers[1].at, 62833);                  // a log axis is of distance + 1
  EXPECT_EQ(figures[1].series[2].y, std::vector<double>{-1});  // less one sd
  EXPECT_EQ(figures[3].map->range.high, 4);                    // A and B on one scale
  ASSERT_EQ(figures[5].series.size(), 3u);
  EXPECT_TRUE(figures[5].series[2].dashed);
  for (const auto& plot : figures) {
    EXPECT_NE(widgets::svg_of(plot).find("</svg>"), std::string::npos) << plot.id;
  }
}

// ---- colours of maps ----

widgets::MapSpec map_of_weights(int rows, int cols, std::vector<float> values) {
  widgets::MapSpec map{.rows = rows, .cols = cols, .values = std::move(values)};
  map.row_end = rows, map.col_end = cols;
  return map;
}

TEST(Figures, ALearnedSinkIsAStripBesideTheMap) {
  protocol::MapResult map;
  map.model = "rope", map.tokens = map.keys = map.row_end = map.column_end = 2;
  map.height = map.width = 2, map.learned_sink = 0.375;
  const Grid cells{{2, 2}, {1, 0, 0.5F, 0.5F}};
  const ModelNames names({"rope"});
  EXPECT_TRUE(attention_map_figure(map, cells, names).map->margin.empty());
  const auto sink = protocol::TensorRef::own<float>("sink_profile", {2}, {0.25F, 0.5F});
  const std::vector<protocol::TensorRef> tensors{sink};
  const auto plot = attention_map_figure(map, cells, names, sink_of(tensors));
  EXPECT_EQ(plot.map->margin, (std::vector<float>{0.25F, 0.5F}));
  EXPECT_EQ(json_of(*plot.map)["margin"]["values"], nlohmann::json({0.25, 0.5}));
  EXPECT_TRUE(std::ranges::any_of(
      plot.notes, [](const auto& note) { return note.find("strip") != std::string::npos; }));
}

TEST(Figures, ArcsJoinEachQueryWithItsKeys) {
  protocol::MapResult map;
  map.model = "rope", map.tokens = map.keys = map.row_end = 3;
  map.top = {{0, {0}, {1}}, {2, {0, 1}, {0.3, 0.01}}};
  const auto plot = arcs_figure(map, ModelNames({"rope"}));
  ASSERT_EQ(plot.series.size(), 4U);
  const auto ends = [&](std::size_t n) {
    return std::vector<double>(plot.series[n].y.begin(), plot.series[n].y.begin() + 2);
  };
  EXPECT_EQ(ends(0), (std::vector<double>{0, 0}));   // weight 1
  EXPECT_EQ(ends(1), (std::vector<double>{-2, 0}));  // 0.3
  EXPECT_TRUE(plot.series[2].x.empty());
  EXPECT_EQ(ends(3), (std::vector<double>{-2, -1}));  // 0.01
  for (const auto& series : plot.series) EXPECT_EQ(series.x.size() % 3, 0U);
  EXPECT_GT(plot.series[0].width, plot.series[3].width);
}

TEST(Figures, ARopePlanHasTheFrequenciesOfEachGroupOfLayers) {
  protocol::LoadReport report;
  report.model.name = "rope";
  EXPECT_FALSE(rope_plan_figure(report, ModelNames({"rope"})));
  protocol::RopePlanRow linear{.layers = "1", .sees = "a state, no pairs", .encoding = "linear"};
  protocol::RopePlanRow half{.layers = "0, 2", .sees = "43 tokens", .encoding = "rope, half"};
  half.channels = "first 4 of 16", half.frequencies = {1, 0.01};
  report.rope_plan = {half, linear};
  const auto plot = rope_plan_figure(report, ModelNames({"rope"}));
  ASSERT_TRUE(plot);
  ASSERT_EQ(plot->series.size(), 1U);
  EXPECT_EQ(plot->series[0].y, half.frequencies);
  EXPECT_EQ(plot->series[0].x, (std::vector<double>{0, 1}));
  EXPECT_EQ(plot->notes, (std::vector<std::string>{
                             "layers 0, 2: sees 43 tokens; rope, half, first 4 of 16 channels",
                             "layer 1: sees a state, no pairs; linear"}));
  EXPECT_TRUE(plot->markers.empty());
}

// Two groups of layers with the same frequencies, one of which leaves planes where they are.
TEST(Figures, ARopePlanHidesNoGroupOfLayersAndNoPlane) {
  protocol::LoadReport report;
  report.model.name = "rope";
  protocol::RopePlanRow near{.layers = "0, 2", .sees = "43 tokens", .encoding = "rope, half"};
  near.frequencies = {1, 0.1, 0.01, 0.001};
  protocol::RopePlanRow all{.layers = "1", .sees = "all", .encoding = "rope, half"};
  all.frequencies = near.frequencies;
  protocol::RopePlanRow part{.layers = "3", .sees = "all", .encoding = "rope, half"};
  part.frequencies = {0, 0.1, 0, 0};
  report.rope_plan = {near, all, part};
  const auto plot = rope_plan_figure(report, ModelNames({"rope"}));
  ASSERT_TRUE(plot);
  ASSERT_EQ(plot->series.size(), 3U);
  for (std::size_t n = 0; n < 3; ++n) {
    ASSERT_EQ(plot->series[n].sizes.size(), 4U);
    EXPECT_GE(plot->series[n].sizes[0], 2);
    if (n == 0) continue;
    EXPECT_LT(plot->series[n].sizes[0] + 1, plot->series[n - 1].sizes[0]);
  }
  EXPECT_EQ(plot->series[2].y, part.frequencies);  // no number stands for 0
  ASSERT_EQ(plot->markers.size(), 1U);
  EXPECT_EQ(plot->markers[0].label, "layer 3: planes 0, 2-3 stay (0)");
  EXPECT_EQ(plot->markers[0].at, 0);
  EXPECT_EQ(plot->markers[0].color, plot->series[2].color);
  report.rope_plan[2].frequencies = {1, 0.1, 0.01, 0};
  const auto last = rope_plan_figure(report, ModelNames({"rope"}));
  EXPECT_EQ(last->markers[0].label, "layer 3: plane 3 stays (0)");
  EXPECT_EQ(last->markers[0].at, 2.5);
}

TEST(MapLook, ALineOfAFewCellsHasALogScaleByItself) {
  std::vector<float> line(400, 0.001F), even(400, 0.25F), pale(400, 0.05F);
  for (std::size_t i = 0; i < 20; ++i) line[i * 20 + i] = 1;  // one cell in twenty
  widgets::MapSpec thin = map_of_weights(20, 20, line), flat = map_of_weights(20, 20, even);
  EXPECT_TRUE(is_thin(thin));
  EXPECT_FALSE(is_thin(flat));
  EXPECT_TRUE(is_thin(map_of_weights(20, 20, pale))) << "on 0 .. 1 it would be white";
  apply_look(thin, {}), apply_look(flat, {});
  EXPECT_EQ(thin.log_decades, 4);
  EXPECT_EQ(flat.log_decades, 0);
  apply_look(thin, {.scale = "linear"});
  EXPECT_EQ(thin.log_decades, 0);
  EXPECT_EQ(thin.range, (widgets::ValueRange{0, 1}));  // that two pictures compare
}

TEST(MapLook, KeyZeroIsLeftOutOfTheRangeAndWhatIsClippedIsSaid) {
  widgets::MapSpec map =
      map_of_weights(2, 3, {0.9F, 0.25F, widgets::kMaskedCell, 0.7F, 0.5F, 0.125F});
  const MapLook look{.scale = "linear", .leave_out_first = true};
  apply_look(map, look);
  EXPECT_EQ(map.range, (widgets::ValueRange{0, 0.5}));
  EXPECT_EQ(clipping_note(map, look),
            "2 cells above 0.5 have the colours of the ends; key 0 left out of the range");
  const MapLook by_hand{.scale = "linear", .low = 0.2, .high = 0.8};
  apply_look(map, by_hand);
  EXPECT_EQ(map.range, (widgets::ValueRange{0.2, 0.8}));
  EXPECT_EQ(clipping_note(map, by_hand),
            "1 cell below 0.2 and 1 cell above 0.8 have the colours of the ends");
  // A lower end that is none leaves the range as it is fitted.
  apply_look(map, {.scale = "linear", .low = 0.5, .high = 0.1, .leave_out_first = true});
  EXPECT_EQ(map.range, (widgets::ValueRange{0, 0.5}));
  // Where the map begins behind key 0 there is nothing to leave out.
  map.col_begin = 1, map.col_end = 4;
  apply_look(map, look);
  EXPECT_FLOAT_EQ(static_cast<float>(map.range.high), 0.9F);
}

TEST(MapLook, OnlyNumbersOfBothSignsHaveASignedScale) {
  EXPECT_EQ(colors_of({-1, 2}), widgets::Colormap::signed_values);
  EXPECT_EQ(colors_of({0, 24}), widgets::Colormap::viridis);
  EXPECT_EQ(colors_of({-3, 0}), widgets::Colormap::viridis);
}

TEST(MapLook, TwoMapsHaveOneScaleAndOneRange) {
  std::vector<float> line(400, 0.001F), even(400, 0.05F);
  for (std::size_t i = 0; i < 20; ++i) line[i * 20 + i] = 1;
  const MapLook look = common_look({}, map_of_weights(20, 20, line), map_of_weights(20, 20, even));
  EXPECT_EQ(look.scale, "log");
  auto a = map_of_weights(1, 2, {-1, 3}), b = map_of_weights(1, 2, {-5, 2});
  a.colormap = b.colormap = widgets::Colormap::signed_values;
  const MapLook scores = common_look({}, a, b);
  EXPECT_EQ(scores.low, -5);
  EXPECT_EQ(scores.high, 3);
}

// ---- heads apart, models apart ----

protocol::DistanceModel with_heads() {
  protocol::DistanceModel model{.model = "rope", .encoding = "rope"};
  for (int head = 0; head < 2; ++head) {
    protocol::DistanceGroup group{.layer = 1, .head = head};
    group.histogram = protocol::NearFar{.pairs = 10, .mean = head ? -0.5 : 2.0};
    for (int d = 0; d < 3; ++d) {
      group.profile.push_back({.distance = d, .score_mean = 10.0 * head + d});
    }
    model.heads.push_back(group);
    protocol::IntrinsicBias bias{.layer = 1, .head = head};
    bias.distances = {1, 1e7}, bias.per_plane = {4, 0}, bias.sqrt_d_gamma = {3, 0};
    model.intrinsic.push_back(bias);
  }
  model.layers.push_back({.layer = 1});
  return model;
}

TEST(Figures, IntrinsicCurvesOfEveryHeadStandOverWhatWasMeasured) {
  const auto model = with_heads();
  const auto plot = intrinsic_bias_figure(model, 1, ModelNames({"rope"}));
  ASSERT_EQ(plot.series.size(), 6u);  // measured and two predictions, of two heads
  EXPECT_EQ(plot.series[3].label, "H1 measured");
  EXPECT_EQ(plot.series[3].x, (std::vector<double>{1, 2, 3}));  // distance + 1
  EXPECT_EQ(plot.series[3].y, (std::vector<double>{10, 11, 12}));
  EXPECT_EQ(plot.series[4].y, (std::vector<double>{4, 0}));
  EXPECT_TRUE(plot.series[5].dashed);
}

TEST(Figures, OneHeadIsShownAloneAndAllAsAMap) {
  const std::vector models{with_heads()};
  const ModelNames names({"rope"});
  const widgets::PlotSpec* map = nullptr;
  const auto figures = figures_of(models, names, 1, 1);
  for (const GroupedFigure& one : figures) {
    if (one.plot.id == "near_far_by_head_rope") map = &one.plot;
    if (one.group == "score") {
      EXPECT_EQ(one.plot.title, "Mean score by distance, L1H1");
      EXPECT_EQ(one.plot.series[0].y, (std::vector<double>{10, 11, 12}));
      EXPECT_EQ(one.plot.notes.back(), "L1H1 alone");
    }
  }
  ASSERT_NE(map, nullptr);
  EXPECT_EQ(map->map->values[2], 2);
  EXPECT_EQ(map->map->values[3], -0.5F);
  EXPECT_TRUE(std::isnan(map->map->values[0]));  // of layer 0 nothing was measured
}

TEST(Figures, DifferencesOfModelsAreDrawnWithTheirIntervals) {
  protocol::EvalResult result{.task = "perplexity"};
  result.differences = {
      {.model = "tapa",
       .against = "rope",
       .per = "byte",
       .length = 64,
       .difference = {1, 0.5, 2, 8}},
      {.model = "tapa", .against = "rope", .per = "byte", .length = 128, .difference = {3}}};
  const auto plot = eval_difference_figure(result, ModelNames({"rope", "tapa"}));
  ASSERT_EQ(plot.series.size(), 1u);
  EXPECT_EQ(plot.series[0].label, "tapa - rope");
  EXPECT_EQ(plot.series[0].y, (std::vector<double>{1, 3}));
  EXPECT_EQ(plot.series[0].low[0], 0.5);
  EXPECT_TRUE(std::isnan(plot.series[0].low[1]));
  EXPECT_EQ(plot.y.label, "nats a byte");
  EXPECT_EQ(figures_of(result, ModelNames({"rope", "tapa"})).back().group, "paired difference");
}

// ---- cost ----

// What is published stands beside passes of its size alone, and is never a model's own series.
TEST(CostFigure, PublishedTotalsStandBesideModelsOfTheirSize) {
  protocol::CostResult rope{.model = "rope", .encoding = "rope", .layers = 12, .width = 768};
  rope.length = 1024, rope.published.macs = 160e9;
  rope.parts = {{.name = "MLP", .macs = 5e9}};
  const ModelNames names({"rope"});
  const auto plot = cost_figure({rope}, names);
  ASSERT_EQ(plot.series.size(), 2u);
  EXPECT_EQ(plot.series[0].x, (std::vector<double>{5e9, 160e9}));
  EXPECT_TRUE(plot.series[1].quiet);
  EXPECT_TRUE(plot.series[1].label.starts_with("published: rope (TAPE 2501.00712, Table 3"));
  EXPECT_EQ(plot.series[1].x, std::vector<double>{160.46e9});
  EXPECT_NEAR(plot.series[1].y.at(0), plot.series[0].y.at(1), 0.6);  // in one row
  EXPECT_LT(plot.series[1].y.at(0), plot.series[0].y.at(1));         // and below it
  for (std::int64_t protocol::CostResult::*size :
       {&protocol::CostResult::layers, &protocol::CostResult::width,
        &protocol::CostResult::length}) {
    protocol::CostResult other = rope;
    other.*size += 1;
    EXPECT_EQ(cost_figure({other}, names).series.size(), 1u);
  }
  protocol::CostResult tapa = rope;
  tapa.encoding = "tapa";  // of which nothing is printed
  EXPECT_EQ(cost_figure({tapa}, names).series.size(), 1u);
}

// Three models that count the same in a part: no mark lies on another one, all stand in that part's
// row, and what is counted is where it was.
TEST(CostFigure, NoModelHidesAnother) {
  std::vector<protocol::CostResult> results;
  for (const char* name : {"rope", "alibi", "tapa"}) {
    protocol::CostResult result{.model = name, .encoding = name, .layers = 4, .width = 64};
    result.parts = {{.name = "MLP", .macs = 5e9}, {.name = "head", .macs = 1e9}};
    results.push_back(result);
  }
  const auto plot = cost_figure(results, ModelNames({"rope", "alibi", "tapa"}));
  ASSERT_EQ(plot.series.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(plot.series[n].x, (std::vector<double>{5e9, 1e9}));
    for (std::size_t part = 0; part < 2; ++part) {
      EXPECT_LT(std::abs(plot.series[n].y[part] - plot.y.ticks.at(part).at), 0.5) << n;
    }
    for (std::size_t other = 0; other < n; ++other) {
      EXPECT_NE(plot.series[n].points, plot.series[other].points);
      EXPECT_GE(std::abs(plot.series[n].y[0] - plot.series[other].y[0]), 0.25) << n << other;
    }
  }
  const auto alone = cost_figure({results[0]}, ModelNames({"rope"}));
  EXPECT_EQ(alone.series.at(0).y.at(0), alone.y.ticks.at(0).at);
}

}  // namespace
}  // namespace phasescope::app
