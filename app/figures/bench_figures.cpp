#include "app/figures/bench_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "widgets/series_marks.h"

namespace phasescope::app {

using protocol::AttentionBench;
using protocol::AttentionBenchRow;
using widgets::PlotSpec;
using widgets::Series;

namespace {

// The rows that stand in one figure.
struct Panel {
  const AttentionBench& bench;
  std::string pass;
  std::int64_t heads = 0, d = 0;

  bool has(const AttentionBenchRow& row) const {
    return row.pass == pass && row.heads == heads && row.d == d;
  }
};

using Label = std::string (*)(const AttentionBenchRow&);  // empty: not in this figure
using Value = double (*)(const AttentionBenchRow&);

bool probed(const AttentionBenchRow& row) { return row.variant == "plain" && row.probes != "none"; }

// A variant that ran as something else is another line.
std::string variant_of(const AttentionBenchRow& row) {
  return row.variant + (row.ran && !row.ran->reason.empty() ? ", not fused" : "");
}

// "plain (math)" where a variant has several rivals; which they are stands below the figure.
std::string variant_and_rival(const AttentionBenchRow& row) {
  if (!std::isfinite(row.speedup_over_rival)) return "";
  const std::size_t form = row.rival.rfind(", ");
  if (row.variant != "plain" || form == std::string::npos) return variant_of(row);
  return variant_of(row) + " (" + row.rival.substr(form + 2) + ")";
}

// Where a name comes first among those of all rows of the pass: the same in every panel.
int place_of(const Panel& panel, Label label, const std::string& name) {
  std::vector<std::string> names;
  for (const AttentionBenchRow& row : panel.bench.rows) {
    const std::string one = row.pass == panel.pass ? label(row) : "";
    if (!one.empty() && std::find(names.begin(), names.end(), one) == names.end()) {
      names.push_back(one);
    }
  }
  return int(std::find(names.begin(), names.end(), name) - names.begin());
}

// Colours tell variants (or probes) apart, shapes all lines.
struct Look {
  int color = 0, shape = 0;
};

Series line_named(const std::string& name, Look look, bool dashed) {
  return {.label = name,
          .color = look.color,
          .dashed = dashed,
          .points = widgets::shape_of_color(look.shape)};
}

// One point a length, in the order of lengths, one line a label; `color` says which share one.
// Further lines of a colour are dashed.
void add_lines(const Panel& panel, Label label, Label color, Value value, PlotSpec& plot) {
  std::vector<std::string> names;
  std::map<std::string, Look> looks;
  std::map<std::string, std::map<std::int64_t, double>> lines;
  for (const AttentionBenchRow& row : panel.bench.rows) {
    const std::string name = panel.has(row) ? label(row) : "";
    if (name.empty() || !std::isfinite(value(row))) continue;
    if (!lines.contains(name)) {
      names.push_back(name);
      looks[name] = {place_of(panel, color, color(row)), place_of(panel, label, name)};
    }
    // A row with several rivals comes several times.
    lines[name].emplace(row.n, value(row));
  }
  std::set<int> used;
  for (const std::string& name : names) {
    Series& series = plot.series.emplace_back(
        line_named(name, looks[name], !used.insert(looks[name].color).second));
    for (const auto& [n, y] : lines[name]) {
      series.x.push_back(double(n));
      series.y.push_back(y);
    }
  }
}

// Ticks where something was measured, and room for the labels of markers at the right.
void set_lengths(PlotSpec& plot) {
  std::set<double> lengths;
  for (const Series& series : plot.series) lengths.insert(series.x.begin(), series.x.end());
  plot.x.label = "tokens";
  plot.x.scale = widgets::Scale::log10;
  double last = 0;
  for (const double n : lengths) {
    // Labels of lengths closer than a tenth would touch.
    if (n < 1.1 * last) continue;
    plot.x.ticks.push_back({n, widgets::short_number(n)});
    last = n;
  }
  if (lengths.size() < 2) return;
  const double span = *lengths.rbegin() / *lengths.begin();
  plot.x.low = *lengths.begin() / std::pow(span, 0.05);
  plot.x.high = *lengths.rbegin() * std::pow(span, 0.12);
}

double largest(const PlotSpec& plot) {
  double most = 0;
  for (const Series& series : plot.series) {
    for (const double y : series.y) most = std::max(most, y);
  }
  return most;
}

PlotSpec figure_of(const Panel& panel, const std::string& id, const std::string& title) {
  const std::string heads = std::to_string(panel.heads), d = std::to_string(panel.d);
  return {.id = id + "_" + panel.pass + "_h" + heads + "_d" + d,
          .title = title + ", " + panel.pass + ", " + heads +
                   (panel.heads == 1 ? " head" : " heads") + ", D " + d};
}

std::string without_probes(const AttentionBenchRow& row) {
  return probed(row) ? "" : variant_of(row);
}

std::string probes_of(const AttentionBenchRow& row) { return probed(row) ? row.probes : ""; }

PlotSpec speed_figure(const Panel& panel) {
  PlotSpec plot = figure_of(panel, "kernel_speed", "Speed of attention");
  plot.y.label = "GFLOP/s of plain attention's products";
  add_lines(
      panel, without_probes, without_probes,
      [](const AttentionBenchRow& row) { return row.gflops; }, plot);
  const double peak = panel.bench.fma_peak_gflops;
  plot.y.low = 0;
  plot.y.high = 1.08 * std::max(largest(plot), std::isnan(peak) ? 0.0 : peak);
  if (!std::isnan(peak)) {
    plot.markers.push_back({.at = peak, .vertical = false, .label = "multiply-add peak"});
  }
  return plot;
}

// "plain against PyTorch SDPA, flash; table, fire against ...", in the order of the rows.
std::string rivals_named(const Panel& panel) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rivals;
  for (const AttentionBenchRow& row : panel.bench.rows) {
    if (!panel.has(row) || !std::isfinite(row.speedup_over_rival)) continue;
    auto found = std::find_if(rivals.begin(), rivals.end(),
                              [&](const auto& one) { return one.first == row.rival; });
    if (found == rivals.end()) found = rivals.insert(rivals.end(), {row.rival, {}});
    std::vector<std::string>& variants = found->second;
    if (std::find(variants.begin(), variants.end(), row.variant) == variants.end()) {
      variants.push_back(row.variant);
    }
  }
  std::string text;
  for (const auto& [rival, variants] : rivals) {
    text += text.empty() ? "" : "; ";
    for (const std::string& variant : variants) {
      text += (&variant == &variants.front() ? "" : ", ") + variant;
    }
    text += " against " + rival;
  }
  return text + ".";
}

PlotSpec rivals_figure(const Panel& panel) {
  PlotSpec plot = figure_of(panel, "kernel_rivals", "Times the rivals' speed");
  plot.y.label = "rival's wall time / ours";
  plot.y.scale = widgets::Scale::log10;
  add_lines(
      panel, variant_and_rival, without_probes,
      [](const AttentionBenchRow& row) { return row.speedup_over_rival; }, plot);
  plot.markers.push_back({.at = 1, .vertical = false, .label = "equal"});
  plot.notes.push_back(rivals_named(panel));
  return plot;
}

PlotSpec probes_figure(const Panel& panel) {
  PlotSpec plot = figure_of(panel, "kernel_probes", "Cost of probes in plain attention");
  plot.y.label = "wall time / that without probes";
  add_lines(
      panel, probes_of, probes_of, [](const AttentionBenchRow& row) { return row.over_plain; },
      plot);
  plot.markers.push_back({.at = 1, .vertical = false, .label = "equal"});
  return plot;
}

}  // namespace

std::vector<PlotSpec> bench_figures(const AttentionBench& bench, const std::string& note) {
  std::vector<PlotSpec> figures;
  for (const char* pass : {"forward", "backward"}) {
    std::set<std::pair<std::int64_t, std::int64_t>> panels;
    for (const AttentionBenchRow& row : bench.rows) panels.emplace(row.heads, row.d);
    for (const auto& [heads, d] : panels) {
      const Panel panel{bench, pass, heads, d};
      for (const auto& figure : {speed_figure, rivals_figure, probes_figure}) {
        PlotSpec plot = figure(panel);
        if (plot.series.empty()) continue;
        set_lengths(plot);
        plot.notes.push_back(note + ".");
        figures.push_back(std::move(plot));
      }
    }
  }
  return figures;
}

}  // namespace phasescope::app
