#include <algorithm>
#include <cmath>
#include <set>

#include "app/figures/distance_axis.h"
#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/map_look.h"
#include "app/figures/point_shapes.h"
#include "app/figures/published.h"
#include "protocol/head_name.h"

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
  for (std::size_t bin = 0; bin < h.counts.size(); ++bin) {
    const double width = h.edges[bin + 1] - h.edges[bin];
    series.y.push_back(double(h.counts[bin]) / (double(h.pairs) * width));
  }
  return series;
}

std::string range_text(std::int64_t begin, std::int64_t end) {
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
  std::int64_t pairs = 0, last = 0;
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
  plot.x = distance_axis();
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
std::string near_far_by_layer_note(const Series& series, std::int64_t pairs) {
  if (series.y.empty()) return series.label + ": no layer has pairs so near and so far";
  std::string note = series.label + ": ";
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    note += (i ? ", L" : "L") + std::to_string(std::lround(series.x[i])) + " " +
            short_number(series.y[i]);
  }
  return note + "; " + std::to_string(pairs) + " pairs a layer";
}

// The model as it is over the heads of one layer, or of one head; unchanged for -1.
DistanceModel at_heads(DistanceModel model, std::int64_t layer, std::int64_t head) {
  if (layer < 0) return model;
  model.profile.clear(), model.histogram.reset(), model.weight_histogram.reset();
  for (const protocol::DistanceGroup& group : head < 0 ? model.layers : model.heads) {
    if (group.layer != layer || (head >= 0 && group.head != head)) continue;
    model.profile = group.profile, model.histogram = group.histogram;
    model.weight_histogram = group.weight_histogram;
  }
  const auto elsewhere = [&](const auto& one) {
    return one.layer != layer || (head >= 0 && one.head != head);
  };
  std::erase_if(model.intrinsic, elsewhere);
  std::erase_if(model.head_bias, elsewhere);
  return model;
}

// What was pooled for a figure of one layer or head is said in its title, its notes and its file's
// name.
PlotSpec of_heads(PlotSpec plot, std::int64_t layer, std::int64_t head) {
  if (layer < 0) return plot;
  const std::string name = protocol::name_of_head(layer, head);
  plot.id += "_" + name;
  plot.title += ", " + name;
  plot.notes.push_back(head < 0 ? "heads of " + name + " pooled" : name + " alone");
  return plot;
}

// A figure that is not of one layer says so itself.
PlotSpec of_all_layers(PlotSpec plot, std::int64_t layer, std::int64_t head) {
  if (layer < 0) plot.notes.push_back("all layers and heads pooled");
  return of_heads(std::move(plot), layer, head);
}

// The mean difference of every head, layers down.
PlotSpec near_far_by_head_figure(const DistanceModel& model, const ModelNames& names) {
  PlotSpec plot{.id = "near_far_by_head_" + names.file_name(model.model),
                .title = names.short_name(model.model) + ": near minus far of every head"};
  plot.x.label = "head", plot.y.label = "layer";
  plot.legend = false;
  std::int64_t layers = 0, heads = 0, pairs = 0;
  for (const protocol::DistanceGroup& group : model.heads) {
    layers = std::max(layers, group.layer.value_or(0) + 1);
    heads = std::max(heads, group.head.value_or(0) + 1);
  }
  widgets::MapSpec map{.rows = int(layers), .cols = int(heads)};
  map.values.assign(std::size_t(layers * heads), std::nanf(""));
  for (const protocol::DistanceGroup& group : model.heads) {
    if (!group.histogram || !group.layer || !group.head) continue;
    map.values[std::size_t(*group.layer * heads + *group.head)] = float(group.histogram->mean);
    pairs = group.histogram->pairs;
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    plot.x.ticks.push_back({double(h) + 0.5, "H" + std::to_string(h)});
  }
  for (std::int64_t l = 0; l < layers; ++l) {
    plot.y.ticks.push_back({double(l) + 0.5, "L" + std::to_string(l)});
  }
  map.row_name = "layer", map.col_name = "head";
  map.range = widgets::value_range(map.values);
  map.colormap = colors_of(map.range);
  map.value_label = "mean of near - far (score)";
  plot.notes.push_back("mean of near - far before softmax, " + std::to_string(pairs) +
                       " pairs a head; " + widgets::scale_note(map));
  plot.map = std::move(map);
  return plot;
}

}  // namespace

namespace {

// Histograms of all models over each other, with their means.
PlotSpec near_far_figure_of(std::span<const DistanceModel> models, const ModelNames& names) {
  PlotSpec plot{.id = "near_far", .title = "Near minus far: score differences"};
  plot.x.label = "near - far score";
  plot.y.label = "density (per unit)";
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

// The means that TAPA prints of encodings, as lines as high as the histograms, each with points of
// another shape; the legend says which and of what models, so that no words stand over the
// histograms.
void mark_published(PlotSpec& plot, std::span<const DistanceModel> models) {
  double top = 0;
  for (const Series& series : plot.series) {
    for (const double y : series.y) top = std::max(top, y);
  }
  std::size_t shown = 0;
  for (const PublishedMean& one : kPublishedNearFarMeans) {
    if (std::ranges::none_of(models, [&](const auto& m) { return m.encoding == one.encoding; })) {
      continue;
    }
    plot.series.push_back({.label = "published: mean of " + std::string(one.encoding) + " " +
                                    short_number(one.mean) + " (7B models)",
                           .x = {one.mean, one.mean},
                           .y = {0, top},
                           .color = kPublishedColor,
                           .quiet = true,
                           .points = shape_at(shown++)});
  }
  if (shown > 0) plot.notes.emplace_back(kPublishedNearFar);
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
  std::set<std::int64_t> layers;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const DistanceModel& model = models[i];
    Series series{.label = names.short_name(model.model),
                  .kind = SeriesKind::scatter,
                  .color = names.color(model.model)};
    series.points = shape_at(std::size_t(series.color));
    // Points of different models stand beside each other, not on each other.
    const double offset = 0.06 * (double(i) - 0.5 * double(models.size() - 1));
    std::int64_t pairs = 0;
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
    if (!series.y.empty()) plot.series.push_back(std::move(series));
  }
  for (const std::int64_t layer : layers) {
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
  plot.x = distance_axis();
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

namespace {

// The measured mean score of a head with its band; empty where heads were not measured apart.
Series measured_series(const DistanceModel& model, std::int64_t layer, std::int64_t head) {
  Series series;
  for (const protocol::DistanceGroup& group : model.heads) {
    if (group.layer != layer || group.head != head) continue;
    for (const DistancePoint& point : group.profile) {
      series.x.push_back(on_log_axis(double(point.distance))), series.y.push_back(point.score_mean);
      add_ends(series, point.score_low, point.score_high);
    }
  }
  return series;
}

}  // namespace

PlotSpec intrinsic_bias_figure(const DistanceModel& model, std::int64_t layer,
                               const ModelNames& names) {
  const std::string where = "L" + std::to_string(layer);
  PlotSpec plot{.id = "intrinsic_bias_" + names.file_name(model.model) + "_" + where,
                .title = names.short_name(model.model) + " " + where + ": intrinsic distance bias"};
  plot.x = log_distance_axis(kOfAngles);
  plot.y.label = "mean score (before softmax)";
  for (const protocol::IntrinsicBias& bias : model.intrinsic) {
    if (bias.layer != layer) continue;
    const std::string head = "H" + std::to_string(bias.head);
    const int color = int(bias.head);
    Series measured = measured_series(model, bias.layer, bias.head);
    measured.label = head + " measured", measured.color = color, measured.width = 2.2;
    const bool apart = !measured.x.empty();
    if (apart) plot.series.push_back(std::move(measured));
    plot.series.push_back({.label = head + " one mean a plane",
                           .x = on_log_axis(bias.distances),
                           .y = bias.per_plane,
                           .color = color,
                           .width = 1.0,
                           .in_legend = !apart});
    plot.series.push_back({.label = head + " sqrt(D) Gamma, one mean",
                           .x = on_log_axis(bias.distances),
                           .y = bias.sqrt_d_gamma,
                           .color = color,
                           .width = 1.0,
                           .dashed = true,
                           .in_legend = false});
    plot.notes.push_back(head + ": mu_0 " + short_number(bias.mu) + ", nu_0 " +
                         short_number(bias.nu));
  }
  plot.notes.insert(plot.notes.begin(),
                    "thick: measured, where every head was; thin: what its mean coefficients "
                    "predict, a plane each; dashed: with one mean for all planes; TAPA (arXiv "
                    "2509.12635) Definition 2.1");
  return plot;
}

std::vector<GroupedFigure> figures_of(std::span<const DistanceModel> models,
                                      const ModelNames& names, std::int64_t layer,
                                      std::int64_t head) {
  std::vector<DistanceModel> shown;
  for (const DistanceModel& model : models) shown.push_back(at_heads(model, layer, head));
  std::vector<GroupedFigure> figures;
  const auto add = [&](const char* group, PlotSpec plot) {
    figures.push_back({group, -1, std::move(plot)});
  };
  const auto named = [&](PlotSpec plot) { return of_all_layers(std::move(plot), layer, head); };
  add("near - far", named(near_far_figure(shown, names)));
  add("near - far", near_far_by_layer_figure(models, names));
  if (std::ranges::any_of(shown,
                          [](const auto& model) { return model.weight_histogram.has_value(); })) {
    add("near - far", named(near_far_weight_figure(shown, names)));
  }
  for (const DistanceModel& model : models) {
    if (!model.heads.empty()) add("near - far", near_far_by_head_figure(model, names));
  }
  add("score", named(score_profile_figure(shown, names)));
  add("weight", named(weight_profile_figure(shown, names)));
  for (const DistanceModel& model : shown) {
    add("score parts", named(score_parts_figure(model, names)));
  }
  for (std::size_t n = 0; n < shown.size(); ++n) {
    std::set<std::int64_t> layers;
    for (const protocol::IntrinsicBias& bias : shown[n].intrinsic) layers.insert(bias.layer);
    for (const std::int64_t one : layers) {
      PlotSpec plot = intrinsic_bias_figure(shown[n], one, names);
      add("intrinsic bias", head < 0 ? std::move(plot) : of_heads(std::move(plot), one, head));
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
