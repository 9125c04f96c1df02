#include "app/figures/cost_figures.h"

#include <algorithm>
#include <string>

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

}  // namespace

widgets::PlotSpec cost_figure(const std::vector<protocol::CostResult>& results,
                              const ModelNames& names) {
  widgets::PlotSpec plot{.id = "cost", .title = "Multiply-accumulates of a forward pass, by part"};
  plot.x.label = "MACs", plot.x.scale = widgets::Scale::log10;
  const std::vector<std::string> parts = multiplying_parts(results);
  const auto height_of = [&](const std::string& name) {  // the first part at the top
    const auto place = std::ranges::find(parts, name) - parts.begin();
    return double(parts.size()) - 1 - double(place);
  };
  for (const std::string& part : parts) plot.y.ticks.push_back({height_of(part), part});
  plot.y.low = -0.5, plot.y.high = double(parts.size()) - 0.5;
  for (const protocol::CostResult& result : results) {
    widgets::Series series{.label = names.short_name(result.model),
                           .kind = widgets::SeriesKind::scatter,
                           .color = names.color(result.model)};
    for (const protocol::CostPart& part : result.parts) {
      if (part.macs <= 0) continue;
      series.x.push_back(part.macs), series.y.push_back(height_of(part.name));
      series.names.push_back(series.label + ", " + part.name);
    }
    plot.series.push_back(std::move(series));
  }
  std::vector<int64_t> lengths;
  for (const protocol::CostResult& result : results) lengths.push_back(result.length);
  const bool alike = std::ranges::adjacent_find(lengths, std::not_equal_to<>()) == lengths.end();
  if (alike && !lengths.empty()) {
    plot.notes.push_back("as executed, of " + std::to_string(lengths.front()) + " tokens");
  }
  return plot;
}

}  // namespace phasescope::app
