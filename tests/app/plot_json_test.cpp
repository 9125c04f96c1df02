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

}  // namespace
}  // namespace phasescope::app
