// A distance stands at the same place of every figure, whichever view it is in.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/figures/question_figures.h"

namespace phasescope::app {
namespace {

using protocol::DistancePoint;
using widgets::PlotSpec;

void append(std::vector<PlotSpec>& plots, std::vector<PlotSpec> more) {
  plots.insert(plots.end(), more.begin(), more.end());
}

// What is measured at distances 0, 1 and 9 of each kind of result.
std::vector<PlotSpec> figures_of_distance() {
  const ModelNames names({"rope"});
  std::vector<PlotSpec> plots;
  protocol::DistanceModel model{.model = "rope", .encoding = "rope"};
  protocol::DistanceGroup group{.layer = 1, .head = 0};
  protocol::HeadBias bias{.layer = 1, .head = 0};
  for (const std::int64_t d : {0, 1, 9}) {
    const DistancePoint point{.distance = d, .count = 1, .score_mean = 1, .weight_mean = 0.5};
    model.profile.push_back(point), group.profile.push_back(point), bias.profile.push_back(point);
    bias.coefficients.push_back({.distance = d, .distance_end = d + 1});
  }
  bias.a_by_plane = bias.b_by_plane = {{1, 2, 3}};
  model.heads = {group};
  protocol::IntrinsicBias intrinsic{.layer = 1, .head = 0};
  intrinsic.distances = bias.distances = {0, 1, 9};
  intrinsic.per_plane = intrinsic.sqrt_d_gamma = {3, 2, 1};
  bias.per_plane = bias.sqrt_d_gamma = {3, 2, 1};
  model.intrinsic = {intrinsic};
  plots.push_back(score_profile_figure({&model, 1}, names));
  plots.push_back(score_parts_figure(model, names));
  plots.push_back(intrinsic_bias_figure(model, 1, names));
  append(plots, head_bias_figures(model, bias, names));
  protocol::AcuityResult acuity{.model = "rope", .trained = 256};
  for (const std::int64_t low : {0, 1, 9}) {
    acuity.bands.push_back({.low = low, .high = low + 1, .change_seen = protocol::Interval{}});
  }
  append(plots, acuity_figures(acuity, names));
  protocol::CheckResult check{.id = "x", .model = "rope"};
  for (const bool log : {false, true}) {
    check.curves.push_back({.x_label = "distance",
                            .y_label = log ? "of a log axis" : "score",
                            .log_x = log,
                            .x = {0, 1, 9},
                            .y = {1, 2, 3},
                            .bound = {4, 4, 4}});
  }
  append(plots, check_figures(check, names));
  return plots;
}

TEST(DistanceAxes, SayWhereTheyBegin) {
  int logarithmic = 0, linear = 0;
  for (const PlotSpec& plot : figures_of_distance()) {
    if (plot.map || plot.x.label.find("distance") == std::string::npos) continue;
    const bool log = plot.x.scale == widgets::Scale::log10;
    ++(log ? logarithmic : linear);
    EXPECT_EQ(plot.x.of, widgets::Coordinate::distance) << plot.id;
    EXPECT_EQ(plot.x.zero, log ? 1 : 0) << plot.id;
    EXPECT_TRUE(plot.x.label.starts_with(log ? "distance + 1 (tokens" : "distance (tokens"))
        << plot.id << ": " << plot.x.label;
  }
  EXPECT_EQ(linear, 3);       // score, its parts, the check
  EXPECT_EQ(logarithmic, 6);  // intrinsic, three of a head, acuity, the check
}

// No distance is left out, and none stands where another one does.
TEST(DistanceAxes, HaveAPlaceForTheQueryItself) {
  int figures = 0;
  for (const PlotSpec& plot : figures_of_distance()) {
    if (plot.map || plot.x.of != widgets::Coordinate::distance) continue;
    figures += std::ranges::any_of(plot.series, [](const auto& one) { return !one.x.empty(); });
    for (const widgets::Series& series : plot.series) {
      if (series.x.empty()) continue;  // sweeps that were not asked for
      EXPECT_EQ(series.x.front() - plot.x.zero, 0) << plot.id << " " << series.label;
      bool one = false, nine = false;
      for (const double x : series.x) {
        if (std::isnan(x)) continue;  // between two bands
        one = one || x - plot.x.zero == 1;
        nine = nine || x - plot.x.zero == 9;
        if (plot.x.scale == widgets::Scale::log10) {
          EXPECT_GT(x, 0) << plot.id;
        }
      }
      EXPECT_TRUE(one && nine) << plot.id << " " << series.label;
    }
  }
  EXPECT_EQ(figures, 9);  // all of those whose axes are looked at above
}

}  // namespace
}  // namespace phasescope::app
