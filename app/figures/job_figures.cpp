#include "app/figures/job_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace phasescope::app {

namespace {

using protocol::MetricPoint;

struct Quantity {
  const char *name, *label;
  // Of a point and the one before it.
  std::optional<double> (*value)(const MetricPoint& point, const MetricPoint* before);
  bool logarithmic = false;
};

std::optional<double> tokens_a_second(const MetricPoint& point, const MetricPoint* before) {
  // A job that went on from a checkpoint counts its time on, but points may be thinned or equal.
  if (!before || point.time <= before->time || point.tokens <= before->tokens) return {};
  return double(point.tokens - before->tokens) / (point.time - before->time);
}

constexpr Quantity kQuantities[] = {
    {"loss", "loss (bits a token)",
     [](const MetricPoint& point, const MetricPoint*) -> std::optional<double> {
       return point.loss / std::log(2.0);
     }},
    {"validation loss", "validation loss (bits a token)",
     [](const MetricPoint& point, const MetricPoint*) { return point.validation_bits; }},
    {"learning rate", "learning rate",
     [](const MetricPoint& point, const MetricPoint*) -> std::optional<double> {
       return point.lr;
     }},
    {"gradient norm", "norm of the gradient",
     [](const MetricPoint& point, const MetricPoint*) { return point.gradient_norm; }, true},
    {"tokens a second", "tokens a second", tokens_a_second},
    {"window length", "window (tokens)",
     [](const MetricPoint& point, const MetricPoint*) { return point.length; }},
};

const Quantity& quantity_of(const std::string& name) {
  const auto* found = std::ranges::find_if(
      kQuantities, [&](const Quantity& quantity) { return name == quantity.name; });
  return found == std::end(kQuantities) ? kQuantities[0] : *found;
}

}  // namespace

const std::vector<std::string>& job_quantities() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Quantity& quantity : kQuantities) list.emplace_back(quantity.name);
    return list;
  }();
  return names;
}

widgets::PlotSpec job_curves_figure(std::span<const protocol::JobStatus> jobs,
                                    const std::string& name) {
  const Quantity& quantity = quantity_of(name);
  widgets::PlotSpec plot{.id = "jobs", .title = std::string("Jobs: ") + quantity.name};
  plot.x.label = "step", plot.y.label = quantity.label;
  if (quantity.logarithmic) plot.y.scale = widgets::Scale::log10;
  int color = 0;
  for (const protocol::JobStatus& job : jobs) {
    widgets::Series series{.label = job.name, .color = color++, .width = 1.2};
    const MetricPoint* before = nullptr;
    for (const MetricPoint& point : job.curve) {
      const auto value = quantity.value(point, before);
      before = &point;
      if (!value) continue;
      series.x.push_back(double(point.step)), series.y.push_back(*value);
    }
    if (series.x.size() == 1) series.points = widgets::PointShape::circle;
    const auto shown = int64_t(job.curve.size());
    if (shown < job.curve_of) {
      plot.notes.push_back(job.name + ": " + std::to_string(shown) + " of " +
                           std::to_string(job.curve_of) +
                           " points, evenly over them; metrics.jsonl has all");
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace phasescope::app
