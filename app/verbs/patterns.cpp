#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class PatternsVerb : public Verb {
 public:
  std::string name() const override { return "patterns"; }
  std::string help() const override { return "PE dot products, spectra, bias curves, drift"; }
  std::string example() const override { return "phasescope patterns tape --out out/patterns"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [patterns, json, tensors] = run.ask<protocol::PatternsResult>(request_);
    Output output{.result = std::move(json),
                  .provenance = provenance_of(patterns),
                  .tensors = std::move(tensors)};
    add_figures(patterns, output);
    Table table =
        table_of("", output.result["layers"], {"layer", "mean_abs_z", "sd_abs_z", "drift"});
    for (const std::string& note : {patterns.formula, patterns.why_empty}) {
      if (!note.empty()) table.notes.push_back(note);
    }
    output.tables = {std::move(table)};
    return output;
  }

 private:
  static void add_figures(const protocol::PatternsResult& patterns, Output& output) {
    const std::string prefix = "pe_dot.";
    for (const protocol::TensorRef& tensor : output.tensors) {
      if (tensor.name.rfind(prefix, 0) != 0) continue;
      const int64_t layer = std::stoll(tensor.name.substr(prefix.size()));
      output.figures.push_back(pe_dot_figure(patterns, layer, grid_of(tensor)));
    }
    if (!patterns.layers.empty()) {
      output.figures.push_back(pe_by_distance_figure(patterns));
      // One layer's state has no drift to show: fixed positions are the same in every layer.
      if (patterns.layers.size() > 1) output.figures.push_back(state_drift_figure({&patterns, 1}));
    }
    if (!patterns.frequencies.empty()) output.figures.push_back(frequencies_figure(patterns));
    int64_t last = -1;
    for (const protocol::BiasCurve& curve : patterns.bias) {
      if (curve.layer == last) continue;
      last = curve.layer;
      output.figures.push_back(bias_curves_figure(patterns, last));
    }
  }

  protocol::PatternsRequest request_;
};

}  // namespace

std::unique_ptr<Verb> patterns_verb() { return std::make_unique<PatternsVerb>(); }

}  // namespace phasescope::app
