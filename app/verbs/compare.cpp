#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class CompareVerb : public Verb {
 public:
  std::string name() const override { return "compare"; }
  std::string help() const override {
    return "the same text through two models: divergence a head, loss";
  }
  std::string example() const override { return "phasescope compare rope tapa"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [compare, json, tensors] = run.ask<protocol::CompareResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(compare)};
    output.tables = {
        table_of<protocol::HeadDivergence>("", output.result["heads"],
                                           {"layer", "head", "js_divergence", "low", "high", "n"}),
        losses_table(compare)};
    output.figures = {divergence_figure(compare, names_in(compare))};
    if (auto difference = largest_difference(run, compare, request_)) {
      output.figures.push_back(std::move(*difference));
    }
    return output;
  }

 private:
  protocol::CompareRequest request_;
};

}  // namespace

std::unique_ptr<Verb> compare_verb() { return std::make_unique<CompareVerb>(); }

}  // namespace phasescope::app
