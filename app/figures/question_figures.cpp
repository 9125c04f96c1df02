#include "app/figures/question_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "app/figures/intervals.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

namespace {

// Where shares of distance (left corner), key (right corner) and pair (top) stand.
struct Place {
  double x = 0, y = 0;
};
Place place_of(double key, double pair) { return {key + pair / 2, pair * std::sqrt(3.0) / 2}; }

Series triangle() {
  const double top = std::sqrt(3.0) / 2;
  return {.label = "distance (left), key (right), pair (top)",
          .x = {0, 1, 0.5, 0},
          .y = {0, 0, top, 0},
          .color = 7,
          .quiet = true};
}

std::string layer_name(int64_t layer) { return "L" + std::to_string(layer); }

// A head's dot, by area as large as its query share, and the whisker to where it stands if its
// trend is the key's.
void add_head(const protocol::AddressingRow& row, const std::string& name, Series& dots,
              Series& whiskers) {
  if (!row.distance_first) return;
  const Place dot = place_of(row.key_last->mean, row.interaction->mean);
  const Place end = place_of(row.key_first->mean, row.interaction->mean);
  const double query = row.query ? std::clamp(row.query->mean, 0.0, 1.0) : 0;
  dots.kind = SeriesKind::scatter;
  dots.x.push_back(dot.x), dots.y.push_back(dot.y);
  dots.sizes.push_back(2 + 5 * std::sqrt(query));
  dots.names.push_back(name);
  const double gap = std::numeric_limits<double>::quiet_NaN();
  whiskers.color = dots.color, whiskers.width = 0.8;
  whiskers.x.insert(whiskers.x.end(), {dot.x, end.x, gap});
  whiskers.y.insert(whiskers.y.end(), {dot.y, end.y, gap});
}

constexpr const char* kDotsAndWhiskers =
    "a dot is a head, the larger the more of its variance lies between rows, which no weight sees; "
    "a "
    "trend that distance or key could have is the distance's, and the whisker ends where the head "
    "stands if it is the key's";

}  // namespace

PlotSpec addressing_figure(const protocol::AddressingResult& result, const ModelNames& names) {
  PlotSpec plot{
      .id = "addressing_" + names.file_name(result.model),
      .title = names.short_name(result.model) + ": what the scores of a head are made of"};
  plot.x.label = "key + pair / 2 (share)";
  plot.y.label = "pair x 0.87 (share)";
  plot.x.low = -0.05, plot.x.high = 1.05, plot.y.low = -0.05, plot.y.high = 0.95;
  plot.series.push_back(triangle());
  std::map<int64_t, Series> dots, whiskers;
  for (const protocol::AddressingRow& row : result.rows) {
    if (!row.distance_first) continue;
    Series& of_layer = dots[row.layer];
    of_layer.label = layer_name(row.layer), of_layer.color = int(row.layer);
    add_head(row, layer_name(row.layer) + "H" + std::to_string(row.head), of_layer,
             whiskers[row.layer]);
  }
  for (auto& [layer, series] : dots) plot.series.push_back(std::move(series));
  for (auto& [layer, series] : whiskers) plot.series.push_back(std::move(series));
  plot.notes.push_back(kDotsAndWhiskers);
  plot.notes.push_back(result.formula);
  plot.notes.push_back("n = " + std::to_string(result.texts.size()) + " texts");
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

std::vector<PlotSpec> demand_figures(const protocol::DemandResult& result,
                                     const ModelNames& names) {
  std::map<int64_t, PlotSpec> by_layer;
  for (const protocol::DemandRow& row : result.rows) {
    PlotSpec& plot = by_layer[row.layer];
    const std::string layer = layer_name(row.layer);
    plot.id = "demand_" + names.file_name(result.model) + "_" + layer;
    plot.title =
        names.short_name(result.model) + " " + layer + ": at which distances heads want weight";
    plot.x.label = "distance + 1 (tokens)", plot.x.of = widgets::Coordinate::distance,
    plot.x.zero = 1;
    plot.x.scale = widgets::Scale::log10;
    plot.y.label = "demand (bits a token per unit of score)";
    Series series{.label = "H" + std::to_string(row.head), .color = int(row.head)};
    for (size_t n = 0; n < row.demand.size(); ++n) {
      series.x.push_back(double(result.edges[n]) + 1);
      series.y.push_back(row.demand[n].mean);
      add_ends(series, row.demand[n].low, row.demand[n].high);
    }
    plot.series.push_back(std::move(series));
  }
  std::vector<PlotSpec> figures;
  for (auto& [layer, plot] : by_layer) {
    plot.markers.push_back(
        {.at = double(result.trained) + 1, .label = "trained length", .beyond = true});
    plot.markers.push_back({.at = 0, .vertical = false});
    plot.notes.push_back("a point is a bucket's sum, at its first distance; band: 95 %, " +
                         words_of(result.loss));
    plot.notes.push_back(result.formula);
    add_notes(plot.notes, std::vector{result.provenance}, names);
    figures.push_back(std::move(plot));
  }
  return figures;
}

namespace {

// Where a distance stands on an axis whose bars are buckets: bucket n is n - 0.5 to n + 0.5, the
// last one as wide as its length shows.
double place_in_buckets(const std::vector<int64_t>& edges, int64_t distance) {
  for (size_t n = 0; n + 1 < edges.size(); ++n) {
    if (distance >= edges[n + 1]) continue;
    const double into = double(distance - edges[n]) / double(edges[n + 1] - edges[n]);
    return double(n) - 0.5 + into;
  }
  return double(edges.size()) - (distance > edges.back() ? 0.5 : 1.5);
}

// First distances of some buckets, so that they have room in a small plot.
std::vector<widgets::AxisTick> bucket_ticks(const std::vector<int64_t>& edges) {
  constexpr size_t kTicks = 5;
  const size_t step = std::max<size_t>(1, (edges.size() + kTicks - 1) / kTicks);
  std::vector<widgets::AxisTick> ticks;
  for (size_t n = 0; n < edges.size(); n += step) {
    ticks.push_back({double(n), std::to_string(edges[n])});
  }
  return ticks;
}

// Of all heads' sums and intervals.
widgets::ValueRange demand_range(const protocol::DemandResult& result) {
  widgets::ValueRange range{0, 0};
  const auto add = [&range](double x) {
    if (!std::isfinite(x)) return;
    range.low = std::min(range.low, x), range.high = std::max(range.high, x);
  };
  for (const protocol::DemandRow& row : result.rows) {
    for (const protocol::Interval& one : row.demand) {
      for (const double x : {one.mean, one.low.value_or(one.mean), one.high.value_or(one.mean)}) {
        add(x);
      }
    }
  }
  const double margin = 0.04 * (range.high - range.low);
  return {range.low - margin, range.high + margin};
}

}  // namespace

widgets::GridSpec demand_grid(const protocol::DemandResult& result, const ModelNames& names) {
  constexpr int kMostAcross = 8;
  widgets::GridSpec grid{
      .id = "demand_heads_" + names.file_name(result.model),
      .title = names.short_name(result.model) + ": at which distances heads want weight"};
  const widgets::ValueRange range = demand_range(result);
  std::map<int64_t, int> in_layer;
  for (const protocol::DemandRow& row : result.rows) {
    grid.columns = std::max(grid.columns, ++in_layer[row.layer]);
    PlotSpec plot;
    plot.x.low = -0.5, plot.x.high = double(result.edges.size()) - 0.5;
    plot.x.ticks = bucket_ticks(result.edges);
    plot.y.low = range.low, plot.y.high = range.high;
    Series bars{.label = "demand", .kind = SeriesKind::bars, .color = int(row.layer)};
    for (size_t n = 0; n < row.demand.size(); ++n) {
      bars.x.push_back(double(n)), bars.y.push_back(row.demand[n].mean);
      add_ends(bars, row.demand[n].low, row.demand[n].high);
    }
    plot.series.push_back(std::move(bars));
    plot.markers.push_back({.at = 0, .vertical = false});
    const double trained = place_in_buckets(result.edges, result.trained);
    if (trained < *plot.x.high) plot.markers.push_back({.at = trained, .beyond = true});
    const std::string head = layer_name(row.layer) + "H" + std::to_string(row.head);
    grid.cells.push_back({{}, head, std::move(plot)});
  }
  grid.columns = std::min(grid.columns, kMostAcross);
  grid.notes = {
      "across: buckets of distances, named by their first one (tokens); up: the bucket's sum (bits "
      "a token per unit of score), one scale for all heads, from " +
          widgets::short_number(range.low) + " to " + widgets::short_number(range.high) +
          "; lines: 95 %, " + words_of(result.loss) + "; shaded: beyond the trained length of " +
          std::to_string(result.trained) + " tokens",
      result.formula};
  add_notes(grid.notes, std::vector{result.provenance}, names);
  return grid;
}

namespace {

// A number of each head: its layer, its head (-1: the whole layer) and the number.
struct OfHead {
  int64_t layer = 0, head = 0;
  double value = 0;
};

// Layers down, heads across, one column for whole layers.
void add_head_map(PlotSpec& plot, const std::vector<OfHead>& values) {
  int64_t layers = 0, heads = 1;
  for (const OfHead& one : values) {
    layers = std::max(layers, one.layer + 1), heads = std::max(heads, one.head + 1);
  }
  widgets::MapSpec map{.rows = int(layers), .cols = int(heads)};
  map.values.assign(size_t(layers * heads), std::numeric_limits<float>::quiet_NaN());
  for (const OfHead& one : values) {
    map.values[size_t(one.layer * heads + std::max<int64_t>(one.head, 0))] = float(one.value);
  }
  map.colormap = widgets::Colormap::signed_values;
  map.range = widgets::value_range(map.values);
  map.value_label = "bits a token";
  map.row_name = "layer", map.col_name = "head";
  plot.x.label = "head", plot.x.of = widgets::Coordinate::head, plot.y.label = "layer",
  plot.y.of = widgets::Coordinate::layer;
  for (int64_t h = 0; h < heads; ++h) {
    plot.x.ticks.push_back({double(h) + 0.5, heads > 1 ? "H" + std::to_string(h) : "layer"});
  }
  for (int64_t l = 0; l < layers; ++l) plot.y.ticks.push_back({double(l) + 0.5, layer_name(l)});
  plot.legend = false;
  plot.notes.push_back(widgets::scale_note(map));
  plot.map = std::move(map);
}

// The band in which a head or layer alone changes the loss most; -1 where none has a number.
int strongest_band(const protocol::AcuityResult& result) {
  int best = -1;
  double largest = -1;
  for (const protocol::AcuityRow& row : result.rows) {
    for (size_t n = 0; n < row.bands.size(); ++n) {
      if (!row.bands[n].change_seen) continue;
      const double size = std::abs(row.bands[n].change_seen->mean);
      if (size > largest) largest = size, best = int(n);
    }
  }
  return best;
}

// One band, heads (or layers) one at a time.
PlotSpec acuity_heads(const protocol::AcuityResult& result, const ModelNames& names, size_t band) {
  const protocol::AcuityBand& first = result.rows.front().bands[band];
  const std::string distances = std::to_string(first.low) + ".." + std::to_string(first.high - 1);
  PlotSpec plot{.id = "acuity_heads_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": change of loss where distances " +
                         distances + " are exchanged in one place alone"};
  std::vector<OfHead> values;
  for (const protocol::AcuityRow& row : result.rows) {
    if (band >= row.bands.size() || !row.bands[band].change_seen) continue;
    values.push_back({row.layer, row.head, row.bands[band].change_seen->mean});
  }
  add_head_map(plot, values);
  plot.notes.push_back(
      "the band in which one of them changes the loss most; the table has the others; n = " +
      std::to_string(result.texts.size()) + " texts");
  plot.notes.push_back(result.formula);
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

}  // namespace

std::vector<PlotSpec> acuity_figures(const protocol::AcuityResult& result,
                                     const ModelNames& names) {
  std::vector<PlotSpec> figures{acuity_figure(result, names)};
  const int band = strongest_band(result);
  if (band >= 0) figures.push_back(acuity_heads(result, names, size_t(band)));
  return figures;
}

PlotSpec acuity_figure(const protocol::AcuityResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "acuity_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": how finely distance is needed"};
  plot.x.label = "distance (tokens)", plot.x.of = widgets::Coordinate::distance;
  plot.x.scale = widgets::Scale::log10;
  plot.y.label = "change of loss (bits a token)";
  Series series{.label = names.short_name(result.model)};
  for (const protocol::AcuityBand& band : result.bands) {
    if (!band.change_seen) continue;
    if (!series.x.empty()) {  // bands overlap: a line from one to the next would be no curve
      series.x.push_back(std::numeric_limits<double>::quiet_NaN());
      series.y.push_back(std::numeric_limits<double>::quiet_NaN());
      add_ends(series, {}, {});
    }
    for (const int64_t end : {band.low, band.high}) {
      series.x.push_back(double(end < 1 ? 1 : end));
      series.y.push_back(band.change_seen->mean);
      add_ends(series, band.change_seen->low, band.change_seen->high);
    }
  }
  plot.series.push_back(std::move(series));
  plot.markers.push_back({.at = 0, .vertical = false});
  plot.markers.push_back({.at = double(result.trained), .label = "trained length"});
  plot.notes.push_back("a step is a band, over rows that see half of it; n = " +
                       std::to_string(result.texts.size()) + " texts");
  plot.notes.push_back(result.formula);
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

PlotSpec duel_figure(const protocol::DuelResult& result, const ModelNames& names) {
  const std::string a = names.short_name(result.a), b = names.short_name(result.b);
  PlotSpec plot{.id = "duel", .title = a + " against " + b + ": " + result.verdict};
  plot.x.label = result.unit;
  plot.y.label = a + " - " + b + " (bits a " + result.per + ")";
  Series mean{.label = "mean so far, 95 % at every n at once"};
  for (const protocol::DuelStep& step : result.path) {
    mean.x.push_back(double(step.n)), mean.y.push_back(step.mean);
    add_ends(mean, step.low, step.high);
  }
  Series dots{.label = result.unit == "seeds" ? "a seed" : "a text",
              .kind = SeriesKind::scatter,
              .color = 1};
  for (size_t n = 0; n < result.units.size(); ++n) {
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

namespace {

// A number of each row of an xray, layers down and heads (one column for whole layers) across.
PlotSpec xray_map(const protocol::XrayResult& result, const ModelNames& names, const char* id,
                  const std::string& title, protocol::Interval protocol::XrayRow::*value) {
  PlotSpec plot{.id = std::string(id) + "_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": " + title};
  std::vector<OfHead> values;
  for (const protocol::XrayRow& row : result.rows) {
    values.push_back({row.layer, row.head, (row.*value).mean});
  }
  add_head_map(plot, values);
  plot.notes.push_back(result.formula);
  plot.notes.push_back(result.treatment + " " + std::to_string(result.limit) +
                       "; n = " + std::to_string(result.plain.n) + " " + result.plain.unit);
  return plot;
}

// What each head, or layer, alone returns of what treating all returns.
PlotSpec xray_shares(const protocol::XrayResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "xray_shares_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": share of the loss that one returns"};
  plot.x.label = "treated alone", plot.y.label = "share of what treating all returns";
  Series bars{.label = "share", .kind = SeriesKind::bars};
  // Names stand where they have room.
  const size_t step = 1 + result.rows.size() / 17;
  for (size_t n = 0; n < result.rows.size(); ++n) {
    const protocol::XrayRow& row = result.rows[n];
    const std::string name =
        layer_name(row.layer) + (row.head < 0 ? "" : "H" + std::to_string(row.head));
    if (n % step == 0) plot.x.ticks.push_back({double(n), name});
    bars.x.push_back(double(n)), bars.y.push_back(row.share->mean), bars.names.push_back(name);
    add_ends(bars, row.share->low, row.share->high);
  }
  plot.x.low = -0.5, plot.x.high = double(result.rows.size()) - 0.5;
  plot.series.push_back(std::move(bars));
  plot.markers.push_back({.at = 0, .vertical = false});
  plot.legend = false;
  plot.notes.push_back("lines: 95 %, " + words_of(*result.rows.front().share) + "; " +
                       result.treatment + " " + std::to_string(result.limit));
  plot.notes.push_back(result.formula);
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

PlotSpec xray_positions(const protocol::XrayResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "xray_positions_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": loss by position"};
  plot.x.label = "row (tokens)", plot.x.of = widgets::Coordinate::position,
  plot.y.label = "loss (bits a token)";
  Series plain{.label = "plain", .color = 0}, all{.label = "all treated", .color = 1},
      repaired{.label = "repaired", .color = 2};
  for (const protocol::XrayPosition& block : result.positions) {
    for (Series* series : {&plain, &all}) series->x.push_back(double(block.begin));
    plain.y.push_back(block.plain), all.y.push_back(block.all);
    if (!block.repaired) continue;
    repaired.x.push_back(double(block.begin)), repaired.y.push_back(*block.repaired);
  }
  plot.series = {std::move(plain), std::move(all)};
  if (!repaired.x.empty()) plot.series.push_back(std::move(repaired));
  plot.markers.push_back({.at = double(result.trained), .label = "trained length"});
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

PlotSpec xray_unseen(const protocol::XrayResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "xray_unseen_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": weight on what training never showed"};
  widgets::MapSpec map;
  map.cols = int(result.unseen.size());
  for (const protocol::XrayUnseen& row : result.unseen) {
    map.rows = std::max(map.rows, int(row.planes.size()));
  }
  map.values.assign(size_t(map.rows) * size_t(map.cols), 0);
  for (size_t h = 0; h < result.unseen.size(); ++h) {
    const protocol::XrayUnseen& row = result.unseen[h];
    for (size_t plane = 0; plane < row.planes.size(); ++plane) {
      map.values[plane * result.unseen.size() + h] = float(row.planes[plane]);
    }
    plot.x.ticks.push_back(
        {double(h) + 0.5, layer_name(row.layer) + "H" + std::to_string(row.head)});
  }
  map.value_label = "weight";
  map.range = {0, 1};
  map.row_name = "plane", map.col_name = "head";
  plot.x.label = "head", plot.x.of = widgets::Coordinate::head, plot.y.label = "plane";
  plot.legend = false;
  plot.notes.push_back("mean weight of the rows past the trained length on unseen " +
                       (result.unseen.empty() ? std::string() : result.unseen.front().of));
  plot.notes.push_back(widgets::scale_note(map));
  plot.map = std::move(map);
  return plot;
}

}  // namespace

std::vector<PlotSpec> xray_figures(const protocol::XrayResult& result, const ModelNames& names) {
  std::vector<PlotSpec> figures{
      xray_map(result, names, "xray_one_alone", "what treating a head alone returns",
               &protocol::XrayRow::one_alone),
      xray_map(result, names, "xray_left_out", "what is lost where a head alone is left as it is",
               &protocol::XrayRow::leave_one_out),
      xray_positions(result, names)};
  const bool shares =
      std::ranges::all_of(result.rows, [](const auto& r) { return r.share.has_value(); });
  if (shares && !result.rows.empty()) {
    figures.insert(figures.begin() + 2, xray_shares(result, names));
  }
  if (!result.unseen.empty()) figures.push_back(xray_unseen(result, names));
  return figures;
}

namespace {

PlotSpec phasor_figure(const protocol::PairResult& result, const std::string& title,
                       const std::string& id) {
  PlotSpec plot{.id = "pair_phasors_" + id, .title = title + ": phasors"};
  plot.x.label = "real part (score)", plot.y.label = "imaginary part";
  Series path{.label = "planes, head to tail", .x = {0}, .y = {0}};
  path.points = widgets::PointShape::circle;
  for (const std::vector<double>& phasor : result.phasors) {
    path.x.push_back(path.x.back() + phasor[0]);
    path.y.push_back(path.y.back() + phasor[1]);
  }
  plot.series.push_back(std::move(path));
  plot.markers.push_back({.at = result.score - result.tail, .label = "score without tail"});
  plot.notes.push_back(result.formula);
  return plot;
}

// TAPA's one hand, and the circle that its tip is on at any distance: the real part is the score.
PlotSpec hand_figure(const protocol::PairResult& result, const std::string& title,
                     const std::string& id) {
  PlotSpec plot{.id = "pair_hand_" + id, .title = title + ": its hand"};
  plot.x.label = "real part (score)", plot.y.label = "imaginary part";
  const double length = std::abs(result.clock->amplitude), phase = result.clock->phase;
  Series circle{.label = "at other distances", .color = 7, .quiet = true};
  constexpr int kPoints = 96;
  for (int n = 0; n <= kPoints; ++n) {
    const double angle = 2 * std::numbers::pi * n / kPoints;
    circle.x.push_back(length * std::cos(angle)), circle.y.push_back(length * std::sin(angle));
  }
  Series hand{.label = "at distance " + std::to_string(result.true_distance),
              .x = {0, length * std::cos(phase)},
              .y = {0, length * std::sin(phase)}};
  hand.points = widgets::PointShape::circle;
  plot.series = {std::move(circle), std::move(hand)};
  plot.markers.push_back({.at = result.score, .label = "score"});
  plot.notes.push_back("length " + widgets::short_number(length) + ", angle " +
                       widgets::short_number(phase) +
                       " radians, turns and the sign of the amplitude (pi) included");
  return plot;
}

// Values on what lies below them: y is `under` + `values`, and the band between is filled.
Series stacked(const std::string& label, const std::vector<double>& under,
               const std::vector<double>& values, int color) {
  Series series{.label = label, .color = color};
  for (size_t n = 0; n < values.size(); ++n) {
    const double below = under.empty() ? 0 : under[n];
    series.y.push_back(below + values[n]);
    series.low.push_back(std::min(below, series.y.back()));
    series.high.push_back(std::max(below, series.y.back()));
  }
  return series;
}

double largest_size(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// What a score that planes do not turn is the sum of, against the distance: content, what distance
// adds, and CAPE's correction of both.
PlotSpec parts_figure(const protocol::PairResult& result, const std::string& title,
                      const std::string& id) {
  PlotSpec plot{.id = "pair_parts_" + id, .title = title + ": what the score is made of"};
  plot.x.label = "distance + 1 (tokens)", plot.x.of = widgets::Coordinate::distance,
  plot.x.zero = 1, plot.x.scale = widgets::Scale::log10;
  plot.y.label = "score";
  std::vector<double> x, score, content, bias, correction;
  for (const protocol::PairPoint& point : *result.curve) {
    x.push_back(double(point.distance) + 1);
    score.push_back(point.score);
    content.push_back(result.content);
    correction.push_back(point.correction.value_or(0));
    bias.push_back(point.base.value_or(point.score - result.content - correction.back()));
  }
  const bool corrects = result.correction.has_value(), based = result.base.has_value();
  // Of a form without a base, and without a turn of the content, rounding alone is left.
  constexpr double kRounding = 1e-4;
  const bool adds = !corrects || based || largest_size(bias) > kRounding * largest_size(score);
  plot.series.push_back(stacked("content", {}, content, 0));
  const auto add = [&](const std::string& label, const std::vector<double>& values) {
    const std::vector<double> under = plot.series.back().y;
    plot.series.push_back(stacked(label, under, values, int(plot.series.size())));
  };
  if (adds) add(based ? "base bias on it" : "what distance adds", bias);
  if (corrects) add("correction on that", correction);
  for (Series& series : plot.series) series.x = x;
  plot.markers.push_back({.at = double(result.true_distance) + 1, .label = "true distance"});
  plot.markers.push_back(
      {.at = double(result.trained) + 1, .label = "trained length", .beyond = true});
  plot.notes.push_back("each part stands on the ones before it; the last line is the score");
  if (!result.cut.empty()) plot.notes.push_back(result.cut);
  plot.notes.push_back(result.formula);
  return plot;
}

PlotSpec pair_curve(const protocol::PairResult& result, const std::string& title,
                    const std::string& id, bool weight) {
  PlotSpec plot{.id = (weight ? "pair_weight_" : "pair_score_") + id,
                .title = title + ": where the key would be read"};
  plot.x.label = "distance + 1 (tokens)", plot.x.of = widgets::Coordinate::distance,
  plot.x.zero = 1, plot.x.scale = widgets::Scale::log10;
  plot.y.label = weight ? "weight" : "score";
  Series series{.label = plot.y.label};
  for (const protocol::PairPoint& point : *result.curve) {
    series.x.push_back(double(point.distance) + 1);
    series.y.push_back(weight ? point.weight : point.score);
  }
  plot.series.push_back(std::move(series));
  plot.markers.push_back({.at = double(result.true_distance) + 1, .label = "true distance"});
  plot.markers.push_back(
      {.at = double(result.trained) + 1, .label = "trained length", .beyond = true});
  plot.notes.push_back("the other keys stay where they are");
  if (!result.cut.empty()) plot.notes.push_back(result.cut);
  plot.notes.push_back(result.formula);
  return plot;
}

}  // namespace

std::vector<PlotSpec> pair_figures(const protocol::PairResult& result, const ModelNames& names) {
  const std::string head = layer_name(result.layer) + "H" + std::to_string(result.head);
  const std::string title = names.short_name(result.model) + " " + head + ", query " +
                            std::to_string(result.query) + ", key " + std::to_string(result.key);
  const std::string id = names.file_name(result.model) + "_" + head;
  std::vector<PlotSpec> figures;
  if (!result.phasors.empty()) figures.push_back(phasor_figure(result, title, id));
  if (result.clock) figures.push_back(hand_figure(result, title, id));
  if (result.curve && result.phasors.empty() && !result.clock) {
    figures.push_back(parts_figure(result, title, id));
  }
  if (result.curve) {
    figures.push_back(pair_curve(result, title, id, false));
    figures.push_back(pair_curve(result, title, id, true));
  }
  return figures;
}

PlotSpec profile_figure(const protocol::ProfileResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "profile_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": positional and semantic score"};
  bool planes = true;
  for (const protocol::ProfileRow& row : result.rows) planes = planes && row.positional.has_value();
  plot.x.label = planes ? "positional score" : "positional score (over the row's deviation)";
  plot.y.label = "semantic score";
  std::map<int64_t, Series> by_layer;
  for (const protocol::ProfileRow& row : result.rows) {
    const auto& positional = planes ? row.positional : row.positional_row;
    if (!positional || !row.semantic) continue;
    Series& series = by_layer[row.layer];
    series.label = layer_name(row.layer), series.color = int(row.layer);
    series.kind = SeriesKind::scatter;
    series.x.push_back(positional->mean), series.y.push_back(row.semantic->mean);
    series.names.push_back(layer_name(row.layer) + "H" + std::to_string(row.head));
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
  for (size_t m = 0; m < models.size(); ++m) {
    const std::string& name = models[m];
    plot.x.ticks.push_back({double(m), name.starts_with("proof-") ? name.substr(6) : name});
    for (const auto& [metric, claim] : worst[name]) {
      if (claim == nullptr) continue;
      dots.x.push_back(double(m)), dots.y.push_back(off_by(*claim));
      dots.names.push_back(metric + " of " + layer_name(claim->layer) + "H" +
                           std::to_string(claim->head));
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

// ---- several models -----------------------------------------------------------------------------

namespace {

Series series_of(const std::string& model, const ModelNames& names) {
  Series series;
  series.label = names.short_name(model), series.color = names.color(model);
  return series;
}

// The formula and texts of each result, and what made it, once each.
template <class Result>
void add_what_made(PlotSpec& plot, const std::vector<Result>& results, const ModelNames& names) {
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
void mark_trained(PlotSpec& plot, const std::vector<Result>& results, double beyond) {
  std::vector<int64_t> marked;
  for (const Result& result : results) {
    if (std::find(marked.begin(), marked.end(), result.trained) != marked.end()) continue;
    marked.push_back(result.trained);
    plot.markers.push_back({.at = double(result.trained) + beyond, .label = "trained length"});
  }
}

}  // namespace

PlotSpec addressing_of_models(const std::vector<protocol::AddressingResult>& results,
                              const ModelNames& names) {
  PlotSpec plot{.id = "addressing", .title = "What the scores of heads are made of"};
  plot.x.label = "key + pair / 2 (share)";
  plot.y.label = "pair x 0.87 (share)";
  plot.x.low = -0.05, plot.x.high = 1.05, plot.y.low = -0.05, plot.y.high = 0.95;
  plot.series.push_back(triangle());
  for (const protocol::AddressingResult& result : results) {
    Series dots = series_of(result.model, names), whiskers;
    for (const protocol::AddressingRow& row : result.rows) {
      add_head(row, dots.label + " " + layer_name(row.layer) + "H" + std::to_string(row.head), dots,
               whiskers);
    }
    plot.series.push_back(std::move(dots)), plot.series.push_back(std::move(whiskers));
  }
  plot.notes.push_back(kDotsAndWhiskers);
  add_what_made(plot, results, names);
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
    dots.kind = SeriesKind::scatter;
    for (const protocol::ProfileRow& row : result.rows) {
      const auto& positional = planes ? row.positional : row.positional_row;
      if (!positional || !row.semantic) continue;
      dots.x.push_back(positional->mean), dots.y.push_back(row.semantic->mean);
      dots.names.push_back(dots.label + " " + layer_name(row.layer) + "H" +
                           std::to_string(row.head));
    }
    plot.series.push_back(std::move(dots));
  }
  plot.notes.push_back("a dot is a head");
  add_what_made(plot, results, names);
  return plot;
}

PlotSpec acuity_of_models(const std::vector<protocol::AcuityResult>& results,
                          const ModelNames& names) {
  PlotSpec plot{.id = "acuity", .title = "How finely distance is needed"};
  plot.x.label = "distance (tokens)", plot.x.of = widgets::Coordinate::distance,
  plot.x.scale = widgets::Scale::log10;
  plot.y.label = "change of loss (bits a token)";
  for (const protocol::AcuityResult& result : results) {
    Series curve = acuity_figure(result, names).series.front();
    curve.color = names.color(result.model);
    plot.series.push_back(std::move(curve));
  }
  plot.markers.push_back({.at = 0, .vertical = false});
  mark_trained(plot, results, 0);
  plot.notes.push_back("a step is a band, over rows that see half of it");
  add_what_made(plot, results, names);
  return plot;
}

PlotSpec demand_of_models(const std::vector<protocol::DemandResult>& results,
                          const ModelNames& names) {
  PlotSpec plot{.id = "demand", .title = "At which distances heads want other weights"};
  plot.x.label = "distance + 1 (tokens)", plot.x.of = widgets::Coordinate::distance,
  plot.x.zero = 1, plot.x.scale = widgets::Scale::log10;
  plot.y.label = "sum of |demand| over heads (bits a token per unit of score)";
  for (const protocol::DemandResult& result : results) {
    Series curve = series_of(result.model, names);
    for (size_t n = 0; n < result.edges.size(); ++n) {
      double sum = 0;
      for (const protocol::DemandRow& row : result.rows) sum += std::abs(row.demand[n].mean);
      curve.x.push_back(double(result.edges[n]) + 1), curve.y.push_back(sum);
    }
    plot.series.push_back(std::move(curve));
  }
  mark_trained(plot, results, 1);
  plot.notes.push_back("a point is a bucket's sum, at its first distance");
  add_what_made(plot, results, names);
  return plot;
}

PlotSpec xray_of_models(const std::vector<protocol::XrayResult>& results, const ModelNames& names) {
  PlotSpec plot{.id = "xray", .title = "Loss by position, plain and treated"};
  plot.x.label = "row (tokens)", plot.x.of = widgets::Coordinate::position,
  plot.y.label = "loss (bits a token)";
  for (const protocol::XrayResult& result : results) {
    Series plain = series_of(result.model, names);
    Series all = plain;
    all.label += ", all heads: " + result.treatment + " " + std::to_string(result.limit);
    all.quiet = true;
    for (const protocol::XrayPosition& block : result.positions) {
      plain.x.push_back(double(block.begin)), plain.y.push_back(block.plain);
      all.x.push_back(double(block.begin)), all.y.push_back(block.all);
    }
    plot.series.push_back(std::move(plain)), plot.series.push_back(std::move(all));
  }
  mark_trained(plot, results, 0);
  add_what_made(plot, results, names);
  return plot;
}

PlotSpec pair_of_models(const std::vector<protocol::PairResult>& results, const ModelNames& names) {
  const protocol::PairResult& first = results.front();
  PlotSpec plot{.id = "pair",
                .title = layer_name(first.layer) + "H" + std::to_string(first.head) + ", query " +
                         std::to_string(first.query) + ", key " + std::to_string(first.key) +
                         ": where the key would be read"};
  plot.x.label = "distance + 1 (tokens)", plot.x.of = widgets::Coordinate::distance,
  plot.x.zero = 1, plot.x.scale = widgets::Scale::log10;
  plot.y.label = "weight";
  for (const protocol::PairResult& result : results) {
    if (!result.curve) {
      plot.notes.push_back(names.short_name(result.model) + ": " + result.why);
      continue;
    }
    Series curve = series_of(result.model, names);
    for (const protocol::PairPoint& point : *result.curve) {
      curve.x.push_back(double(point.distance) + 1), curve.y.push_back(point.weight);
    }
    if (!result.cut.empty()) {
      plot.notes.push_back(names.short_name(result.model) + ": " + result.cut);
    }
    plot.series.push_back(std::move(curve));
  }
  plot.markers.push_back({.at = double(first.true_distance) + 1, .label = "true distance"});
  mark_trained(plot, results, 1);
  plot.notes.push_back("the other keys stay where they are");
  add_what_made(plot, results, names);
  return plot;
}

}  // namespace phasescope::app
