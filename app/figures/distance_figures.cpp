#include <algorithm>
#include <cmath>
#include <set>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/published.h"

namespace phasescope::app {

using protocol::DistanceModel;
using protocol::DistancePoint;
using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;
using widgets::short_number;

namespace {

std::string histogram_label(const DistanceModel& model, const ModelNames& names) {
  const protocol::NearFar& h = *model.histogram;
  return names.short_name(model.model) + ": mean " +
         with_ends(h.mean, h.intervals.mean.low, h.intervals.mean.high) + ", sigma " +
         short_number(h.sigma) + ", above 0 " + short_number(100 * h.share_positive) + " %";
}

// Counts as a density, so that models with other numbers of pairs compare.
Series histogram_series(const DistanceModel& model, const ModelNames& names) {
  const protocol::NearFar& h = *model.histogram;
  Series series{.label = histogram_label(model, names),
                .kind = SeriesKind::histogram,
                .color = names.color(model.model)};
  series.x = h.edges;
  for (size_t bin = 0; bin < h.counts.size(); ++bin) {
    const double width = h.edges[bin + 1] - h.edges[bin];
    series.y.push_back(double(h.counts[bin]) / (double(h.pairs) * width));
  }
  return series;
}

std::string range_text(int64_t begin, int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

std::string histogram_note(const DistanceModel& model, const ModelNames& names) {
  const protocol::NearFar& h = *model.histogram;
  return names.short_name(model.model) + ": " + std::to_string(h.pairs) + " pairs, near " +
         range_text(h.near_begin, h.near_end) + ", far " + range_text(h.far_begin, h.far_end) +
         ", interval of the mean: " + words_of(h.intervals.mean);
}

// "rope: 1.5e+06 pairs at distances 0 .. 255, 70 texts".
std::string profile_note(const DistanceModel& model, const ModelNames& names) {
  int64_t pairs = 0, last = 0;
  for (const DistancePoint& point : model.profile) {
    pairs += point.count;
    last = std::max(last, std::max(point.distance, point.distance_end - 1));
  }
  std::string note = names.short_name(model.model) + ": " + std::to_string(pairs) +
                     " pairs of a query and a key, distances up to " + std::to_string(last);
  if (model.histogram && model.histogram->texts > 0) {
    note += ", " + std::to_string(model.histogram->texts) +
            (model.histogram->texts == 1 ? " text" : " texts");
  }
  return note;
}

using Pick = double (*)(const DistancePoint&);

using PickEnd = const protocol::IntervalEnd& (*)(const DistancePoint&);

// One line a model, with its band.
PlotSpec profile_figure(std::span<const DistanceModel> models, const ModelNames& names, Pick value,
                        PickEnd low, PickEnd high) {
  PlotSpec plot;
  plot.x.label = "distance (tokens)", plot.x.of = widgets::Coordinate::distance;
  for (const DistanceModel& model : models) {
    Series series{.label = names.short_name(model.model), .color = names.color(model.model)};
    for (const DistancePoint& point : model.profile) {
      series.x.push_back(double(point.distance));
      series.y.push_back(value(point));
      add_ends(series, low(point), high(point));
    }
    plot.series.push_back(std::move(series));
    plot.notes.push_back(profile_note(model, names) +
                         (model.note.empty() ? "" : "; " + model.note) + "; bands " + model.bands);
  }
  return plot;
}

// "rope: 2.74, 2.70, 3.12 from the first layer down; 10000 pairs a layer".
std::string near_far_by_layer_note(const Series& series, int64_t pairs) {
  std::string note = series.label + ": ";
  for (size_t i = 0; i < series.y.size(); ++i) {
    note += (i ? ", " : "") + short_number(series.y[i]);
  }
  return note + " from the first layer on; " + std::to_string(pairs) + " pairs a layer";
}

// The model as it is over the heads of one layer; unchanged for -1.
DistanceModel at_layer(DistanceModel model, int64_t layer) {
  if (layer < 0) return model;
  model.profile.clear(), model.histogram.reset(), model.weight_histogram.reset();
  for (const protocol::DistanceGroup& group : model.layers) {
    if (group.layer != layer) continue;
    model.profile = group.profile, model.histogram = group.histogram;
    model.weight_histogram = group.weight_histogram;
  }
  std::erase_if(model.intrinsic, [&](const auto& curve) { return curve.layer != layer; });
  std::erase_if(model.head_bias, [&](const auto& bias) { return bias.layer != layer; });
  return model;
}

// What was pooled for a figure of one layer is said in its title, its notes and its file's name.
PlotSpec of_layer(PlotSpec plot, int64_t layer) {
  if (layer < 0) return plot;
  const std::string name = "L" + std::to_string(layer);
  plot.id += "_" + name;
  plot.title += ", " + name;
  plot.notes.push_back("heads of " + name + " pooled");
  return plot;
}

// A figure that is not of one layer says so itself.
PlotSpec of_all_layers(PlotSpec plot, int64_t layer) {
  if (layer < 0) plot.notes.push_back("all layers and heads pooled");
  return of_layer(std::move(plot), layer);
}

}  // namespace

namespace {

// Histograms of all models over each other, with their means.
PlotSpec near_far_figure_of(std::span<const DistanceModel> models, const ModelNames& names) {
  PlotSpec plot{.id = "near_far", .title = "Near minus far: score differences"};
  plot.x.label = "near - far score";
  plot.y.label = "density (of 1)";
  plot.markers.push_back({.at = 0, .label = "0"});
  for (const DistanceModel& model : models) {
    if (!model.histogram) continue;
    plot.series.push_back(histogram_series(model, names));
    plot.markers.push_back(
        {.at = model.histogram->mean, .label = "mean", .color = names.color(model.model)});
    plot.notes.push_back(histogram_note(model, names));
    if (!model.note.empty()) {
      plot.notes.push_back(names.short_name(model.model) + ": " + model.note);
    }
  }
  return plot;
}

// The mean that TAPA prints for an encoding, as a grey line.
void mark_published(PlotSpec& plot, std::span<const DistanceModel> models) {
  bool any = false;
  for (const PublishedMean& one : kPublishedNearFarMeans) {
    if (std::ranges::none_of(models, [&](const auto& m) { return m.encoding == one.encoding; })) {
      continue;
    }
    plot.markers.push_back(
        {.at = one.mean,
         .label = "published: " + std::string(one.encoding) + " mean " + short_number(one.mean)});
    any = true;
  }
  if (any) plot.notes.emplace_back(kPublishedNearFar);
}

}  // namespace

PlotSpec near_far_figure(std::span<const DistanceModel> models, const ModelNames& names) {
  PlotSpec plot = near_far_figure_of(models, names);
  plot.notes.push_back(
      "near - far: score of the near key minus that of the far one, before softmax");
  mark_published(plot, models);
  return plot;
}

PlotSpec near_far_weight_figure(std::span<const DistanceModel> models, const ModelNames& names) {
  std::vector<DistanceModel> of_weights(models.begin(), models.end());
  for (DistanceModel& model : of_weights) model.histogram = model.weight_histogram;
  PlotSpec plot = near_far_figure_of(of_weights, names);
  plot.id = "near_far_weight";
  plot.title = "Near minus far: weight differences";
  plot.x.label = "near - far weight";
  plot.notes.push_back("near - far: weight of the near key minus that of the far one");
  return plot;
}

PlotSpec near_far_by_layer_figure(std::span<const DistanceModel> models, const ModelNames& names) {
  PlotSpec plot{.id = "near_far_by_layer", .title = "Near minus far by layer"};
  plot.x.label = "layer", plot.x.of = widgets::Coordinate::layer;
  plot.y.label = "mean score difference";
  plot.markers.push_back({.at = 0, .vertical = false});
  std::set<int64_t> layers;
  for (size_t i = 0; i < models.size(); ++i) {
    const DistanceModel& model = models[i];
    Series series{.label = names.short_name(model.model),
                  .kind = SeriesKind::scatter,
                  .color = names.color(model.model)};
    // Points of different models stand beside each other, not on each other.
    const double offset = 0.06 * (double(i) - 0.5 * double(models.size() - 1));
    int64_t pairs = 0;
    for (const protocol::DistanceGroup& group : model.layers) {
      if (!group.histogram || !group.layer) continue;
      pairs = group.histogram->pairs;
      series.x.push_back(double(*group.layer) + offset);
      series.y.push_back(group.histogram->mean);
      const protocol::Interval& mean = group.histogram->intervals.mean;
      add_ends(series, mean.low, mean.high);
      layers.insert(*group.layer);
    }
    plot.notes.push_back(near_far_by_layer_note(series, pairs));
    plot.series.push_back(std::move(series));
  }
  for (const int64_t layer : layers) {
    plot.x.ticks.push_back({double(layer), "L" + std::to_string(layer)});
  }
  plot.notes.push_back("heads of a layer pooled; bars are 95 % intervals of the mean");
  return plot;
}

PlotSpec score_profile_figure(std::span<const DistanceModel> models, const ModelNames& names) {
  PlotSpec plot = profile_figure(
      models, names, [](const DistancePoint& p) { return p.score_mean; },
      [](const DistancePoint& p) -> const auto& { return p.score_low; },
      [](const DistancePoint& p) -> const auto& { return p.score_high; });
  plot.id = "score_by_distance";
  plot.title = "Mean score by distance";
  plot.y.label = "score (before softmax)";
  plot.notes.push_back("band: 95 % interval of the mean");
  return plot;
}

PlotSpec weight_profile_figure(std::span<const DistanceModel> models, const ModelNames& names) {
  PlotSpec plot = profile_figure(
      models, names, [](const DistancePoint& p) { return p.weight_mean; },
      [](const DistancePoint& p) -> const auto& { return p.weight_low; },
      [](const DistancePoint& p) -> const auto& { return p.weight_high; });
  plot.id = "weight_by_distance";
  plot.title = "Mean weight by distance";
  plot.y.label = "weight";
  plot.y.scale = widgets::Scale::log10;
  plot.notes.push_back(
      "P(d): mean over valid queries of A[q, q - d]; band: 95 % interval of the mean");
  return plot;
}

PlotSpec score_parts_figure(const DistanceModel& model, const ModelNames& names) {
  PlotSpec plot{
      .id = "score_parts_" + names.file_name(model.model),
      .title = names.short_name(model.model) + ": content and positional part of the score"};
  plot.x.label = "distance (tokens)", plot.x.of = widgets::Coordinate::distance;
  plot.y.label = "mean score";
  Series total{.label = "score"}, content{.label = "content", .color = 1},
      positional{.label = "positional", .color = 2};
  for (const DistancePoint& point : model.profile) {
    for (Series* series : {&total, &content, &positional}) {
      series->x.push_back(double(point.distance));
    }
    total.y.push_back(point.score_mean);
    content.y.push_back(point.content_mean);
    positional.y.push_back(point.positional_mean);
    add_ends(total, point.score_low, point.score_high);
    add_ends(content, point.content_low, point.content_high);
    add_ends(positional, point.positional_low, point.positional_high);
  }
  plot.series = {total, content, positional};
  plot.notes.push_back("positional = score - content, so that the parts add up; bands " +
                       model.bands);
  return plot;
}

PlotSpec intrinsic_bias_figure(const DistanceModel& model, size_t which, const ModelNames& names) {
  const protocol::IntrinsicBias& bias = model.intrinsic.at(which);
  std::string where = "L" + std::to_string(bias.layer);
  if (bias.head >= 0) where += "H" + std::to_string(bias.head);
  PlotSpec plot{.id = "intrinsic_bias_" + names.file_name(model.model) + "_" + where,
                .title = names.short_name(model.model) + " " + where + ": intrinsic distance bias"};
  plot.x.label = "distance (tokens, a model's angle)";
  plot.x.scale = widgets::Scale::log10;
  plot.y.label = "score";
  plot.series.push_back(
      {.label = "sqrt(D) Gamma, one mean", .x = bias.distances, .y = bias.sqrt_d_gamma});
  plot.series.push_back(
      {.label = "one mean a plane", .x = bias.distances, .y = bias.per_plane, .color = 1});
  plot.notes.push_back("mu_0 " + short_number(bias.mu) + ", nu_0 " + short_number(bias.nu) +
                       "; TAPA (arXiv 2509.12635) Definition 2.1");
  return plot;
}

std::vector<GroupedFigure> figures_of(std::span<const DistanceModel> models,
                                      const ModelNames& names, int64_t layer) {
  std::vector<DistanceModel> shown;
  for (const DistanceModel& model : models) shown.push_back(at_layer(model, layer));
  std::vector<GroupedFigure> figures;
  const auto add = [&](const char* group, PlotSpec plot) {
    figures.push_back({group, -1, std::move(plot)});
  };
  add("near - far", of_all_layers(near_far_figure(shown, names), layer));
  add("near - far", near_far_by_layer_figure(models, names));
  if (std::ranges::any_of(shown,
                          [](const auto& model) { return model.weight_histogram.has_value(); })) {
    add("near - far", of_all_layers(near_far_weight_figure(shown, names), layer));
  }
  add("score", of_all_layers(score_profile_figure(shown, names), layer));
  add("weight", of_all_layers(weight_profile_figure(shown, names), layer));
  for (const DistanceModel& model : shown) {
    add("score parts", of_all_layers(score_parts_figure(model, names), layer));
  }
  for (const DistanceModel& model : shown) {
    for (size_t i = 0; i < model.intrinsic.size(); ++i) {
      add("intrinsic bias", intrinsic_bias_figure(model, i, names));
    }
  }
  for (const DistanceModel& model : shown) {
    for (const protocol::HeadBias& bias : model.head_bias) {
      for (PlotSpec& plot : head_bias_figures(model, bias, names)) {
        add("head bias", std::move(plot));
      }
    }
  }
  return figures;
}

}  // namespace phasescope::app
