#include "app/figures/cost_figures.h"

#include <algorithm>
#include <map>
#include <string>

#include "app/figures/point_shapes.h"
#include "app/figures/published.h"

namespace phasescope::app {

namespace {

// Names of the parts that multiply anything, in the order in which the models have them.
std::vector<std::string> multiplying_parts(const std::vector<protocol::CostResult>& results) {
  std::vector<std::string> parts;
  for (const protocol::CostResult& result : results) {
    for (const protocol::CostPart& part : result.parts) {
      const bool there = std::ranges::find(parts, part.name) != parts.end();
      if (part.macs > 0 && !there) parts.push_back(part.name);
    }
  }
  return parts;
}

// Marks of models that count the same would hide each other: in a row each has a lane and a shape
// of its own, the first at the top. A lane is no number: a row is a part's, whatever the lane.
constexpr double kLanes = 0.56;  // of the height of a row

double lane(std::size_t place, std::size_t of) {
  return of > 1 ? kLanes * (0.5 - double(place) / double(of - 1)) : 0;
}

// What the published table prints of these encodings.
std::vector<PublishedSeries> published_totals(const std::vector<std::string>& encodings) {
  std::vector<PublishedSeries> found;
  for (const PublishedSeries& one : published_series()) {
    const bool counted = std::ranges::find(encodings, one.encoding) != encodings.end();
    if (one.metric == "MACs" && counted) found.push_back(one);
  }
  return found;
}

// Below the parts: the whole pass by the conventions of the published table, and what that prints.
void add_published_totals(const std::vector<protocol::CostResult>& results, const ModelNames& names,
                          widgets::PlotSpec& plot) {
  constexpr double kRow = -1;
  std::map<std::string, double> counted;  // by label
  std::vector<std::string> encodings;
  for (const protocol::CostResult& result : results) {
    if (!is_of_published_size(result)) continue;
    encodings.push_back(result.encoding);
    counted[names.short_name(result.model)] = result.published.macs;
  }
  const std::vector<PublishedSeries> printed = published_totals(encodings);
  if (printed.empty()) return;
  const std::size_t lanes = results.size() + printed.size();
  for (std::size_t n = 0; n < results.size(); ++n) {
    widgets::Series& series = plot.series[n];
    const auto found = counted.find(series.label);
    if (found == counted.end()) continue;
    series.x.push_back(found->second), series.y.push_back(kRow + lane(n, lanes));
    series.names.push_back(series.label + ", whole pass");
  }
  for (const PublishedSeries& one : printed) {
    const std::size_t place = plot.series.size();
    plot.series.push_back(
        {.label = "published: " + one.printed + " (" + one.where + "; " + one.setting + ")",
         .x = one.y,
         .y = {kRow + lane(place, lanes)},
         .color = kPublishedColor,
         .quiet = true,
         .points = shape_at(place)});
  }
  plot.y.ticks.push_back({kRow, "whole pass, as published"});
  plot.y.low = kRow - 0.5;
  plot.notes.emplace_back(
      "whole pass, as published: by the conventions of TAPE's Table 3, full N x N attention; pale: "
      "what that prints, not counted here");
}

}  // namespace

std::string words_of_part(const std::string& name) {
  if (name == "head") return "output layer (LM head)";
  if (name == "head's transform") return "transform before the output layer";
  return name;
}

bool is_of_published_size(const protocol::CostResult& result) {
  return result.layers == kPublishedCostLayers && result.width == kPublishedCostWidth &&
         result.length == kPublishedCostLength;
}

widgets::PlotSpec cost_figure(const std::vector<protocol::CostResult>& results,
                              const ModelNames& names) {
  widgets::PlotSpec plot{.id = "cost", .title = "Multiply-accumulates of a forward pass, by part"};
  plot.x.label = "MACs, as executed", plot.x.scale = widgets::Scale::log10;
  const std::vector<std::string> parts = multiplying_parts(results);
  const auto height_of = [&](const std::string& name) {  // the first part at the top
    const auto place = std::ranges::find(parts, name) - parts.begin();
    return double(parts.size()) - 1 - double(place);
  };
  for (const std::string& part : parts) {
    plot.y.ticks.push_back({height_of(part), words_of_part(part)});
  }
  plot.y.low = -0.5, plot.y.high = double(parts.size()) - 0.5;
  for (std::size_t n = 0; n < results.size(); ++n) {
    const protocol::CostResult& result = results[n];
    widgets::Series series{.label = names.short_name(result.model),
                           .kind = widgets::SeriesKind::scatter,
                           .color = names.color(result.model),
                           .points = shape_at(n)};
    const double beside = lane(n, results.size());
    for (const protocol::CostPart& part : result.parts) {
      if (part.macs <= 0) continue;
      series.x.push_back(part.macs), series.y.push_back(height_of(part.name) + beside);
      series.names.push_back(series.label + ", " + words_of_part(part.name));
    }
    plot.series.push_back(std::move(series));
  }
  std::vector<std::int64_t> lengths;
  for (const protocol::CostResult& result : results) lengths.push_back(result.length);
  const bool alike = std::ranges::adjacent_find(lengths, std::not_equal_to<>()) == lengths.end();
  if (alike && !lengths.empty()) {
    plot.notes.push_back("as executed, of " + std::to_string(lengths.front()) + " tokens");
  }
  add_published_totals(results, names, plot);
  return plot;
}

}  // namespace phasescope::app
