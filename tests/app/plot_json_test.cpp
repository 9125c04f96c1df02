// The JSON of a figure, that files beside pictures hold.
#include "app/figures/plot_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace phasescope::app {
namespace {

using nlohmann::json;

TEST(PlotJson, HoldsEveryNumberOfTheFigure) {
  widgets::PlotSpec plot;
  plot.id = "loss", plot.title = "Loss";
  plot.x = {"position", widgets::Scale::log10, 1.0, {}, {{10, "ten"}}};
  widgets::Series series;
  series.label = "rope", series.kind = widgets::SeriesKind::bars;
  series.x = {1, 2}, series.y = {0.5, std::nan("")}, series.low = {-INFINITY, 0};
  series.points = widgets::PointShape::wedge;
  plot.series = {series};
  plot.markers = {{0.25, true, "trained", 1}};
  plot.notes = {"n = 2"};
  const json out = json_of(plot);
  EXPECT_EQ(out["id"], "loss");
  EXPECT_EQ(out["x"], (json{{"label", "position"},
                            {"scale", "log10"},
                            {"low", 1.0},
                            {"ticks", {{{"at", 10.0}, {"label", "ten"}}}}}));
  const json& one = out["series"][0];
  EXPECT_EQ(one["kind"], "bars");
  EXPECT_EQ(one["points"], "wedge");
  EXPECT_EQ(one["y"], (json{0.5, "nan"}));
  EXPECT_EQ(one["low"], (json{"-inf", 0.0}));
  EXPECT_EQ(out["markers"][0]["at"], 0.25);
  EXPECT_EQ(out["notes"], json{"n = 2"});
  EXPECT_FALSE(out.contains("map"));
  EXPECT_FALSE(out.contains("equal_axes"));
}

TEST(PlotJson, SaysWhereAMapLies) {
  widgets::MapSpec map;
  map.rows = 1, map.cols = 2, map.values = {0.5F, NAN};
  map.row_begin = 3, map.row_end = 4;
  const json out = json_of(map);
  EXPECT_EQ(out["query_range"], (json{3.0, 4.0}));
  EXPECT_EQ(out["key_range"], (json{0.0, 2.0}));  // all columns where no end is given
  EXPECT_EQ(out["values"], (json{0.5, "nan"}));
}

// Every key, so that none is lost or renamed: other programs read these files.
TEST(PlotJson, HasTheseKeys) {
  widgets::PlotSpec plot{.id = "p", .title = "P"};
  plot.x.label = "distance", plot.y.high = INFINITY;
  plot.series = {{.label = "a", .x = {1}, .y = {2}, .color = 3, .width = 2, .dashed = true}};
  plot.markers = {{.at = 4, .vertical = false, .label = "m", .beyond = true}};
  plot.legend = false, plot.equal_axes = true;
  widgets::MapSpec map{.rows = 1, .cols = 1, .values = {0.25F}};
  map.value_label = "weight", map.log_decades = 2, map.samples = {7};
  map.margin = {0.5F}, map.margin_name = "learned sink";
  const json of_map{{"rows", 1},
                    {"cols", 1},
                    {"query_range", {0.0, 1.0}},
                    {"key_range", {0.0, 1.0}},
                    {"colormap", widgets::name_of(widgets::Colormap::weights)},
                    {"range", {0.0, 1.0}},
                    {"value_label", "weight"},
                    {"log_decades", 2},
                    {"row_name", "query"},
                    {"col_name", "key"},
                    {"samples", {7.0}},
                    {"values", {0.25}},
                    {"margin", {{"name", "learned sink"}, {"values", {0.5}}}}};
  EXPECT_EQ(json_of(map), of_map);
  plot.map = map;
  const json of_plot{
      {"id", "p"},
      {"title", "P"},
      {"x", {{"label", "distance"}, {"scale", "linear"}}},
      {"y", {{"label", ""}, {"scale", "linear"}, {"high", "inf"}}},
      {"series",
       {{{"label", "a"},
         {"kind", "line"},
         {"x", {1.0}},
         {"y", {2.0}},
         {"low", json::array()},
         {"high", json::array()},
         {"color", 3},
         {"width", 2.0},
         {"dashed", true},
         {"quiet", false}}}},
      {"markers",
       {{{"at", 4.0}, {"vertical", false}, {"label", "m"}, {"color", -1}, {"beyond", true}}}},
      {"notes", json::array()},
      {"legend", false},
      {"equal_axes", true},
      {"map", of_map}};
  EXPECT_EQ(json_of(plot), of_plot);
  widgets::GridSpec grid{.id = "g", .title = "G", .columns = 2, .notes = {"n"}};
  EXPECT_EQ(json_of(grid), (json{{"id", "g"}, {"title", "G"}, {"columns", 2}, {"notes", {"n"}}}));
  grid.cells = {{.map = map, .caption = "L0H0"}, {.caption = "L0H1", .plot = plot}};
  EXPECT_EQ(json_of(grid)["cells"], (json{{{"caption", "L0H0"}, {"map", of_map}},
                                          {{"caption", "L0H1"}, {"plot", of_plot}}}));
}

}  // namespace
}  // namespace phasescope::app
