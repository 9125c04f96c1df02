// Bands of intervals in figures, and what tells lines and words of one kind apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/figures/figures.h"
#include "app/figures/published.h"
#include "app/outputs/question_output.h"
#include "app/outputs/result_tables.h"
#include "cli_tools.h"
#include "protocol/messages/ablate.h"
#include "widgets/plot_spec.h"
#include "widgets/plot_table.h"
#include "widgets/series_marks.h"

namespace phasescope::app {
namespace {

// The two ends of an interval are a band along what was measured, not two more curves.
TEST(Bands, TheBandOfACheckIsABand) {
  protocol::CheckResult check{.id = "x", .model = "rope"};
  const auto add = [&](const char* label, std::vector<double> y) {
    check.curves.push_back({.label = label, .x_label = "distance", .x = {1, 4}, .y = std::move(y)});
  };
  add("measured mean score, L0H0", {1, 2}), add("sqrt(D) Gamma, L0H0", {3, 4});
  add("95 % band, low, L0H0", {0.5, 1.5}), add("95 % band, high, L0H0", {1.25, 2.5});
  const auto figures = check_figures(check, ModelNames({"rope"}));
  ASSERT_EQ(figures.size(), 1u);
  ASSERT_EQ(figures[0].series.size(), 2u);
  const widgets::Series& measured = figures[0].series[0];
  EXPECT_EQ(measured.kind, widgets::SeriesKind::line);
  EXPECT_EQ(measured.low, (std::vector{0.5, 1.5}));
  EXPECT_EQ(measured.high, (std::vector{1.25, 2.5}));
  EXPECT_EQ(widgets::band_runs(measured).size(), 1u);
  EXPECT_EQ(figures[0].series[1].label, "sqrt(D) Gamma, L0H0");
  EXPECT_TRUE(figures[0].series[1].low.empty());
  check.curves.pop_back();  // one end alone is a curve like any other
  EXPECT_EQ(check_figures(check, ModelNames({"rope"}))[0].series.size(), 3u);
}

// A log axis has no place for 0: a band that reaches it goes on to the end of the axis.
TEST(Bands, BandsOfShiftsThatReachZeroGoOnToTheEndOfTheAxis) {
  protocol::ShiftResult result;
  for (const std::int64_t layer : {0, 1, 2}) {
    protocol::ShiftRow row{.model = "rope", .method = "tokens", .by = 5, .layer = layer};
    row.attention_difference = 2;
    row.attention_low = layer == 1 ? -0.5 : 0.5, row.attention_high = 4;
    result.rows.push_back(row);
  }
  const widgets::PlotSpec plot = shift_figure(result, app::names_in(result));
  const widgets::Series& series = plot.series.at(0);
  const auto runs = widgets::band_runs(series, widgets::Scale::log10);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].second, 3u);
  const double end = widgets::axis_range(plot, true).low;
  EXPECT_GT(end, 0);
  EXPECT_LE(end, 0.5);
  EXPECT_EQ(widgets::drawn_low(series.low[1], plot.y.scale, end), end);
  // The lower edge drops half way to the neighbours, and does not slope to the end of the axis.
  const auto edges =
      widgets::band_edges(series, runs[0], widgets::Scale::linear, widgets::Scale::log10, end);
  EXPECT_EQ(edges.x, (std::vector<double>{0, 0.5, 0.5, 1, 1.5, 1.5, 2}));
  EXPECT_EQ(edges.low, (std::vector<double>{0.5, 0.5, end, end, end, 0.5, 0.5}));
  EXPECT_EQ(edges.high, std::vector<double>(7, 4));
  // What files and the pointer say of it is what was measured.
  EXPECT_EQ(series.low, (std::vector{0.5, -0.5, 0.5}));
  EXPECT_NE(widgets::csv_of(plot).find(",1,2,-0.5,4"), std::string::npos) << widgets::csv_of(plot);
  EXPECT_TRUE(std::ranges::any_of(plot.notes, [](const std::string& note) {
    return note.find("reaches 0 or below") != note.npos;
  }));
  // Where none does nothing is said.
  result.rows[1].attention_low = 1;
  for (const std::string& note : shift_figure(result, app::names_in(result)).notes) {
    EXPECT_EQ(note.find("reaches 0 or below"), note.npos) << note;
  }
}

// Half way is half way on the picture, of either axis; a linear axis has a place for every end.
TEST(Bands, TheDropOfABandStandsHalfWayOnThePicture) {
  using widgets::Scale;
  const widgets::Series series{
      .label = "a", .x = {1, 100}, .y = {1, 2}, .low = {0, 0.5}, .high = {4, 9}};
  const auto logarithmic = widgets::band_edges(series, {0, 2}, Scale::log10, Scale::log10, 0.1);
  EXPECT_EQ(logarithmic.x, (std::vector<double>{1, 10, 10, 100}));
  EXPECT_EQ(logarithmic.low, (std::vector<double>{0.1, 0.1, 0.5, 0.5}));
  EXPECT_EQ(logarithmic.high, (std::vector<double>{4, 6, 6, 9}));
  const auto linear = widgets::band_edges(series, {0, 2}, Scale::log10, Scale::linear, 0.1);
  EXPECT_EQ(linear.x, series.x);
  EXPECT_EQ(linear.low, series.low);
}

TEST(Figures, FurtherTextsOfARowAreToldApart) {
  protocol::PatternsResult result{.model = "cape"};
  for (const std::int64_t text : {0, 1, 2, 3}) {
    protocol::BiasRow row{.layer = 0, .head = 0, .query = 8, .text = text};
    row.text_name = "text " + std::to_string(text);
    row.distances = {0, 1}, row.content = {1, 2}, row.positional = {3, 4};
    result.rows.push_back(row);
  }
  const auto figures = more_figures_of(result, {}, ModelNames({"cape"}));
  ASSERT_EQ(figures.size(), 1u);
  std::set<std::tuple<int, bool, double>> looks;
  for (const widgets::Series& series : figures[0].plot.series) {
    looks.insert({series.color, series.dashed, series.width});
    EXPECT_LE(series.width, 1.6 * 3.5) << series.label;
  }
  EXPECT_EQ(looks.size(), figures[0].plot.series.size());
  EXPECT_TRUE(std::ranges::any_of(figures[0].plot.notes, [](const std::string& note) {
    return note.find("dashed, each wider than the one before: text 1, text 2, text 3") != note.npos;
  }));
}

TEST(Published, PerplexitiesHaveAxesOfTheirOwn) {
  protocol::EvalResult eval{.task = "perplexity", .metric = "bits_per_byte"};
  eval.rows.push_back({.model = "m", .encoding = "tapa", .metric = "bits_per_byte", .length = 64});
  EXPECT_EQ(figures_of(eval, ModelNames({"m"})).size(), 1u);
  eval.metric = eval.rows[0].metric = "perplexity";
  // A token of another tokenizer is another thing: no axis has perplexities of both.
  EXPECT_EQ(eval_figure(eval, ModelNames({"m"})).series.size(), 1u);
  const auto figures = figures_of(eval, ModelNames({"m"}));
  ASSERT_EQ(figures.size(), 1u + 3u);  // TAPA (arXiv 2509.12635) has three such tables
  const std::vector<double> table_3{13.04, 12.62, 12.3, 12.07, 11.83, 11.74, 11.67, 11.75};
  bool found = false;
  for (std::size_t n = 1; n < figures.size(); ++n) {
    EXPECT_EQ(figures[n].group, kPublishedGroup);
    // Of TAPA's lines: 11.67 to 13.04, 12.22 to 122.71, 11.67 to 14.82.
    const bool wide = figures[n].plot.title.find("Table 2") != std::string::npos;
    EXPECT_EQ(figures[n].plot.y.scale == widgets::Scale::log10, wide) << figures[n].plot.title;
    for (const widgets::Series& series : figures[n].plot.series) {
      EXPECT_TRUE(series.quiet && series.label.starts_with("published: ")) << series.label;
      EXPECT_EQ(series.label.find("alibi"), std::string::npos) << series.label;
      found = found || series.y == table_3;
    }
  }
  EXPECT_TRUE(found);
  eval.rows[0].encoding = "nobody's";
  EXPECT_EQ(figures_of(eval, ModelNames({"m"})).size(), 1u);
}

// Perplexities by length stood under an axis of bits as if they were bits.
TEST(Figures, NumbersOfAnotherMetricThanTheAxisAreNamed) {
  protocol::EvalResult eval{.task = "perplexity", .metric = "perplexity"};
  eval.rows.push_back({.model = "m", .metric = "perplexity", .length = 64, .value = 4});
  eval.positions.push_back({.model = "m", .metric = "bits_per_token"});
  const auto note = [](const widgets::PlotSpec& plot) {
    const auto found = std::ranges::find_if(
        plot.notes, [](const std::string& one) { return one.starts_with("m: "); });
    return found == plot.notes.end() ? "" : found->substr(0, found->find(" at "));
  };
  EXPECT_EQ(note(position_loss_figure(eval, ModelNames({"m"}))), "m: perplexity 4 [-]");
  EXPECT_EQ(note(eval_figure(eval, ModelNames({"m"}))), "m: 4 [-]");
}

// Six shapes were counted by hand where there are eight.
TEST(Figures, PublishedLinesAreToldApart) {
  std::vector<std::string> encodings;
  for (const PublishedSeries& one : published_series()) encodings.push_back(one.encoding);
  for (const widgets::PlotSpec& plot : published_perplexity_figures(encodings)) {
    const std::vector<widgets::PointShape> shapes = widgets::shapes_of(plot);
    const std::set<widgets::PointShape> apart(shapes.begin(), shapes.end());
    EXPECT_EQ(apart.size(), plot.series.size()) << plot.title;
    EXPECT_FALSE(apart.contains(widgets::PointShape::none)) << plot.title;
  }
  // Seven of one colour, as a figure of a task has them.
  widgets::PlotSpec plot;
  ASSERT_TRUE(add_published(
      plot, "accuracy even_pairs",
      {"learned", "sinusoidal", "rope", "shaw", "alibi", "kerple_log", "fire", "t5"}));
  ASSERT_EQ(plot.series.size(), 7u);
  std::set<widgets::PointShape> of_task;
  for (const widgets::Series& series : plot.series) of_task.insert(series.points);
  EXPECT_EQ(of_task.size(), plot.series.size());
}

// "refused" of ids past a table's end would stand beside the numbers of those before it.
TEST(Tables, ATableOfPositionsIsSaidToMoveWithinIt) {
  auto result = two_shifted();
  for (protocol::ShiftRow& row : result.rows) {
    if (row.method == "ids") row.expected = "refused", row.verdict = "as declared";
  }
  result.expected = {{"rope", "learned", "refused", "the table ends"}};
  const Table table = shift_table(result);
  EXPECT_EQ(table.rows[0]["declared"], "moves, within its table");
  EXPECT_EQ(text_of(table).find("refused"), std::string::npos) << text_of(table);
  for (const std::string& note : shift_figure(result, app::names_in(result)).notes) {
    EXPECT_EQ(note.find("refused"), std::string::npos) << note;
  }
}

// What a loss is counted in stands above its numbers.
TEST(Tables, LossesOfAblateAndCompareAreInNats) {
  protocol::AblateResult ablate{.model = "rope"};
  ablate.rows = {{.change = "L0H0 zero", .loss_change = {0.5}}};
  ablate.rows[0].positions = {{.begin = 0, .end = 8, .change = {0.5}}};
  const std::vector<Answered<protocol::AblateResult>> answers = {{.result = ablate}};
  const Output output = question_output(answers, ModelNames({"rope"}));
  ASSERT_GE(output.tables.size(), 2u);
  EXPECT_NE(text_of(output.tables[0]).find("change of the loss (nats a token)"), std::string::npos);
  EXPECT_EQ(output.tables[1].title, "change of the loss by position (nats a token)");
}

}  // namespace
}  // namespace phasescope::app
