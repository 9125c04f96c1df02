#include "app/figures/cost_figures.h"

#include <algorithm>
#include <string>

namespace phasescope::app {

namespace {

// Names of the parts in the order in which the models have them.
std::vector<std::string> parts_of(const std::vector<protocol::CostResult>& results) {
  std::vector<std::string> parts;
  for (const protocol::CostResult& result : results) {
    for (const protocol::CostPart& part : result.parts) {
      if (std::ranges::find(parts, part.name) == parts.end()) parts.push_back(part.name);
    }
  }
  return parts;
}

}  // namespace

widgets::PlotSpec cost_figure(const std::vector<protocol::CostResult>& results,
                              const ModelNames& names) {
  widgets::PlotSpec plot{.id = "cost", .title = "Multiply-accumulates of a forward pass, by part"};
  plot.y.label = "MACs", plot.y.scale = widgets::Scale::log10;
  const std::vector<std::string> parts = parts_of(results);
  for (std::size_t n = 0; n < parts.size(); ++n) plot.x.ticks.push_back({double(n), parts[n]});
  for (const protocol::CostResult& result : results) {
    widgets::Series series{.label = names.short_name(result.model),
                           .kind = widgets::SeriesKind::scatter,
                           .color = names.color(result.model)};
    for (const protocol::CostPart& part : result.parts) {
      const auto place = std::ranges::find(parts, part.name) - parts.begin();
      series.x.push_back(double(place)), series.y.push_back(part.macs);
    }
    plot.series.push_back(std::move(series));
  }
  plot.x.low = -0.5, plot.x.high = double(parts.size()) - 0.5;
  std::vector<int64_t> lengths;
  for (const protocol::CostResult& result : results) lengths.push_back(result.length);
  const bool alike = std::ranges::adjacent_find(lengths, std::not_equal_to<>()) == lengths.end();
  if (alike && !lengths.empty()) {
    plot.notes.push_back("as executed, of " + std::to_string(lengths.front()) + " tokens");
  }
  return plot;
}

}  // namespace phasescope::app
