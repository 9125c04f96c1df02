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
    output.figures = plots_of(figures_of(patterns, output.tensors, ModelNames({patterns.model})));
    if (!patterns.layers.empty()) output.tables.push_back(states_table(patterns));
    if (!patterns.bias.empty()) output.tables.push_back(bias_table(patterns));
    if (output.tables.empty()) output.tables.push_back({});
    for (const std::string& note :
         {patterns.formula, patterns.why_empty, patterns.provenance.note}) {
      if (!note.empty()) output.tables.back().notes.push_back(note);
    }
    return output;
  }

 private:
  protocol::PatternsRequest request_;
};

}  // namespace

std::unique_ptr<Verb> patterns_verb() { return std::make_unique<PatternsVerb>(); }

}  // namespace phasescope::app
