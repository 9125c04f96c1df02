#include <cmath>

#include "app/figures/distance_axis.h"
#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using protocol::HeadBias;
using widgets::Colormap;
using widgets::MapSpec;
using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;
using widgets::short_number;

namespace {

std::string name_of(const HeadBias& bias) { return protocol::name_of_head(bias.layer, bias.head); }

// Titles and names of the files of one head's figures.
PlotSpec plot_of(const std::string& what, const std::string& title, const HeadBias& bias,
                 const protocol::DistanceModel& model, const ModelNames& names) {
  return {.id = what + "_" + names.file_name(model.model) + "_" + name_of(bias),
          .title = names.short_name(model.model) + " " + name_of(bias) + ": " + title};
}

// Where the local range ends and the ultra range begins.
void mark_regimes(PlotSpec& plot, const HeadBias& bias) {
  plot.markers.push_back({.at = on_log_axis(bias.local_to), .label = "local to here"});
  plot.markers.push_back({.at = on_log_axis(bias.ultra_from), .label = "ultra from here"});
  plot.notes.push_back(
      "regimes in the model's own distances: local to " + short_number(bias.local_to) +
      ", critical to 1/theta_0 = " + short_number(bias.ultra_from) + ", ultra beyond");
}

// The measured mean score with its band and both predictions, to 10^7.
PlotSpec bias_figure(const HeadBias& bias, const protocol::DistanceModel& model,
                     const ModelNames& names) {
  PlotSpec plot =
      plot_of("bias", "mean score by distance, measured and intrinsic", bias, model, names);
  plot.x = log_distance_axis(kOfAngles);
  plot.y.label = "mean score (before softmax)";
  Series measured{.label = "measured"};
  for (const protocol::DistancePoint& point : bias.profile) {
    measured.x.push_back(on_log_axis(double(point.distance))),
        measured.y.push_back(point.score_mean);
    add_ends(measured, point.score_low, point.score_high);
  }
  plot.series.push_back(std::move(measured));
  plot.series.push_back({.label = "intrinsic: one mean a plane",
                         .x = on_log_axis(bias.distances),
                         .y = bias.per_plane,
                         .color = 1});
  plot.series.push_back({.label = "intrinsic: sqrt(D) Gamma, one mean",
                         .x = on_log_axis(bias.distances),
                         .y = bias.sqrt_d_gamma,
                         .color = 2});
  mark_regimes(plot, bias);
  plot.notes.push_back("the intrinsic curves at " + std::to_string(bias.distances.size()) +
                       " distances: between them they turn faster than is drawn");
  plot.notes.push_back("band: 95 % interval of the mean, " + model.bands +
                       "; TAPA (arXiv 2509.12635) Definition 2.1");
  return plot;
}

// Means over planes by distance with their bands; dashed: a standard deviation to either side.
PlotSpec coefficients_figure(const HeadBias& bias, const protocol::DistanceModel& model,
                             const ModelNames& names) {
  PlotSpec plot = plot_of("coefficients", "coefficients by distance", bias, model, names);
  plot.x = log_distance_axis();
  plot.y.label = "mean over planes";
  Series a{.label = "A"}, b{.label = "B", .color = 1};
  Series a_low{.dashed = true}, b_low{.color = 1, .dashed = true};
  for (const protocol::CoefficientPoint& point : bias.coefficients) {
    const double x = on_log_axis(double(point.distance));
    a.x.push_back(x), a.y.push_back(point.a_mean), add_ends(a, point.a_low, point.a_high);
    b.x.push_back(x), b.y.push_back(point.b_mean), add_ends(b, point.b_low, point.b_high);
    a_low.x.push_back(x), b_low.x.push_back(x);
    a_low.y.push_back(point.a_mean - point.a_sd), b_low.y.push_back(point.b_mean - point.b_sd);
  }
  Series a_high = a_low, b_high = b_low;
  for (std::size_t n = 0; n < bias.coefficients.size(); ++n) {
    a_high.y[n] = 2 * a.y[n] - a_low.y[n], b_high.y[n] = 2 * b.y[n] - b_low.y[n];
  }
  a_low.label = "A, less one sd of pairs and planes", a_high.label = "A, plus one sd";
  b_low.label = "B, less one sd of pairs and planes", b_high.label = "B, plus one sd";
  plot.series = {a, b, a_low, a_high, b_low, b_high};
  plot.markers.push_back({.at = 0, .vertical = false});
  plot.notes.push_back(
      "A_d = q_2d k_2d + q_2d+1 k_2d+1, B_d = q_2d k_2d+1 - q_2d+1 k_2d, before the rotation; "
      "every "
      "causal pair; band: 95 % interval of the mean; TAPA Figure 1");
  plot.notes.push_back("smallest |mean of A| at a distance: " + short_number(bias.smallest_a));
  return plot;
}

PlotSpec planes_figure(const HeadBias& bias, const protocol::DistanceModel& model,
                       const ModelNames& names) {
  PlotSpec plot = plot_of("planes", "coefficients by plane", bias, model, names);
  plot.x.label = "plane";
  plot.y.label = "mean over pairs";
  Series a{.label = "A", .kind = SeriesKind::scatter};
  Series b{.label = "B", .kind = SeriesKind::scatter, .color = 1};
  Series a_sd{.label = "sd of A over pairs", .dashed = true};
  Series b_sd{.label = "sd of B over pairs", .color = 1, .dashed = true};
  for (const protocol::PlanePoint& point : bias.planes) {
    const double x = double(point.plane);
    a.x.push_back(x - 0.1), a.y.push_back(point.a_mean), add_ends(a, point.a_low, point.a_high);
    b.x.push_back(x + 0.1), b.y.push_back(point.b_mean), add_ends(b, point.b_low, point.b_high);
    a_sd.x.push_back(x), a_sd.y.push_back(point.a_sd);
    b_sd.x.push_back(x), b_sd.y.push_back(point.b_sd);
  }
  plot.series = {a, b, a_sd, b_sd};
  plot.markers.push_back({.at = 0, .vertical = false});
  plot.notes.push_back("plane 0 turns fastest; bars are 95 % intervals of the mean over pairs");
  return plot;
}

PlotSpec by_plane_figure(const HeadBias& bias, bool of_b, widgets::ValueRange range,
                         const protocol::DistanceModel& model, const ModelNames& names) {
  const std::string which = of_b ? "B" : "A";
  PlotSpec plot = plot_of("coefficients_" + std::string(of_b ? "b" : "a") + "_by_plane",
                          "mean of " + which + " by plane and distance", bias, model, names);
  plot.legend = false;
  plot.x.label = "distance (buckets)", plot.y.label = "plane";
  const auto& rows = of_b ? bias.b_by_plane : bias.a_by_plane;
  MapSpec map{.rows = int(rows.size()), .cols = int(bias.coefficients.size())};
  for (const auto& row : rows) {
    for (const double x : row) map.values.push_back(float(x));
  }
  map.row_name = "plane", map.col_name = "bucket";
  map.colormap = Colormap::signed_values, map.range = range, map.value_label = "mean of " + which;
  const std::size_t step = std::max<std::size_t>(1, bias.coefficients.size() / 8);
  for (std::size_t n = 0; n < bias.coefficients.size(); n += step) {
    plot.x.ticks.push_back({double(n) + 0.5, std::to_string(bias.coefficients[n].distance)});
  }
  plot.notes.push_back("A and B on one scale; " + widgets::scale_note(map));
  plot.map = std::move(map);
  return plot;
}

// Full lines: other bases. Dashed: positions divided by a factor.
PlotSpec sweep_figure(const HeadBias& bias, const protocol::DistanceModel& model,
                      const ModelNames& names) {
  PlotSpec plot =
      plot_of("sweep", "the bias with other bases and interpolated positions", bias, model, names);
  plot.x = log_distance_axis(kOfAngles);
  plot.y.label = "mean score predicted";
  plot.series.push_back(
      {.label = "as it is", .x = on_log_axis(bias.distances), .y = bias.per_plane, .width = 3});
  int color = 1;
  for (const protocol::BiasSweep& one : bias.sweep) {
    const bool base = one.kind == "base";
    plot.series.push_back({.label = (base ? "base " : "positions / ") + short_number(one.value),
                           .x = on_log_axis(bias.distances),
                           .y = one.score,
                           .color = color++,
                           .dashed = !base});
  }
  mark_regimes(plot, bias);
  plot.notes.push_back(
      "the head's measured mean coefficients, a plane each, at other angles: no "
      "model was trained or run with them (TAPA Theorem 2.4)");
  return plot;
}

}  // namespace

std::vector<PlotSpec> head_bias_figures(const protocol::DistanceModel& model, const HeadBias& bias,
                                        const ModelNames& names) {
  double largest = 0;
  for (const auto* rows : {&bias.a_by_plane, &bias.b_by_plane}) {
    for (const auto& row : *rows) {
      for (const double x : row) largest = std::max(largest, std::abs(x));
    }
  }
  const widgets::ValueRange range{-largest, largest};
  return {bias_figure(bias, model, names),
          coefficients_figure(bias, model, names),
          planes_figure(bias, model, names),
          by_plane_figure(bias, false, range, model, names),
          by_plane_figure(bias, true, range, model, names),
          sweep_figure(bias, model, names)};
}

}  // namespace phasescope::app
