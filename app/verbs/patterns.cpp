#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class PatternsVerb : public Verb {
 public:
  std::string name() const override { return "patterns"; }
  std::string help() const override { return "PE dot products, spectra, bias curves, drift"; }
  std::string example() const override {
    return "phasescope patterns tape --against rope --out out/patterns\n"
           "phasescope patterns cape_kerple --queries 64,255 --out out/cape";
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [patterns, json, tensors] = run.ask<protocol::PatternsResult>(request_);
    Output output{.result = std::move(json),
                  .provenance = provenance_of(patterns),
                  .tensors = std::move(tensors)};
    std::vector<std::string> models = {patterns.model};
    if (!patterns.against.empty()) models.push_back(patterns.against);
    const ModelNames names(models);
    auto figures = figures_of(patterns, output.tensors, names);
    for (GroupedFigure& one : more_figures_of(patterns, output.tensors, names)) {
      figures.push_back(std::move(one));
    }
    output.figures = plots_of(std::move(figures));
    output.grids = grids_of(patterns, output.tensors, names);
    if (!patterns.layers.empty()) output.tables.push_back(states_table(patterns));
    if (!patterns.against_layers.empty()) {
      output.tables.push_back(against_states_table(patterns));
    }
    if (!patterns.bias.empty()) output.tables.push_back(bias_table(patterns));
    if (!patterns.adaptive.empty()) output.tables.push_back(adaptive_table(patterns));
    if (!patterns.surfaces.empty()) {
      output.tables.push_back(table_of<protocol::SurfaceOfHead>(
          "f of a content score and a bias: shares of its variance", output.result["surfaces"],
          {"layer", "head", "affine", "content", "bias", "interaction"}));
    }
    if (output.tables.empty()) output.tables.push_back({});
    for (const std::string& note :
         {patterns.formula, patterns.why_empty, patterns.provenance.note}) {
      if (!note.empty()) output.tables.back().notes.push_back(note);
    }
    if (!patterns.rows.empty()) {
      output.tables.back().notes.push_back(
          "rows of single queries are curves: --json and --out have them");
      output.tables.push_back(bias_rows_table(patterns));
    }
    return output;
  }

 private:
  protocol::PatternsRequest request_;
};

}  // namespace

std::unique_ptr<Verb> patterns_verb() { return std::make_unique<PatternsVerb>(); }

}  // namespace phasescope::app
