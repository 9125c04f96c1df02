// Series of a plot are told apart without their colours: by shapes, on the plot and in the legend.
#include "widgets/series_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/widgets/headless_imgui.h"
#include "widgets/colormap.h"
#include "widgets/plot_draw.h"
#include "widgets/plot_svg.h"
#include "widgets/svg_writer.h"

namespace phasescope::widgets {
namespace {

using phasescope::testing::HeadlessImGui;

// So many equal lines of so many values, in the first colours.
PlotSpec equal_lines(int lines, int values) {
  PlotSpec plot{.id = "lines"};
  for (int n = 0; n < lines; ++n) {
    Series& series = plot.series.emplace_back();
    series.label = "model " + std::to_string(n), series.color = n;
    for (int i = 0; i < values; ++i) series.x.push_back(i), series.y.push_back(std::sin(0.1 * i));
  }
  return plot;
}

std::vector<std::vector<MarkPlace>> marks_in(const PlotSpec& plot, double scale) {
  return series_marks(plot, shapes_of(plot), 0, 600, [&](double x, double y) {
    return MarkPlace{x * scale, 100 * y};
  });
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SeriesMarks, EachColourHasAShape) {
  std::set<PointShape> shapes;
  for (int color = 0; color < series_count(); ++color) shapes.insert(shape_of_color(color));
  EXPECT_EQ(static_cast<int>(shapes.size()), series_count());
  EXPECT_FALSE(shapes.contains(PointShape::none));
  EXPECT_EQ(shape_of_color(series_count() + 1), shape_of_color(1)) << "as its colour";
}

TEST(SeriesMarks, ShapesStandWhereColourAloneWouldTellSeriesApart) {
  using Shapes = std::vector<PointShape>;
  const Shapes none(2, PointShape::none), both{shape_of_color(0), shape_of_color(1)};
  const PlotSpec lines = equal_lines(2, 20);
  EXPECT_EQ(shapes_of(lines), both);
  PlotSpec plot = lines;
  plot.series[1].color = 0;
  EXPECT_EQ(shapes_of(plot), none) << "of one model";
  plot = lines, plot.series[1].dashed = true;
  EXPECT_EQ(shapes_of(plot), none) << "one is dashed";
  plot = lines, plot.series[1].quiet = true;
  EXPECT_EQ(shapes_of(plot), none) << "one is published";
  plot = lines, plot.series[1].width = 3;
  EXPECT_EQ(shapes_of(plot), none) << "one is thick";
  for (Series& series : (plot = lines).series) series.points = PointShape::circle;
  EXPECT_EQ(shapes_of(plot), both) << "both have circles";
  for (Series& series : (plot = lines).series) series.kind = SeriesKind::scatter;
  EXPECT_EQ(shapes_of(plot), both) << "a scatter of circles too";
  plot = lines;
  plot.series[0].points = PointShape::wedge, plot.series[1].points = PointShape::cross;
  EXPECT_EQ(shapes_of(plot), (Shapes{PointShape::wedge, PointShape::cross})) << "as they are";
  // Twelve heads of a layer are more than there are colours.
  EXPECT_EQ(shapes_of(equal_lines(12, 20)), Shapes(12, PointShape::none));
}

// Lines on each other have marks that are not: half a step of 600 / 9 pixels from each other, but
// for the distance of two values, 1.2 pixels, to either side.
TEST(SeriesMarks, OfALongLineAreAFewOfItsValuesApartFromThoseOfTheOthers) {
  const double scale = 600.0 / 511;
  const PlotSpec plot = equal_lines(2, 512);
  const auto marks = marks_in(plot, scale);
  ASSERT_EQ(marks.size(), 2U);
  for (const auto& of_series : marks) {
    EXPECT_GE(of_series.size(), 6U);
    EXPECT_LE(of_series.size(), 9U);
    for (const auto& [x, y] : of_series) {
      const auto value = static_cast<std::size_t>(std::lround(x / scale));
      EXPECT_NEAR(x, plot.series[0].x.at(value) * scale, 1e-9);
      EXPECT_NEAR(y, 100 * plot.series[0].y.at(value), 1e-9);
    }
  }
  for (const MarkPlace& a : marks[0]) {
    for (const MarkPlace& b : marks[1]) EXPECT_GT(std::abs(a.first - b.first), 600.0 / 18 - 2.4);
  }
}

// However near one looks: ten times nearer a tenth of the line is seen, with as many marks.
TEST(SeriesMarks, StandInThePartThatIsSeen) {
  for (const auto& of_series : marks_in(equal_lines(2, 512), 6000.0 / 511)) {
    EXPECT_GE(of_series.size(), 6U);
    for (const MarkPlace& mark : of_series) {
      EXPECT_GE(mark.first, 0);
      EXPECT_LE(mark.first, 600);
    }
  }
}

TEST(SeriesMarks, OfAFewValuesAreAllThatHaveAPlace) {
  PlotSpec plot = equal_lines(2, 5);
  plot.series[1].y[2] = NAN;
  const auto marks = marks_in(plot, 100);
  EXPECT_EQ(marks[0].size(), 5U);
  EXPECT_EQ(marks[1].size(), 4U);
}

// The last bin is a hundredth as high as the highest.
TEST(SeriesMarks, OfAHistogramStandInTheMiddleOfItsBins) {
  PlotSpec plot;
  for (int n = 0; n < 2; ++n) {
    plot.series.push_back({.label = "a",
                           .kind = SeriesKind::histogram,
                           .x = {0, 1, 2, 4, 6},
                           .y = {1, 3, 0, 0.03},
                           .color = n});
  }
  const std::vector<MarkPlace> expected{{5, 100}, {15, 300}};
  for (const auto& of_series : marks_in(plot, 10)) EXPECT_EQ(of_series, expected);
}

// Documents hold many figures: a mark takes about 25 bytes, and all marks of a series one element.
TEST(SeriesMarks, AreSmallInFiles) {
  constexpr int kMarks = 40;
  SvgPoints places;
  for (int n = 0; n < kMarks; ++n) places.emplace_back(100.25 + 10 * n, 205.75);
  const auto length_of = [&](PointShape shape, const SvgPoints& at) {
    SvgWriter svg(720, 420);
    svg.marks(at, shape, kMarkRadius, "#000000");
    const std::string text = svg.finish();
    const bool open = shape == PointShape::open_circle || shape == PointShape::open_square;
    EXPECT_EQ(occurrences(text, "<path "), open ? 2 : 1) << int(shape);
    return text.size();
  };
  for (int color = 0; color < series_count(); ++color) {
    const PointShape shape = shape_of_color(color);
    const bool open = shape == PointShape::open_circle || shape == PointShape::open_square;
    const std::size_t further = length_of(shape, places) - length_of(shape, {places[0]});
    EXPECT_LE(further, static_cast<std::size_t>((open ? 2 : 1) * 26 * (kMarks - 1))) << int(shape);
  }
}

// One element of marks a series, and what the legend has.
TEST(SeriesMarks, AreInFilesAndInTheirLegend) {
  PlotSpec plot = equal_lines(2, 512);
  plot.legend = false;
  EXPECT_EQ(occurrences(svg_of(plot), "<path "), 2);
  plot.legend = true;
  const std::string apart = svg_of(plot);
  EXPECT_EQ(occurrences(apart, "<circle "), 1) << "the first one's, in the legend";
  plot.series[1].color = 0;
  const std::string alike = svg_of(plot);
  EXPECT_EQ(occurrences(alike, "<path "), 0);
  EXPECT_EQ(occurrences(alike, "<circle "), 0);
}

// Not each value of a long text has a point, in the window as in files: three vertices are the
// least of a point, 9 marks and one in the legend are the most of either line.
TEST(SeriesMarks, AreInTheWindow) {
  HeadlessImGui gui;
  const auto vertices = [&](const PlotSpec& plot) {
    int count = 0;
    for (int frame = 0; frame < 3; ++frame) {
      gui.begin_frame();
      ImGui::SetNextWindowSize({800, 500});
      ImGui::Begin("window");
      draw_plot(plot, {.version = 1});
      ImGui::End();
      count = gui.end_frame();
    }
    return count;
  };
  for (const SeriesKind kind : {SeriesKind::line, SeriesKind::histogram, SeriesKind::bars}) {
    PlotSpec plot = equal_lines(2, 200);
    for (Series& series : plot.series) {
      series.kind = kind;
      for (double& y : series.y) y += 2;
    }
    PlotSpec alike = plot;
    alike.series[1].color = 0;
    const int more = vertices(plot) - vertices(alike);
    EXPECT_GE(more, 2 * (6 + 1) * 3) << int(kind);
    EXPECT_LE(more, 2 * (9 + 1) * 40) << int(kind);
  }
}

}  // namespace
}  // namespace phasescope::widgets
