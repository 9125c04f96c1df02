#pragma once
// What figures of several questions about positions have in common; only their sources include it.
#include <algorithm>
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// "L3".
std::string layer_name(std::int64_t layer);

// A number of each head: its layer, its head (-1: the whole layer) and the number.
struct OfHead {
  std::int64_t layer = 0, head = 0;
  double value = 0;
};

// Layers down, heads across, one column for whole layers; `what` is the title of the colour scale.
void add_head_map(widgets::PlotSpec& plot, const std::vector<OfHead>& values,
                  const std::string& what);

// A model's own: its name and its colour.
widgets::Series series_of(const std::string& model, const ModelNames& names);

// The formula and texts of each result, and what made it, once each.
template <class Result>
void add_what_made(widgets::PlotSpec& plot, const std::vector<Result>& results,
                   const ModelNames& names) {
  std::vector<protocol::Provenance> made;
  std::vector<std::string> lines;
  for (const Result& result : results) {
    lines.push_back(result.formula);
    if constexpr (requires { result.texts; }) {
      lines.push_back("n = " + std::to_string(result.texts.size()) + " texts");
    }
    made.push_back(result.provenance);
  }
  for (const std::string& line : lines) {
    const bool there = std::find(plot.notes.begin(), plot.notes.end(), line) != plot.notes.end();
    if (!there) plot.notes.push_back(line);
  }
  add_notes(plot.notes, made, names);
}

// A line at the trained length, once for all models that share it.
template <class Result>
void mark_trained(widgets::PlotSpec& plot, const std::vector<Result>& results, double beyond) {
  std::vector<std::int64_t> marked;
  for (const Result& result : results) {
    if (std::find(marked.begin(), marked.end(), result.trained) != marked.end()) continue;
    marked.push_back(result.trained);
    plot.markers.push_back({.at = double(result.trained) + beyond, .label = "trained length"});
  }
}

}  // namespace phasescope::app
