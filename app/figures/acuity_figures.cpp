#include <cmath>
#include <limits>

#include "app/figures/distance_axis.h"
#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "app/figures/question_parts.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

namespace {

// The band in which a head or layer alone changes the loss most; -1 where none has a number.
int strongest_band(const protocol::AcuityResult& result) {
  int best = -1;
  double largest = -1;
  for (const protocol::AcuityRow& row : result.rows) {
    for (std::size_t n = 0; n < row.bands.size(); ++n) {
      if (!row.bands[n].change_seen) continue;
      const double size = std::abs(row.bands[n].change_seen->mean);
      if (size > largest) largest = size, best = int(n);
    }
  }
  return best;
}

// One band, heads (or layers) one at a time.
PlotSpec acuity_heads(const protocol::AcuityResult& result, const ModelNames& names,
                      std::size_t band) {
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
  add_head_map(plot, values, "change of loss (bits a token)");
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
  if (band >= 0) figures.push_back(acuity_heads(result, names, std::size_t(band)));
  return figures;
}

PlotSpec acuity_figure(const protocol::AcuityResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "acuity_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": how finely distance is needed"};
  plot.x = log_distance_axis();
  plot.y.label = "change of loss (bits a token)";
  Series series{.label = names.short_name(result.model)};
  for (const protocol::AcuityBand& band : result.bands) {
    if (!band.change_seen) continue;
    if (!series.x.empty()) {  // bands overlap: a line from one to the next would be no curve
      series.x.push_back(std::numeric_limits<double>::quiet_NaN());
      series.y.push_back(std::numeric_limits<double>::quiet_NaN());
      add_ends(series, {}, {});
    }
    for (const std::int64_t end : {band.low, band.high}) {
      series.x.push_back(on_log_axis(double(end)));
      series.y.push_back(band.change_seen->mean);
      add_ends(series, band.change_seen->low, band.change_seen->high);
    }
  }
  plot.series.push_back(std::move(series));
  plot.markers.push_back({.at = 0, .vertical = false});
  plot.markers.push_back({.at = on_log_axis(double(result.trained)), .label = "trained length"});
  plot.notes.push_back("a step is a band, over rows that see half of it; n = " +
                       std::to_string(result.texts.size()) + " texts");
  plot.notes.push_back(result.formula);
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

PlotSpec acuity_of_models(const std::vector<protocol::AcuityResult>& results,
                          const ModelNames& names) {
  PlotSpec plot{.id = "acuity", .title = "How finely distance is needed"};
  plot.x = log_distance_axis();
  plot.y.label = "change of loss (bits a token)";
  for (const protocol::AcuityResult& result : results) {
    Series curve = acuity_figure(result, names).series.front();
    curve.color = names.color(result.model);
    plot.series.push_back(std::move(curve));
  }
  plot.markers.push_back({.at = 0, .vertical = false});
  mark_trained(plot, results, on_log_axis(0));
  plot.notes.push_back("a step is a band, over rows that see half of it");
  add_what_made(plot, results, names);
  return plot;
}

}  // namespace phasescope::app
