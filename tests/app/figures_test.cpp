// Results as figures and as tables of verbs.
#include "app/figures/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "app/verbs/verb_tools.h"
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
  for (size_t bin = 0; bin < series.y.size(); ++bin) {
    area += series.y[bin] * (series.x[bin + 1] - series.x[bin]);
  }
  EXPECT_NEAR(area, 1.0, 1e-12);  // four pairs in two bins of widths 1 and 2
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
  EXPECT_NE(text_of(table).find("loss above it [nats]"), std::string::npos) << text_of(table);
  EXPECT_EQ(table.notes.at(0),
            "nats a byte, model - against; 95 % interval: jackknife t, n = 8 texts");
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

}  // namespace
}  // namespace phasescope::app
