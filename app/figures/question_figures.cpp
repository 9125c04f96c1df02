#include "app/figures/question_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "app/figures/intervals.h"
#include "app/figures/point_shapes.h"
#include "app/figures/question_parts.h"
#include "protocol/head_name.h"
#include "protocol/headings.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

std::string layer_name(std::int64_t layer) { return "L" + std::to_string(layer); }

void add_head_map(PlotSpec& plot, const std::vector<OfHead>& values, const std::string& what) {
  std::int64_t layers = 0, heads = 1;
  for (const OfHead& one : values) {
    layers = std::max(layers, one.layer + 1), heads = std::max(heads, one.head + 1);
  }
  widgets::MapSpec map{.rows = int(layers), .cols = int(heads)};
  map.values.assign(std::size_t(layers * heads), std::numeric_limits<float>::quiet_NaN());
  for (const OfHead& one : values) {
    map.values[std::size_t(one.layer * heads + std::max<std::int64_t>(one.head, 0))] =
        float(one.value);
  }
  map.colormap = widgets::Colormap::signed_values;
  map.range = widgets::value_range(map.values);
  map.value_label = what;
  map.row_name = "layer", map.col_name = "head";
  plot.x.label = "head", plot.x.of = widgets::Coordinate::head, plot.y.label = "layer",
  plot.y.of = widgets::Coordinate::layer;
  for (std::int64_t h = 0; h < heads; ++h) {
    plot.x.ticks.push_back({double(h) + 0.5, heads > 1 ? "H" + std::to_string(h) : "layer"});
  }
  for (std::int64_t l = 0; l < layers; ++l) {
    plot.y.ticks.push_back({double(l) + 0.5, layer_name(l)});
  }
  plot.legend = false;
  plot.notes.push_back(widgets::scale_note(map));
  plot.map = std::move(map);
}

Series series_of(const std::string& model, const ModelNames& names) {
  Series series;
  series.label = names.short_name(model), series.color = names.color(model);
  return series;
}

PlotSpec duel_figure(const protocol::DuelResult& result, const ModelNames& names) {
  const std::string a = names.short_name(result.a), b = names.short_name(result.b);
  PlotSpec plot{.id = "duel", .title = a + " against " + b + ": " + result.verdict};
  plot.x.label = result.unit;
  plot.y.label = protocol::with_unit(a + " - " + b, "bits a " + result.per);
  Series mean{.label = "mean so far, 95 % at every n at once"};
  for (const protocol::DuelStep& step : result.path) {
    mean.x.push_back(double(step.n)), mean.y.push_back(step.mean);
    add_ends(mean, step.low, step.high);
  }
  Series dots{.label = result.unit == "seeds" ? "a seed" : "a text",
              .kind = SeriesKind::scatter,
              .color = 1};
  for (std::size_t n = 0; n < result.units.size(); ++n) {
    dots.x.push_back(double(n) + 1), dots.y.push_back(result.units[n].difference);
  }
  plot.series = {std::move(mean), std::move(dots)};
  plot.markers.push_back({.at = 0, .vertical = false});
  const std::string texts = std::to_string(result.texts) +
                            (result.per == "answer" ? " samples" : " texts") + " of length " +
                            std::to_string(result.length);
  plot.notes.push_back("below 0: " + a + " is better; " + std::to_string(result.n) +
                       (result.unit == "seeds" ? " seeds, each read on " : " were read of ") +
                       texts);
  if (!result.why.empty()) plot.notes.push_back(result.why);
  add_notes(plot.notes, result.provenance, names);
  return plot;
}

PlotSpec profile_figure(const protocol::ProfileResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "profile_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": positional and semantic score"};
  bool planes = true;
  for (const protocol::ProfileRow& row : result.rows) planes = planes && row.positional.has_value();
  plot.x.label = planes ? "positional score" : "positional score (over the row's deviation)";
  plot.y.label = "semantic score";
  std::map<std::int64_t, Series> by_layer;
  for (const protocol::ProfileRow& row : result.rows) {
    const auto& positional = planes ? row.positional : row.positional_row;
    if (!positional || !row.semantic) continue;
    Series& series = by_layer[row.layer];
    series.label = layer_name(row.layer), series.color = int(row.layer);
    series.kind = SeriesKind::scatter;
    series.x.push_back(positional->mean), series.y.push_back(row.semantic->mean);
    series.names.push_back(protocol::name_of_head(row.layer, row.head));
    add_ends(series, row.semantic->low, row.semantic->high);
  }
  for (auto& [layer, series] : by_layer) plot.series.push_back(std::move(series));
  plot.notes.push_back(result.formula);
  plot.notes.push_back("n = " + std::to_string(result.texts.size()) + " texts");
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

namespace {

// How far a claim's number is off, as a share of what it may be: without end where there is a
// number on one side alone, NaN where there is none on either.
double off_by(const protocol::Claim& claim) {
  const double off = std::abs(claim.measured - claim.value);
  if (std::isnan(off)) return claim.holds ? off : std::numeric_limits<double>::infinity();
  return off == 0 ? 0 : off / claim.tolerance;
}

}  // namespace

PlotSpec prove_figure(const protocol::ProveResult& result) {
  PlotSpec plot{.id = "prove", .title = "What is measured on models whose heads are known"};
  plot.x.label = "model";
  plot.y.label = "difference from the closed form (share of what is allowed)";
  // The claim that is off most, of each metric of each model.
  std::map<std::string, std::map<std::string, const protocol::Claim*>> worst;
  std::vector<std::string> models;
  for (const protocol::Claim& claim : result.claims) {
    if (std::ranges::find(models, claim.model) == models.end()) models.push_back(claim.model);
    const protocol::Claim*& most = worst[claim.model][claim.metric];
    if (std::isnan(off_by(claim))) continue;
    if (most == nullptr || off_by(claim) > off_by(*most)) most = &claim;
  }
  Series dots{.label = "a metric, its worst head", .kind = SeriesKind::scatter};
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::string& name = models[m];
    plot.x.ticks.push_back({double(m), name.starts_with("proof-") ? name.substr(6) : name});
    for (const auto& [metric, claim] : worst[name]) {
      if (claim == nullptr) continue;
      dots.x.push_back(double(m)), dots.y.push_back(off_by(*claim));
      dots.names.push_back(metric + " of " + protocol::name_of_head(claim->layer, claim->head));
    }
  }
  plot.series.push_back(std::move(dots));
  plot.x.low = -0.5, plot.x.high = double(models.size()) - 0.5;
  plot.markers.push_back({.at = 1, .vertical = false, .label = "allowed"});
  plot.legend = false;
  const auto fails = std::ranges::count(result.claims, false, &protocol::Claim::holds);
  plot.notes.push_back(std::to_string(result.claims.size()) + " claims, " + std::to_string(fails) +
                       " fail; a dot is the head that is off most in one metric");
  return plot;
}

PlotSpec profile_of_models(const std::vector<protocol::ProfileResult>& results,
                           const ModelNames& names) {
  PlotSpec plot{.id = "profile", .title = "Positional and semantic score of heads"};
  bool planes = true;
  for (const protocol::ProfileResult& result : results) {
    for (const protocol::ProfileRow& row : result.rows) planes = planes && row.positional;
  }
  plot.x.label = planes ? "positional score" : "positional score (over the row's deviation)";
  plot.y.label = "semantic score";
  for (const protocol::ProfileResult& result : results) {
    Series dots = series_of(result.model, names);
    dots.kind = SeriesKind::scatter, dots.points = shape_at(std::size_t(dots.color));
    for (const protocol::ProfileRow& row : result.rows) {
      const auto& positional = planes ? row.positional : row.positional_row;
      if (!positional || !row.semantic) continue;
      dots.x.push_back(positional->mean), dots.y.push_back(row.semantic->mean);
      dots.names.push_back(dots.label + " " + protocol::name_of_head(row.layer, row.head));
    }
    plot.series.push_back(std::move(dots));
  }
  plot.notes.push_back("a dot is a head");
  add_what_made(plot, results, names);
  return plot;
}

}  // namespace phasescope::app
