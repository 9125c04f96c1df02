#include <algorithm>
#include <cmath>
#include <limits>

#include "app/figures/intervals.h"
#include "app/figures/intervention_figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class HeadsVerb : public Verb {
 public:
  std::string name() const override { return "heads"; }
  std::string help() const override { return "every head statistic, over one text or a corpus"; }
  std::string example() const override { return "phasescope heads tapa --prompt 'a b a b a b'"; }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    options.option("--sort", sort_, "metric to sort by, highest first");
    options.flag("--ascending", ascending_, "with --sort: lowest first");
  }
  Output run(Run& run) override {
    if (ascending_ && sort_.empty()) {
      throw formats::bad_usage("nothing is sorted without --sort METRIC", "--ascending");
    }
    request_.thumbnails = kThumbnailSide;
    auto [heads, json, tensors] = run.ask<protocol::HeadsResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(heads)};
    Table table = heads_table(heads, sorted(output.result["rows"]));
    for (const protocol::MetricInfo& metric : heads.metrics) {
      table.notes.push_back(metric.key + ": " + metric.formula +
                            (metric.note.empty() ? "" : " (" + metric.note + ")"));
    }
    for (const auto& [key, value] : heads.model_values) {
      table.notes.push_back(key + " of the model: " + with_ends(value) +
                            ", interval: " + words_of(value));
    }
    if (!heads.stack.empty()) table.notes.push_back(stack_note(heads.stack));
    table.notes.push_back(heads.provenance.note);
    output.tables = {std::move(table)};
    const ModelNames names({heads.model});
    if (Table profiles = distance_profiles_table(heads); !profiles.rows.empty()) {
      output.tables[0].notes.push_back("distance_profile is a curve: --out FOLDER draws it");
      output.tables.push_back(std::move(profiles));
      Table bands = profile_bands_table(heads);
      if (!bands.rows.empty()) output.tables.push_back(std::move(bands));
      output.figures = distance_profile_figures(heads, names);
    }
    const std::string shown = sort_.empty() ? "entropy" : sort_;
    for (const protocol::TensorRef& tensor : tensors) {
      if (tensor.name == "thumbnails") {
        output.grids.push_back(head_grid_figure(heads, grid_of(tensor), shown, names));
      }
      if (tensor.name == "js_divergence") {
        output.figures.push_back(heads_divergence_figure(heads, grid_of(tensor), names));
      }
    }
    for (const protocol::MetricInfo& metric : heads.metrics) {
      if (!has_values(heads, metric.key)) continue;
      output.figures.push_back(metric_map_figure(heads, metric.key, names));
    }
    return output;
  }

 private:
  // Heads without the metric stand last in either direction.
  nlohmann::json sorted(nlohmann::json rows) const {
    if (sort_.empty() || rows.empty()) return rows;
    const auto has = [&](const nlohmann::json& row) { return row.contains(sort_); };
    if (std::none_of(rows.begin(), rows.end(), has)) {
      throw formats::bad_usage("no metric that is shown is called \"" + sort_ + "\"", "--sort");
    }
    const auto rank = [&](const nlohmann::json& row) {
      if (!has(row)) return -std::numeric_limits<double>::infinity();
      const nlohmann::json& cell = row.at(sort_);
      const nlohmann::json* number = protocol::value_of_interval(cell);
      const double value = protocol::detail::read_double(number != nullptr ? *number : cell);
      if (std::isnan(value)) return -std::numeric_limits<double>::infinity();
      return ascending_ ? -value : value;
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
    return rows;
  }

  // The side of the pictures that the figure of all heads is made of.
  static constexpr std::int64_t kThumbnailSide = 64;

  protocol::HeadsRequest request_;
  std::string sort_;
  bool ascending_ = false;
};

}  // namespace

std::unique_ptr<Verb> heads_verb() { return std::make_unique<HeadsVerb>(); }

}  // namespace phasescope::app
