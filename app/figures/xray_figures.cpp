#include <algorithm>

#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "app/figures/question_parts.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

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
  add_head_map(plot, values, "loss returned (bits a token)");
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
  const std::size_t step = 1 + result.rows.size() / 17;
  for (std::size_t n = 0; n < result.rows.size(); ++n) {
    const protocol::XrayRow& row = result.rows[n];
    const std::string name = protocol::name_of_head(row.layer, row.head);
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
  plot.x.label = "position (token)", plot.x.of = widgets::Coordinate::position,
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
  map.values.assign(std::size_t(map.rows) * std::size_t(map.cols), 0);
  for (std::size_t h = 0; h < result.unseen.size(); ++h) {
    const protocol::XrayUnseen& row = result.unseen[h];
    for (std::size_t plane = 0; plane < row.planes.size(); ++plane) {
      map.values[plane * result.unseen.size() + h] = float(row.planes[plane]);
    }
    plot.x.ticks.push_back({double(h) + 0.5, protocol::name_of_head(row.layer, row.head)});
  }
  map.value_label = "weight";
  map.range = {0, 1};
  map.row_name = "plane", map.col_name = "head";
  plot.x.label = "head", plot.y.label = "plane";  // heads of all layers: its numbers are none
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

PlotSpec xray_of_models(const std::vector<protocol::XrayResult>& results, const ModelNames& names) {
  PlotSpec plot{.id = "xray", .title = "Loss by position, plain and treated"};
  plot.x.label = "position (token)", plot.x.of = widgets::Coordinate::position,
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

}  // namespace phasescope::app
