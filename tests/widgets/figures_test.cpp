#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "widgets/map_colors.h"
#include "widgets/map_image.h"
#include "widgets/plot_svg.h"
#include "widgets/plot_table.h"
#include "widgets/svg_writer.h"

namespace phasescope::widgets {
namespace {

PlotSpec sample_plot() {
  PlotSpec plot;
  plot.id = "sample";
  plot.title = "Loss <by> position & length";
  plot.x = {"position (tokens)", Scale::log10, 1, 1024, {}};
  plot.y = {"loss (bits per byte)", Scale::linear, {}, {}, {}};
  plot.series.push_back({"rope", SeriesKind::line, {1, 10, 100}, {2, 1, NAN}, {}, {}, 0});
  plot.series.push_back(
      {"tapa", SeriesKind::line, {1, 10, 100}, {2.5, 2, 2}, {2, 1.5, 1.8}, {3, 2.5, 2.2}, 1});
  plot.series.push_back({"counts", SeriesKind::histogram, {1, 2, 4, 8}, {1, 3, 2}, {}, {}, 2});
  plot.markers.push_back({256, true, "trained length"});
  plot.notes = {"mean over 50 texts; interval clustered by text"};
  return plot;
}

MapSpec sample_map() {
  MapSpec map;
  map.rows = 2, map.cols = 3;
  map.values = {0.F, 0.5F, 1.F, kMaskedCell, NAN, 0.25F};
  map.value_label = "weight";
  return map;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(MapMarks, Row19_MaskedCellsAndCellsWithoutANumberAreToldApartAndCounted) {
  MapSpec map{.rows = 1, .cols = 4, .values = {0.5F, kMaskedCell, NAN, INFINITY}};
  EXPECT_EQ(marks_of(map.values).masked, 1U);
  EXPECT_EQ(marks_of(map.values).not_finite, 2U);
  EXPECT_EQ(cell_color(map, map.values[1]), kMaskedColor);
  EXPECT_EQ(cell_color(map, map.values[2]), kNotFiniteColor);
  EXPECT_EQ(cell_color(map, map.values[3]), kNotFiniteColor);
  EXPECT_EQ(scale_note(map), "scale 0 .. 1; grey: masked; magenta: 2 cells are NaN or infinite");
  map.values = {0, 0, 0, 1};
  EXPECT_EQ(scale_note(map), "scale 0 .. 1");  // nothing is grey: nothing is said of grey
}

TEST(AxisRange, PointsAtZeroAreNotCutInHalf) {
  PlotSpec plot;
  plot.series.push_back({.kind = SeriesKind::scatter, .x = {0, 1, 2}, .y = {0, 5, 7}});
  EXPECT_LT(axis_range(plot, false).low, 0);
  EXPECT_LT(axis_range(plot, true).low, 0);
  plot.series[0].kind = SeriesKind::line;
  EXPECT_EQ(axis_range(plot, false).low, 0);
}

TEST(Colormap, WeightsGoFromWhiteToDarkBlue) {
  const Rgba zero = color_of(Colormap::weights, 0, {0, 1});
  const Rgba one = color_of(Colormap::weights, 1, {0, 1});
  EXPECT_EQ(zero, (Rgba{255, 255, 255, 255}));
  EXPECT_GT(one.b, one.r);
  EXPECT_GT(one.b, one.g);
}

TEST(Colormap, SignedValuesAreBluePositiveAndCentredAtZero) {
  const Rgba middle = color_of(Colormap::signed_values, 0, {-1, 9});
  EXPECT_EQ(middle.r, middle.g);
  EXPECT_EQ(middle.g, middle.b);
  EXPECT_GT(color_of(Colormap::signed_values, 9, {-1, 9}).b,
            color_of(Colormap::signed_values, 9, {-1, 9}).r);
  EXPECT_GT(color_of(Colormap::signed_values, -9, {-1, 9}).r,
            color_of(Colormap::signed_values, -9, {-1, 9}).b);
}

TEST(Colormap, Row19_MaskAndNanAreNeverTheColourOfAValue) {
  for (Colormap map : {Colormap::weights, Colormap::signed_values, Colormap::viridis}) {
    EXPECT_EQ(color_of(map, kMaskedCell, {0, 1}), kMaskedColor);
    EXPECT_EQ(color_of(map, NAN, {0, 1}), kNotFiniteColor);
    for (const Rgba& entry : color_table(map)) {
      EXPECT_NE(entry, kMaskedColor);
      EXPECT_NE(entry, kNotFiniteColor);
    }
  }
}

// On a dark ground nothing is nearly the ground, and more is lighter.
TEST(Colormap, OnADarkGroundMoreIsLighter) {
  const auto light = [](Rgba c) { return 0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b; };
  const auto weights = color_table(Colormap::weights, Ground::dark);
  EXPECT_LT(light(weights.front()), 30);
  EXPECT_GT(light(weights.back()), 240);
  for (std::size_t i = 1; i < weights.size(); ++i) {
    EXPECT_GE(light(weights[i]), light(weights[i - 1]) - 0.75);  // a channel is a whole number
  }
  const auto signed_values = color_table(Colormap::signed_values, Ground::dark);
  EXPECT_LT(light(signed_values[127]), 40);
  EXPECT_GT(signed_values.front().r, signed_values.front().b);
  EXPECT_GT(signed_values.back().b, signed_values.back().r);
  for (const Colormap map : {Colormap::weights, Colormap::signed_values}) {
    for (const Rgba& entry : color_table(map, Ground::dark)) EXPECT_NE(entry, kNotFiniteColor);
  }
  EXPECT_EQ(color_table(Colormap::viridis, Ground::dark), color_table(Colormap::viridis));
}

TEST(MapImage, HasRowsFromTheTopAndScalesCells) {
  const Image image = image_of(sample_map(), 2);
  ASSERT_EQ(image.width, 6);
  ASSERT_EQ(image.height, 4);
  EXPECT_EQ(image.pixels[0], (Rgba{255, 255, 255, 255}));
  EXPECT_EQ(image.pixels[5], color_at(Colormap::weights, 1));
  EXPECT_EQ(image.pixels[6 * 2], kMaskedColor);
  EXPECT_EQ(image.pixels[6 * 3 + 2], kNotFiniteColor);
}

TEST(MapImage, PngHasItsSignatureAndSize) {
  const std::string png = png_of(sample_map(), 3);
  ASSERT_GT(png.size(), 33U);
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(static_cast<unsigned char>(png[19]), 9);  // IHDR width
  EXPECT_EQ(static_cast<unsigned char>(png[23]), 6);  // IHDR height
  EXPECT_THROW(png_of(Image{}), std::runtime_error);
}

TEST(MapImage, DataUriIsBase64) {
  EXPECT_EQ(data_uri_of_png("Man"), "data:image/png;base64,TWFu");
  EXPECT_EQ(data_uri_of_png("Ma"), "data:image/png;base64,TWE=");
  EXPECT_EQ(data_uri_of_png("M"), "data:image/png;base64,TQ==");
}

TEST(PlotSpec, TicksAreRoundAndInside) {
  const auto ticks = nice_ticks(0, 1, Scale::linear, 5);
  ASSERT_EQ(ticks.size(), 6U);
  EXPECT_EQ(ticks[1].label, "0.2");
  const auto decades = nice_ticks(1, 1e6, Scale::log10);
  ASSERT_EQ(decades.size(), 7U);
  EXPECT_EQ(decades.back().at, 1e6);
  EXPECT_TRUE(nice_ticks(1, 1, Scale::linear).empty());
  EXPECT_TRUE(nice_ticks(NAN, 1, Scale::linear).empty());
}

TEST(PlotSpec, AxisRangeIgnoresWhatIsNotFinite) {
  PlotSpec plot = sample_plot();
  EXPECT_EQ(axis_range(plot, false), (ValueRange{1, 1024}));
  const ValueRange y = axis_range(plot, true);
  EXPECT_TRUE(std::isfinite(y.low) && std::isfinite(y.high));
  EXPECT_GE(y.high, 3);
  EXPECT_EQ(axis_range(PlotSpec{}, true), (ValueRange{0, 1}));
}

TEST(PlotSvg, HoldsTextLinesAndOnePicture) {
  PlotSpec plot = sample_plot();
  plot.map = sample_map();
  const std::string svg = svg_of(plot);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_NE(svg.find("Loss &lt;by&gt; position &amp; length"), std::string::npos);
  EXPECT_NE(svg.find("clustered by text"), std::string::npos);
  EXPECT_NE(svg.find("Inter"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<image "), 1);
  EXPECT_GE(count_of(svg, "<polyline "), 2);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf\""), std::string::npos);
}

TEST(PlotSvg, ZeroHasNoPlaceOnALogAxis) {
  PlotSpec plot;
  plot.y.scale = Scale::log10;
  plot.series.push_back({.label = "a", .x = {0, 1, 2}, .y = {1, 0, 10}});
  plot.series.push_back({.label = "b", .kind = SeriesKind::scatter, .x = {0, 1}, .y = {0, 2}});
  const std::string svg = svg_of(plot);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

// The corners of the first line of a figure, in pixels of its page.
SvgPoints first_line(const std::string& svg) {
  const std::string begin = " points=\"";
  const auto at = svg.find(begin, svg.find("<polyline "));
  std::istringstream words(at == std::string::npos ? "" : svg.substr(at + begin.size()));
  SvgPoints points;
  char comma = 0;
  for (double x = 0, y = 0; words >> x >> comma >> y;) points.emplace_back(x, y);
  return points;
}

// An interval that reaches 0 or below keeps its numbers, and is drawn as one down to the axis' end.
TEST(PlotSvg, AnIntervalDownToZeroEndsWithALogAxis) {
  PlotSpec plot;
  plot.y = {.scale = Scale::log10, .low = 0.25, .high = 4};
  plot.series.push_back(
      {.kind = SeriesKind::scatter, .x = {1, 2, 3}, .y = {1, 1, 1}, .high = {2, 2, 2}});
  const auto with = [&](double low) {
    plot.series[0].low = {0.5, low, 0.5};
    return svg_of(plot);
  };
  EXPECT_EQ(with(-1), with(0.25));
  EXPECT_EQ(with(0), with(0.25));
  EXPECT_NE(with(0.5), with(0.25));
  // A band drops half way to the points beside, as one does that has points there.
  const auto band = [&] {
    const std::string svg = svg_of(plot);
    const auto begin = svg.find("<polygon");
    return svg.substr(begin, svg.find("/>", begin) - begin);
  };
  plot.series[0].kind = SeriesKind::line, plot.series[0].low = {0.5, -1, 0.5};
  const std::string dropped = band();
  plot.series[0].low = {0.5, 0.25, 0.5};
  EXPECT_NE(band(), dropped) << "no slope to the end of the axis";
  plot.series[0] = {.x = {1, 1.5, 1.5, 2, 2.5, 2.5, 3},
                    .y = std::vector<double>(7, 1),
                    .low = {0.5, 0.5, 0.25, 0.25, 0.25, 0.5, 0.5},
                    .high = std::vector<double>(7, 2)};
  EXPECT_EQ(band(), dropped);
}

// A square of one quantity stands as a square on wide and on high pages, all of it inside its
// frame; without equal axes it fills the frame.
TEST(PlotSvg, EqualAxesHaveOneScale) {
  PlotSpec plot;
  plot.series.push_back({.label = "a", .x = {-1, 1, 1, -1, -1}, .y = {-1, -1, 1, 1, -1}});
  const auto sides = [&](PixelSize size) {
    const SvgPoints corners = first_line(svg_of(plot, size));
    EXPECT_EQ(corners.size(), 5U);
    if (corners.size() != 5) return std::pair{0.0, 0.0};
    EXPECT_GE(std::min(corners[0].first, corners[2].second), 0);
    return std::pair{corners[1].first - corners[0].first, corners[1].second - corners[2].second};
  };
  const auto [stretched, high] = sides({720, 420});
  EXPECT_GT(stretched, high * 1.5);
  plot.equal_axes = true;
  for (const PixelSize size : {PixelSize{720, 420}, PixelSize{420, 720}}) {
    const auto [across, up] = sides(size);
    EXPECT_NEAR(across, up, 0.2) << size.width;
    EXPECT_GT(up, 250) << size.width;
  }
}

// The axis with room to spare is widened around its middle; the other one is left as it is.
TEST(PlotSpec, EqualAxesWidenOneOfThem) {
  PlotSpec plot;
  plot.x.low = 0, plot.x.high = 2, plot.y.low = -1, plot.y.high = 3;
  EXPECT_EQ(axis_ranges(plot, 300, 100).x, (ValueRange{0, 2}));
  plot.equal_axes = true;
  const AxisRanges wide = axis_ranges(plot, 300, 100);
  EXPECT_EQ(wide.y, (ValueRange{-1, 3}));
  EXPECT_NEAR(wide.x.low, -5, 1e-12);
  EXPECT_NEAR(wide.x.high, 7, 1e-12);
  const AxisRanges high = axis_ranges(plot, 100, 400);
  EXPECT_EQ(high.x, (ValueRange{0, 2}));
  EXPECT_NEAR(high.y.high - high.y.low, 8, 1e-12);
}

TEST(PlotSvg, PointsStandAtTheValuesOfALineAndInTheLegend) {
  PlotSpec plot;
  plot.series.push_back({.label = "a", .x = {1, 2, 3, 4}, .y = {1, NAN, 3, 2}});
  EXPECT_EQ(count_of(svg_of(plot), "<polygon "), 0);
  plot.series[0].points = PointShape::diamond;
  EXPECT_EQ(count_of(svg_of(plot), "<polygon "), 3 + 1);
  plot.series[0].kind = SeriesKind::scatter;
  EXPECT_EQ(count_of(svg_of(plot), "<polygon "), 3 + 1);
  EXPECT_EQ(count_of(svg_of(plot), "<circle "), 0);
}

// A square stands for a circle of its radius, of which it is 0.9 to each side: of 2 and 5 pixels,
// and in the legend of the usual 3.2.
TEST(PlotSvg, PointsOfTheirOwnSizesKeepTheirShape) {
  PlotSpec plot;
  plot.series.push_back({.label = "a", .kind = SeriesKind::scatter, .x = {1, 2}, .y = {1, 2}});
  plot.series[0].points = PointShape::square, plot.series[0].sizes = {2, 5};
  const std::string svg = svg_of(plot);
  EXPECT_EQ(count_of(svg, "<circle "), 0);
  for (const char* width : {"width=\"3.6\"", "width=\"9\"", "width=\"5.76\""}) {
    EXPECT_EQ(count_of(svg, width), 1) << width;
  }
}

TEST(PlotSvg, SmallMapsCarryTheirNumbersAndLargeOnesAreSquare) {
  PlotSpec plot;
  plot.map = MapSpec{.rows = 2, .cols = 2, .values = {0.125F, 0.25F, 0.375F, NAN}};
  const std::string small = svg_of(plot);
  for (const char* number : {">0.125<", ">0.25<", ">0.375<"}) {
    EXPECT_NE(small.find(number), std::string::npos) << number;
  }
  plot.map = MapSpec{.rows = 20, .cols = 20, .values = std::vector<float>(400, 0.3F)};
  const std::string large = svg_of(plot, {720, 420});
  EXPECT_NE(large.find("width=\"578\" height=\"578\""), std::string::npos);
  EXPECT_EQ(large.find(">0.3<"), std::string::npos);
}

// A reader that smooths pictures must find nothing to smooth: each cell is a block of pixels.
TEST(PlotSvg, CellsAreEmbeddedAsBlocks) {
  PlotSpec plot;
  plot.map = MapSpec{.rows = 2, .cols = 2, .values = {0, 1, 1, 0}};
  EXPECT_NE(svg_of(plot).find(data_uri_of_png(png_of(*plot.map, 512))), std::string::npos);
}

// What is nothing is nearly the ground: on a dark page an empty map must not glare.
TEST(PlotSvg, MapsOnADarkPageHaveTheColoursOfTheDarkWindow) {
  PlotSpec plot;
  plot.map = MapSpec{.rows = 2, .cols = 2, .values = {0, 1, kMaskedCell, 0}};
  const auto picture = [&](Ground ground) {
    return data_uri_of_png(png_of(*plot.map, 512, ground));
  };
  ASSERT_NE(picture(Ground::light), picture(Ground::dark));
  const std::string light = svg_of(plot), dark = svg_of(plot, {}, FigureTheme::dark);
  EXPECT_NE(light.find(picture(Ground::light)), std::string::npos);
  EXPECT_NE(dark.find(picture(Ground::dark)), std::string::npos);
  EXPECT_EQ(dark.find(picture(Ground::light)), std::string::npos);
  const Image image = image_of(*plot.map, 1, Ground::dark);
  EXPECT_EQ(image.pixels[0], color_at(Colormap::weights, 0, Ground::dark));
  EXPECT_EQ(image.pixels[1], color_at(Colormap::weights, 1, Ground::dark));
  EXPECT_EQ(image.pixels[2], kMaskedOnDark);
  // The scale beside it, from the lower end on.
  const std::string lowest = hex_of(color_at(Colormap::weights, 0.5 / 48, Ground::dark));
  EXPECT_NE(dark.find(lowest), std::string::npos);
  EXPECT_EQ(light.find(lowest), std::string::npos);
}

// What a row has beside its columns, as the weight on a learned sink, is a strip of its own.
TEST(PlotSvg, AMarginStandsBesideTheMapAndInItsNumbers) {
  PlotSpec plot;
  plot.map = MapSpec{.rows = 2, .cols = 2, .values = {0, 1, 1, 0}};
  plot.map->row_begin = 4, plot.map->row_end = 6;
  EXPECT_EQ(count_of(svg_of(plot), "<image "), 1);
  plot.map->margin = {0.25F, 0.75F}, plot.map->margin_name = "learned sink";
  const std::string svg = svg_of(plot);
  EXPECT_EQ(count_of(svg, "<image "), 2);
  EXPECT_NE(svg.find(data_uri_of_png(png_of(margin_of(*plot.map), 512))), std::string::npos);
  EXPECT_NE(svg.find("learned sink"), std::string::npos);
  const std::string csv = csv_of(*plot.map);
  EXPECT_NE(csv.find("4,learned sink,0.25\n5,learned sink,0.75\n"), std::string::npos) << csv;
}

TEST(PlotSvg, EmptyPlotsAreDrawnToo) {
  EXPECT_NE(svg_of(PlotSpec{}).find("</svg>"), std::string::npos);
  EXPECT_NE(svg_of(GridSpec{}).find("</svg>"), std::string::npos);
  PlotSpec plot;
  plot.map = MapSpec{};
  EXPECT_NE(svg_of(plot).find("</svg>"), std::string::npos);
}

// A reading's name has its settings in it: 200 letters are not rare.
TEST(PlotSvg, LongTitlesAreBrokenAndMoveThePlotDown) {
  PlotSpec plot = sample_plot();
  plot.title = "Pair", plot.map = sample_map();
  GridSpec grid;
  for (int n = 0; n < 30; ++n) plot.title += " L" + std::to_string(n) + "H1=32";
  grid.title = plot.title;
  for (const std::string& svg : {svg_of(plot, {720, 420}), svg_of(grid, 720)}) {
    const std::regex line("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*font-weight[^>]*>([^<]*)<");
    double last = 0;
    std::string all;
    for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at) {
      EXPECT_LE(std::stod((*at)[1]) + text_width((*at)[3], 14.5), 720);
      EXPECT_GT(std::stod((*at)[2]), last);
      last = std::stod((*at)[2]);
      all += (all.empty() ? "" : " ") + (*at)[3].str();
    }
    EXPECT_EQ(all, plot.title);
    std::smatch clip;
    if (std::regex_search(svg, clip,
                          std::regex("<clipPath[^>]*><rect x=\"[0-9.]+\" y=\"([0-9.]+)\""))) {
      EXPECT_GT(std::stod(clip[1]), last);
    }
  }
}

TEST(PlotSvg, GridHasOnePictureACell) {
  GridSpec grid;
  grid.columns = 4;
  for (int i = 0; i < 8; ++i) grid.cells.push_back({sample_map(), "L0H" + std::to_string(i)});
  EXPECT_EQ(count_of(svg_of(grid), "<image "), 8);
}

// Cells that share a scale have it below them; of cells on scales of their own none is said.
TEST(PlotSvg, AGridOfOneScaleHasItsColourBar) {
  GridSpec grid;
  grid.columns = 2;
  MapSpec map = sample_map();
  map.range = {0, 1}, map.value_label = "weight", map.log_decades = 0;
  for (int i = 0; i < 4; ++i) grid.cells.push_back({map, "L0H" + std::to_string(i)});
  const std::string shared = svg_of(grid);
  EXPECT_NE(shared.find(">weight 0<"), std::string::npos) << shared;
  EXPECT_NE(shared.find(">1<"), std::string::npos) << shared;
  EXPECT_NE(shared.find(hex_of(color_at(map.colormap, 0.5 / 48))), std::string::npos);
  EXPECT_NE(shared.find(hex_of(color_at(map.colormap, 47.5 / 48))), std::string::npos);
  grid.cells[3].map.range.high = 2;
  const std::string own = svg_of(grid);
  EXPECT_EQ(own.find(">weight 0<"), std::string::npos) << own;
}

// One frame, its bars, an interval's line, and what lies beyond the marker shaded, a cell.
TEST(PlotSvg, GridHasOneSmallPlotACell) {
  GridSpec grid;
  grid.columns = 2;
  PlotSpec plot;
  plot.series.push_back(
      {"demand", SeriesKind::bars, {0, 1, 2}, {1, -2, 3}, {0, -3, 2}, {2, -1, 4}});
  plot.markers.push_back({.at = 1.5, .label = "trained length"});
  for (int i = 0; i < 3; ++i) grid.cells.push_back({{}, "L0H" + std::to_string(i), plot});
  const std::string plain = svg_of(grid);
  EXPECT_EQ(count_of(plain, "<image "), 0);
  EXPECT_EQ(count_of(plain, ">trained length<"), 3);
  for (GridCell& cell : grid.cells) cell.plot->markers[0].beyond = true;
  EXPECT_EQ(count_of(svg_of(grid), "<rect "), count_of(plain, "<rect ") + 3);
  for (GridCell& cell : grid.cells) cell.plot->series[0].low.clear();
  EXPECT_LT(count_of(svg_of(grid), "<line "), count_of(plain, "<line "));
  const std::string csv = csv_of(grid);
  EXPECT_EQ(csv.rfind("cell,series,x,y,low,high\n", 0), 0U);
  EXPECT_NE(csv.find("L0H2,demand,1,-2,,-1\n"), std::string::npos) << csv;
}

TEST(PlotTable, CsvHoldsEveryNumber) {
  const std::string csv = csv_of(sample_plot());
  EXPECT_EQ(csv.rfind("series,x,y,low,high\n", 0), 0U);
  EXPECT_NE(csv.find("tapa,10,2,1.5,2.5\n"), std::string::npos);
  EXPECT_NE(csv.find("rope,100,nan,,\n"), std::string::npos);
  EXPECT_NE(csv_of(sample_map()).find("0,1,0.5\n"), std::string::npos);
  EXPECT_NE(csv_of(sample_map()).find("1,0,-inf\n"), std::string::npos);
}

TEST(ShortNumber, IsReadable) {
  EXPECT_EQ(short_number(0.30000000000000004), "0.3");
  EXPECT_EQ(short_number(65536), "65536");
  EXPECT_EQ(short_number(1e7), "1e+07");
  EXPECT_EQ(short_number(NAN), "nan");
}

}  // namespace
}  // namespace phasescope::widgets
