#include <algorithm>
#include <cmath>
#include <map>

#include "app/figures/figures.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Scale;
using widgets::Series;
using widgets::SeriesKind;
using widgets::short_number;

PlotSpec shift_figure(const protocol::ShiftResult& result) {
  PlotSpec plot{.id = "shift", .title = "Shift stability: attention difference by layer"};
  plot.x.label = "layer";
  plot.y.label = "attention difference (1e-2)";
  std::vector<std::string> names;
  for (const protocol::ShiftRow& row : result.rows) {
    if (row.dtype == "f64") continue;  // the float64 rows tell rounding apart; the table has them
    const std::string name = row.model + " " + row.method + " by " + std::to_string(row.by);
    auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      names.push_back(name);
      found = names.end() - 1;
      Series series{.label = name, .color = int(names.size()) - 1};
      series.dashed = row.method == "tokens";
      plot.series.push_back(std::move(series));
    }
    Series& series = plot.series[size_t(found - names.begin())];
    series.x.push_back(double(row.layer));
    series.y.push_back(row.attention_difference);
  }
  plot.notes.push_back(result.formula);
  return plot;
}

PlotSpec token_loss_figure(std::span<const protocol::TextResult> texts) {
  PlotSpec plot{.id = "token_loss", .title = "Loss by token"};
  plot.x.label = "position (token)";
  plot.y.label = "loss (nats)";
  int color = 0;
  for (const protocol::TextResult& text : texts) {
    Series series{.label = text.model + ": mean " + short_number(text.loss) + " nats",
                  .color = color++,
                  .width = 1.0};
    for (size_t i = 0; i < text.tokens.size(); ++i) {
      if (!text.tokens[i].loss) continue;
      series.x.push_back(double(i));
      series.y.push_back(*text.tokens[i].loss);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

PlotSpec position_loss_figure(const protocol::EvalResult& result) {
  PlotSpec plot{.id = "loss_by_position", .title = "Loss against position"};
  plot.x.label = "position (token)";
  plot.y.label = "bits per byte";
  int color = 0;
  int64_t trained = 0, texts = 0;
  for (const protocol::PositionCurve& curve : result.positions) {
    plot.series.push_back({.label = curve.model,
                           .x = curve.position,
                           .y = curve.bits,
                           .low = curve.low,
                           .high = curve.high,
                           .color = color++});
    texts = curve.texts;
    if (curve.trained_length != trained) {
      trained = curve.trained_length;
      plot.markers.push_back({.at = double(trained), .label = "trained length"});
    }
  }
  plot.notes.push_back("mean over " + std::to_string(texts) +
                       " validation texts, band: 95 % interval by text bootstrap; window rule: "
                       "per_position");
  return plot;
}

PlotSpec eval_figure(const protocol::EvalResult& result) {
  PlotSpec plot{.id = "eval_" + result.task, .title = result.task + ": " + result.metric};
  plot.x.label = "length (tokens)";
  plot.x.scale = Scale::log10;
  plot.y.label = result.metric;
  std::map<std::string, size_t> index;
  std::map<int64_t, bool> lengths;
  std::string window;
  for (const protocol::EvalRow& row : result.rows) {
    const auto [found, added] = index.try_emplace(row.model, plot.series.size());
    if (added) {
      plot.series.push_back({.label = row.model, .color = int(found->second)});
    }
    Series& series = plot.series[found->second];
    series.x.push_back(double(row.length));
    series.y.push_back(row.value);
    series.low.push_back(row.low);
    series.high.push_back(row.high);
    lengths[row.length] = true;
    window = row.window;
  }
  for (const auto& [length, unused] : lengths) {
    plot.x.ticks.push_back({double(length), std::to_string(length)});
  }
  plot.notes.push_back("window rule: " + window + "; band: 95 % interval by text bootstrap");
  return plot;
}

PlotSpec pe_by_distance_figure(const protocol::PatternsResult& result) {
  PlotSpec plot{.id = "pe_by_distance_" + result.model,
                .title = result.model + ": PE dot product by distance"};
  plot.x.label = "distance (tokens)";
  plot.y.label = "mean G";
  for (const protocol::PatternsLayer& layer : result.layers) {
    Series series{.label = layer.layer == 0 ? "start" : "after L" + std::to_string(layer.layer - 1),
                  .color = int(layer.layer)};
    series.y = layer.mean_by_distance;
    for (size_t d = 0; d < series.y.size(); ++d) series.x.push_back(double(d));
    plot.series.push_back(std::move(series));
  }
  plot.notes.push_back(result.formula);
  return plot;
}

PlotSpec state_drift_figure(std::span<const protocol::PatternsResult> results) {
  PlotSpec plot{.id = "state_drift", .title = "Drift of the position state with depth"};
  plot.x.label = "layers passed";
  plot.y.label = "|z| (mean) and drift";
  int color = 0;
  for (const protocol::PatternsResult& result : results) {
    if (result.layers.empty()) continue;
    Series size{.label = result.model + " mean |z|", .color = color};
    Series drift{.label = result.model + " ||z - z0|| / ||z0||", .color = color++, .dashed = true};
    for (const protocol::PatternsLayer& layer : result.layers) {
      size.x.push_back(double(layer.layer));
      size.y.push_back(layer.mean_abs_z);
      size.low.push_back(layer.mean_abs_z - layer.sd_abs_z);
      size.high.push_back(layer.mean_abs_z + layer.sd_abs_z);
      drift.x.push_back(double(layer.layer));
      drift.y.push_back(layer.drift);
    }
    plot.series.push_back(std::move(size));
    plot.series.push_back(std::move(drift));
  }
  plot.notes.push_back("band of |z|: one standard deviation over tokens, heads and planes");
  return plot;
}

PlotSpec bias_curves_figure(const protocol::PatternsResult& result, int64_t layer) {
  PlotSpec plot{.id = "bias_" + result.model + "_L" + std::to_string(layer),
                .title = result.model + " L" + std::to_string(layer) + ": bias of every head"};
  plot.x.label = "distance (tokens)";
  plot.y.label = "bias added to the score";
  for (const protocol::BiasCurve& curve : result.bias) {
    if (curve.layer != layer) continue;
    Series series{
        .label = "H" + std::to_string(curve.head) + (curve.label.empty() ? "" : " " + curve.label),
        .color = int(plot.series.size())};
    series.y = curve.values;
    for (int64_t distance : result.bias_distances) series.x.push_back(double(distance));
    plot.series.push_back(std::move(series));
  }
  return plot;
}

PlotSpec frequencies_figure(const protocol::PatternsResult& result) {
  PlotSpec plot{.id = "frequencies_" + result.model,
                .title = result.model + ": rotation frequencies"};
  plot.x.label = "plane";
  plot.y.label = "radians a token";
  plot.y.scale = Scale::log10;
  Series series{.label = result.model, .kind = SeriesKind::scatter};
  series.y = result.frequencies;
  for (size_t m = 0; m < series.y.size(); ++m) series.x.push_back(double(m));
  plot.series.push_back(std::move(series));
  return plot;
}

PlotSpec check_figure(const protocol::CheckResult& check, const protocol::CheckCurve& curve) {
  PlotSpec plot{.id = check.id + "_" + check.model, .title = check.id + " on " + check.model};
  plot.x = {.label = curve.x_label, .scale = curve.log_x ? Scale::log10 : Scale::linear};
  plot.y = {.label = curve.y_label, .scale = curve.log_y ? Scale::log10 : Scale::linear};
  plot.series.push_back(
      {.label = curve.label.empty() ? "measured" : curve.label, .x = curve.x, .y = curve.y});
  if (!curve.bound.empty()) {
    plot.series.push_back(
        {.label = "bound", .x = curve.x, .y = curve.bound, .color = 1, .dashed = true});
  }
  plot.notes.push_back("verdict " + check.verdict + ": value " + short_number(check.value) +
                       ", bound " + short_number(check.bound) + ", noise " +
                       short_number(check.noise) + ", " + std::to_string(check.samples) +
                       " samples");
  if (!check.source.empty()) plot.notes.push_back(check.source);
  return plot;
}

PlotSpec job_curve_figure(const protocol::JobStatus& job) {
  PlotSpec plot{.id = "job_" + job.name, .title = job.name + ": loss"};
  plot.x.label = "step";
  plot.y.label = "bits per byte";
  Series loss{.label = "training", .width = 1.0};
  Series validation{.label = "validation", .kind = SeriesKind::scatter, .color = 1};
  for (const protocol::MetricPoint& point : job.curve) {
    loss.x.push_back(double(point.step));
    loss.y.push_back(point.loss / std::log(2.0));
    if (!point.validation_bits) continue;
    validation.x.push_back(double(point.step));
    validation.y.push_back(*point.validation_bits);
  }
  plot.series.push_back(std::move(loss));
  if (!validation.x.empty()) plot.series.push_back(std::move(validation));
  return plot;
}

}  // namespace phasescope::app
