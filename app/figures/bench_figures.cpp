#include "app/figures/bench_figures.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace phasescope::app {

using protocol::AttentionBench;
using protocol::AttentionBenchRow;
using widgets::PlotSpec;

namespace {

// One point a row that has a value, one series a label.
void add_points(const AttentionBench& bench, const std::string& pass, PlotSpec& plot,
                const std::function<std::string(const AttentionBenchRow&)>& label,
                const std::function<double(const AttentionBenchRow&)>& value) {
  for (const AttentionBenchRow& row : bench.rows) {
    if (row.pass != pass || std::isnan(value(row))) continue;
    const std::string name = label(row);
    auto series = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const widgets::Series& s) { return s.label == name; });
    if (series == plot.series.end()) {
      plot.series.push_back({.label = name, .color = int(plot.series.size())});
      series = plot.series.end() - 1;
    }
    // A row with several rivals comes several times.
    if (!series->x.empty() && series->x.back() == double(row.n)) continue;
    series->x.push_back(double(row.n));
    series->y.push_back(value(row));
  }
}

std::string case_name(const AttentionBenchRow& row) {
  std::string name = row.variant + ", D " + std::to_string(row.d);
  if (row.probes != "none") name += ", probes: " + row.probes;
  return name + ", " + std::to_string(row.heads) + " heads";
}

PlotSpec figure_of(const std::string& id, const std::string& title, const std::string& pass) {
  PlotSpec plot{.id = id + "_" + pass, .title = title + ", " + pass};
  plot.x.label = "tokens";
  plot.x.scale = widgets::Scale::log10;
  return plot;
}

}  // namespace

PlotSpec kernel_speed_figure(const AttentionBench& bench, const std::string& pass) {
  PlotSpec plot = figure_of("kernel_speed", "Speed of attention", pass);
  plot.y.label = "GFLOP/s of plain attention's products";
  plot.y.low = 0;
  add_points(bench, pass, plot, case_name, [](const AttentionBenchRow& row) { return row.gflops; });
  if (!std::isnan(bench.fma_peak_gflops)) {
    plot.markers.push_back(
        {.at = bench.fma_peak_gflops, .vertical = false, .label = "multiply-add peak"});
  }
  return plot;
}

PlotSpec rival_figure(const AttentionBench& bench, const std::string& pass) {
  PlotSpec plot = figure_of("kernel_rivals", "Times the rivals' speed", pass);
  plot.y.label = "rival's time / ours";
  plot.y.low = 0;
  add_points(
      bench, pass, plot,
      [](const AttentionBenchRow& row) { return case_name(row) + " over " + row.rival; },
      [](const AttentionBenchRow& row) { return row.speedup_over_rival; });
  plot.markers.push_back({.at = 1, .vertical = false, .label = "equal"});
  return plot;
}

}  // namespace phasescope::app
