#include "widgets/plot_hover.h"

#include <gtest/gtest.h>

#include <cmath>

namespace phasescope::widgets {
namespace {

// 100 pixels a unit to the right from 0, 10 pixels a unit upwards from 1000.
constexpr PlotPixels kPixels{{Scale::linear, 0, 10, 0, 1000}, {Scale::linear, 0, 100, 1000, 0}};

PlotSpec two_curves() {
  PlotSpec plot;
  plot.series.push_back(
      {"a", SeriesKind::line, {1, 2, 3}, {10, NAN, 30}, {9, 0, 28}, {11, 0, NAN}});
  plot.series.push_back({"b", SeriesKind::line, {1, 2, 3, 8}, {40, 50, 60, 70}, {}, {}});
  return plot;
}

TEST(Hover, KnowsWhatOneCoordinateSaysOfAnother) {
  Hover pair;
  pair.query = 20, pair.key = 3;
  EXPECT_EQ(pair.at(Coordinate::distance), 17);
  EXPECT_EQ(pair.at(Coordinate::token), 20);
  EXPECT_EQ(pair.at(Coordinate::position), 20);
  EXPECT_FALSE(pair.at(Coordinate::layer));
  EXPECT_FALSE(pair.at(Coordinate::none));
  Hover token;
  token.token = 4;
  EXPECT_EQ(token.at(Coordinate::query), 4);
  EXPECT_FALSE(token.at(Coordinate::distance));
  EXPECT_FALSE(token.empty());
  EXPECT_TRUE(Hover{}.empty());
}

TEST(Hover, EveryCoordinateIsReadWhereItWasSet) {
  for (const Coordinate which :
       {Coordinate::model, Coordinate::layer, Coordinate::head, Coordinate::query, Coordinate::key,
        Coordinate::token, Coordinate::distance, Coordinate::position}) {
    Hover hover;
    hover.set(which, 7);
    EXPECT_EQ(hover.at(which), 7) << static_cast<int>(which);
  }
}

TEST(NearPoints, AreThoseBesideThePointerOfEachCurve) {
  // 210 pixels: x is 2.1. The first curve has no value at 2: its nearest are 90 and 110 pixels off.
  const auto points = near_points(two_curves(), kPixels, {210, 480}, 200);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].series, 0U);
  EXPECT_EQ(points[0].x, 3);
  EXPECT_EQ(points[1].x, 2);
  EXPECT_EQ(points[1].y, 50);
  EXPECT_DOUBLE_EQ(points[1].along, 10);
  EXPECT_DOUBLE_EQ(points[1].away, std::hypot(10, 20));
  EXPECT_EQ(nearest(points), &points[1]);
}

TEST(NearPoints, LeaveOutCurvesThatEndFarFromThePointer) {
  const auto points = near_points(two_curves(), kPixels, {790, 0});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].series, 1U);
  EXPECT_EQ(points[0].x, 8);
  EXPECT_EQ(nearest({}), nullptr);
}

TEST(NearPoints, OfAHistogramAreItsBins) {
  PlotSpec plot;
  plot.series.push_back({"h", SeriesKind::histogram, {0, 1, 9}, {3, 4}, {}, {}});
  // 120 pixels are inside the second bin, though the middle of the first one is nearer.
  const auto points = near_points(plot, kPixels, {120, 0});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].point, 1U);
  EXPECT_EQ(points[0].along, 0);
  EXPECT_EQ(place_text(plot.series[0], points[0]), "1 to 9");
  EXPECT_EQ(value_text(plot.series[0], points[0]), "4");
}

TEST(NearPoints, OfAScatterAreNearInBothDirections) {
  PlotSpec plot;
  plot.series.push_back({"s", SeriesKind::scatter, {2, 2}, {10, 90}, {}, {}});
  EXPECT_EQ(near_points(plot, kPixels, {205, 110}).at(0).point, 1U);
  EXPECT_TRUE(near_points(plot, kPixels, {205, 500}).empty());
}

TEST(NearPoints, RunDownwardsWherePlacesStandOnY) {
  PlotSpec plot = two_curves();
  EXPECT_FALSE(runs_downward(plot));
  plot.y.of = Coordinate::query;
  EXPECT_TRUE(runs_downward(plot));
  const auto points = near_points(plot, kPixels, {0, 500});  // y is 50
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].y, 50);
  EXPECT_EQ(value_text(plot.series[1], points[0], true), "2");
  EXPECT_EQ(place_text(plot.series[1], points[0], true), "50");
}

TEST(NearPoints, WithoutAPlaceOnALogAxisAreNotFound) {
  PlotSpec plot = two_curves();
  plot.x.scale = Scale::log10;
  plot.series = {{"z", SeriesKind::line, {0, 10}, {1, 2}, {}, {}}};
  const PlotPixels pixels{{Scale::log10, 1, 100, 0, 200}, kPixels.y};
  EXPECT_DOUBLE_EQ(pixels.x(10), 100);
  const auto points = near_points(plot, pixels, {0, 0});
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].x, 10);
}

TEST(ValueText, SaysTheIntervalWhereBothEndsAreKnown) {
  const PlotSpec plot = two_curves();
  EXPECT_EQ(value_text(plot.series[0], {0, 0, 1, 10}), "10 [9, 11]");
  EXPECT_EQ(value_text(plot.series[0], {0, 2, 3, 30}), "30");
  EXPECT_EQ(value_text(plot.series[1], {1, 0, 1, 40}), "40");
}

TEST(Marks, StandAtTheNumberOfTheAxis) {
  AxisSpec axis;
  axis.of = Coordinate::distance, axis.zero = 1;  // "distance + 1"
  Hover hover;
  set_coordinate(hover, axis, 17, false);
  EXPECT_EQ(hover.distance, 16);
  EXPECT_EQ(marked_place(hover, axis, false), 17);
  axis = {};
  axis.of = Coordinate::key;
  set_coordinate(hover, axis, 4.9, true);  // the cell [4, 5) of a map
  EXPECT_EQ(hover.key, 4);
  EXPECT_EQ(marked_place(hover, axis, true), 4.5);
  axis.of = Coordinate::layer;
  EXPECT_FALSE(marked_place(hover, axis, false));
  set_coordinate(hover, axis, NAN, false);
  EXPECT_FALSE(hover.layer);
}

}  // namespace
}  // namespace phasescope::widgets
