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
    Table losses{.title = "loss (nats a token)", .columns = {"model", "loss", "low", "high"}};
    for (const auto& [name, value] : compare.loss) {
      const std::string label = name == "a" ? compare.a : name == "b" ? compare.b : name;
      losses.rows.push_back({{"model", label}, {"loss", protocol::detail::write_double(value)}});
      if (name != "difference") continue;
      losses.rows.back()["low"] = protocol::to_json_form(compare.loss_difference.low);
      losses.rows.back()["high"] = protocol::to_json_form(compare.loss_difference.high);
    }
    losses.notes.push_back("difference: b - a on the same tokens; interval: " +
                           words_of(compare.loss_difference));
    losses.notes.push_back(compare.provenance.note);
    output.tables = {table_of("", output.result["heads"],
                              {"layer", "head", "js_divergence", "low", "high", "n"}),
                     std::move(losses)};
    output.figures = {divergence_figure(compare)};
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
