#include "app/figures/job_figures.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "app/figures/model_names.h"

namespace phasescope::app {

namespace {

using protocol::MetricPoint;

struct Quantity {
  const char *name, *label;
  // The value of a point, which may need the one before it.
  std::optional<double> (*value)(const MetricPoint& point, const MetricPoint* before);
  bool logarithmic = false;
};

std::optional<double> tokens_a_second(const MetricPoint& point, const MetricPoint* before) {
  // A job that went on from a checkpoint counts its time on, but points may be thinned or equal.
  if (!before || point.time <= before->time || point.tokens <= before->tokens) return {};
  return double(point.tokens - before->tokens) / (point.time - before->time);
}

constexpr Quantity kQuantities[] = {
    {"loss", kLossOfJobs,
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

constexpr const char* kHeads = "heads: ";

// The mean over the heads that have a number; nothing where none has.
std::optional<double> mean_of(std::span<const std::vector<double>> layers) {
  double sum = 0;
  int count = 0;
  for (const std::vector<double>& layer : layers) {
    for (const double value : layer) {
      if (std::isfinite(value)) sum += value, ++count;
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

// The mean over layers begin .. end - 1 at every point that has the metric.
widgets::Series heads_series(const protocol::JobStatus& job, const std::string& metric,
                             std::size_t begin, std::size_t end) {
  widgets::Series series{.label = job.name, .width = 1.2};
  for (const MetricPoint& point : job.curve) {
    if (!point.heads || !point.heads->contains(metric)) continue;
    const std::span<const std::vector<double>> layers = point.heads->at(metric);
    if (begin >= layers.size()) continue;
    const auto mean = mean_of(layers.subspan(begin, std::min(end, layers.size()) - begin));
    if (!mean) continue;
    series.x.push_back(double(point.step)), series.y.push_back(*mean);
  }
  if (series.x.size() == 1) series.points = widgets::PointShape::circle;
  return series;
}

std::size_t most_layers(const protocol::JobStatus& job, const std::string& metric) {
  std::size_t most = 0;
  for (const MetricPoint& point : job.curve) {
    if (point.heads && point.heads->contains(metric)) {
      most = std::max(most, point.heads->at(metric).size());
    }
  }
  return most;
}

widgets::PlotSpec heads_figure(std::span<const protocol::JobStatus> jobs,
                               const std::string& metric) {
  widgets::PlotSpec plot{.id = "jobs_heads", .title = "Jobs: " + metric + " of heads"};
  plot.x.label = "step", plot.y.label = metric + ", mean of heads";
  int color = 0;
  if (jobs.size() == 1) {
    for (std::size_t layer = 0; layer < most_layers(jobs[0], metric); ++layer) {
      widgets::Series series = heads_series(jobs[0], metric, layer, layer + 1);
      series.label = "L" + std::to_string(layer), series.color = color++;
      plot.series.push_back(std::move(series));
    }
    plot.notes.push_back("the mean over each layer's heads, on the probe text");
    return plot;
  }
  for (const protocol::JobStatus& job : jobs) {
    plot.series.push_back(heads_series(job, metric, 0, most_layers(job, metric)));
    plot.series.back().color = color++;
  }
  plot.notes.push_back("the mean over all heads, each job on its own probe text");
  return plot;
}

const Quantity& quantity_of(const std::string& name) {
  const auto* found = std::ranges::find_if(
      kQuantities, [&](const Quantity& quantity) { return name == quantity.name; });
  return found == std::end(kQuantities) ? kQuantities[0] : *found;
}

}  // namespace

std::map<std::string, std::string> names_of_jobs(std::span<const protocol::JobStatus> jobs) {
  const auto own_name = [](const protocol::JobStatus& job) {
    return job.name.empty() ? std::filesystem::path(job.dir).filename().string() : job.name;
  };
  std::map<std::string, std::vector<std::string>> folders;  // by name
  for (const protocol::JobStatus& job : jobs) folders[own_name(job)].push_back(job.dir);
  std::map<std::string, std::string> names;
  for (const auto& [name, dirs] : folders) {
    const ModelNames ends(dirs);
    for (const std::string& dir : dirs) {
      const std::string end = dirs.size() > 1 ? ends.short_name(dir) : name;
      names[dir] = end.find(name) == end.npos ? name + ", " + end : end;
    }
  }
  return names;
}

const std::vector<std::string>& job_quantities() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Quantity& quantity : kQuantities) list.emplace_back(quantity.name);
    return list;
  }();
  return names;
}

std::vector<std::string> job_quantities(std::span<const protocol::JobStatus> jobs) {
  std::vector<std::string> names = job_quantities();
  std::set<std::string> metrics;
  for (const protocol::JobStatus& job : jobs) {
    for (const MetricPoint& point : job.curve) {
      if (!point.heads) continue;
      for (const auto& [metric, layers] : *point.heads) metrics.insert(metric);
    }
  }
  for (const std::string& metric : metrics) names.push_back(kHeads + metric);
  return names;
}

widgets::PlotSpec job_curves_figure(std::span<const protocol::JobStatus> jobs,
                                    const std::string& name) {
  if (name.starts_with(kHeads)) {
    return heads_figure(jobs, name.substr(std::string_view(kHeads).size()));
  }
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
    const auto shown = std::int64_t(job.curve.size());
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
