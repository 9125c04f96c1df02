// Figures of tasks: the guessers beside the models, and the maps.
#include "app/figures/task_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/outputs/eval_output.h"

namespace phasescope::app {
namespace {

// Two models of addition at 2 and 4 digits, both trained to 2.
protocol::EvalResult sums() {
  protocol::EvalResult result{.task = "addition", .metric = "exact_match"};
  result.length_unit = "digits", result.counted = "samples";
  result.rows_of = "digits of the first number", result.columns_of = "digits of the second number";
  for (const char* model : {"a", "b"}) {
    for (const std::int64_t length : {2, 4}) {
      protocol::EvalRow row{.model = model, .metric = "exact_match", .length = length};
      row.value = length == 2 ? 1 : 0.25, row.low = 0.2, row.high = 1;
      row.n = 100, row.method = "Wilson";
      row.exact = row.value, row.blind = std::pow(10, -length), row.trained = 2;
      result.rows.push_back(row);
    }
    for (double i = 1; i <= 4; ++i) {
      for (double j = 1; j <= 4; ++j) {
        if (i == 3 && j == 3) continue;  // left out
        result.cells.push_back(
            {.model = model, .row = i, .column = j, .value = i * j / 16, .n = 25});
      }
    }
  }
  return result;
}

const widgets::Series* named(const widgets::PlotSpec& plot, const std::string& label) {
  const auto found = std::ranges::find(plot.series, label, &widgets::Series::label);
  return found == plot.series.end() ? nullptr : &*found;
}

TEST(TaskFigures, TheBlindLineIsAlwaysDrawn) {
  const auto result = sums();
  const widgets::PlotSpec plot = eval_figure(result, names_in(result));
  EXPECT_EQ(plot.x.label, "length (digits)");
  const widgets::Series* blind = named(plot, "blind guesser");
  ASSERT_NE(blind, nullptr);
  EXPECT_EQ(blind->y, (std::vector<double>{std::pow(10, -2), std::pow(10, -4)}));
  // A model that is right inside the trained square and nowhere else has a quarter at twice it.
  const widgets::Series* inside = named(plot, "right at the trained lengths alone");
  ASSERT_NE(inside, nullptr);
  EXPECT_EQ(inside->y, (std::vector<double>{1, 0.25}));
  ASSERT_EQ(plot.markers.size(), 1u);
  EXPECT_EQ(plot.markers[0].at, 2);
  EXPECT_NE(plot.notes.back().find("over samples"), std::string::npos);
}

// Of the encodings that are evaluated alone, and quiet.
TEST(TaskFigures, PublishedSharesStandBesideThem) {
  auto result = sums();
  for (protocol::EvalRow& row : result.rows) row.encoding = row.model == "a" ? "tape" : "alibi";
  const widgets::PlotSpec plot = eval_figure(result, names_in(result));
  std::vector<double> shares;
  for (const widgets::Series& series : plot.series) {
    EXPECT_EQ(series.quiet, series.label.starts_with("published: ")) << series.label;
    if (series.quiet) shares.push_back(series.y.at(0));
  }
  EXPECT_EQ(shares, (std::vector<double>{32.82 / 100, 33.92 / 100, 41.42 / 100}));
  result.task = "even_pairs", result.metric = "accuracy";
  for (protocol::EvalRow& row : result.rows) row.metric = "accuracy", row.encoding = "rope";
  const widgets::PlotSpec pairs = eval_figure(result, names_in(result));
  const auto quiet = std::ranges::find(pairs.series, true, &widgets::Series::quiet);
  ASSERT_NE(quiet, pairs.series.end());
  EXPECT_EQ(quiet->x, (std::vector<double>{41, 500}));
  EXPECT_EQ(quiet->y, (std::vector<double>{99.98 / 100, 99.98 / 100}));
}

// CAPE's Table 2 is of lengths 41 to 500: 41 has no room for a label beside 40.
TEST(TaskFigures, PublishedLengthsHaveTicksWhereThereIsRoom) {
  protocol::EvalResult result{.task = "even_pairs", .metric = "accuracy"};
  result.length_unit = "tokens", result.counted = "samples";
  for (const std::int64_t length : {40, 80}) {
    protocol::EvalRow row{
        .model = "a", .encoding = "rope", .metric = "accuracy", .length = length, .value = 0.9};
    result.rows.push_back(row);
  }
  std::vector<double> ticks;
  for (const widgets::AxisTick& tick : eval_figure(result, ModelNames({"a"})).x.ticks) {
    ticks.push_back(tick.at);
  }
  EXPECT_EQ(ticks, (std::vector<double>{40, 80, 500}));
}

TEST(TaskFigures, EveryModelHasAMapWithItsTrainedSquare) {
  const auto result = sums();
  const auto maps = task_maps(result, names_in(result));
  ASSERT_EQ(maps.size(), 2u);
  ASSERT_TRUE(maps[0].map);
  const widgets::MapSpec& map = *maps[0].map;
  EXPECT_EQ(map.rows, 4);
  EXPECT_EQ(map.cols, 4);
  EXPECT_FLOAT_EQ(map.values[1 * 4 + 2], 6.0F / 16);
  EXPECT_TRUE(std::isnan(map.values[2 * 4 + 2]));
  EXPECT_EQ(map.range.high, 1);
  const widgets::Series* trained = named(maps[0], "trained");
  ASSERT_NE(trained, nullptr);
  EXPECT_EQ(*std::ranges::max_element(trained->x), 2);
  EXPECT_NE(maps[0].id, maps[1].id);
}

TEST(TaskFigures, DepthsAreColumnsWithoutASquare) {
  protocol::EvalResult result{.task = "passkey", .metric = "exact_match"};
  result.length_unit = "characters of garbage";
  result.cells = {{.model = "a", .row = 1024, .column = 0.1, .value = 1, .n = 3},
                  {.model = "a", .row = 2048, .column = 0.9, .value = 0, .n = 4}};
  const auto maps = task_maps(result, names_in(result));
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].map->rows, 2);
  EXPECT_TRUE(maps[0].series.empty());
  EXPECT_EQ(maps[0].notes.front(), "samples a cell: 3 to 4");
}

TEST(TaskFigures, TheTableCountsSamplesAndShowsTheBlindGuesser) {
  const Table table = eval_table(sums());
  EXPECT_EQ(table.heading("n"), "samples");
  EXPECT_EQ(table.heading("length"), "length (digits)");
  EXPECT_NE(std::ranges::find(table.columns, "blind"), table.columns.end());
  EXPECT_EQ(std::ranges::find(table.columns, "window"), table.columns.end());
}

// 17.B14: what the verb, the view, a job and the report show of an eval is listed once.
TEST(EvalOutput, HasATableForWhatThereIs) {
  protocol::EvalResult result = sums();
  const auto names_of_tables = [&] {
    std::vector<std::string> names;
    for (const NamedTable& one : eval_tables(result, names_in(result))) names.push_back(one.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of_tables(), (Names{"eval", "eval_by_length"}));
  result.differences = {{.model = "b", .against = "a", .metric = "exact_match", .length = 2}};
  EXPECT_EQ(names_of_tables(), (Names{"eval", "eval_by_length", "eval_differences"}));
  const Output output = eval_output(result, {{"task", "addition"}}, names_in(result));
  EXPECT_EQ(output.tables.size(), 3u);
  ASSERT_EQ(output.figures.size(), 4u);  // by length, a map each, the difference
  EXPECT_EQ(output.figures[0].id, "eval_addition");
  EXPECT_EQ(output.figures[3].id, "eval_difference_addition");
  EXPECT_EQ(output.result["task"], "addition");
  std::erase_if(result.rows, [](const protocol::EvalRow& row) { return row.model == "b"; });
  result.differences.clear();
  EXPECT_EQ(names_of_tables(), Names{"eval"});
}

}  // namespace
}  // namespace phasescope::app
