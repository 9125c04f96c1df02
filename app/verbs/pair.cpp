#include "protocol/messages/pair.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class PairVerb : public Verb {
 public:
  std::string name() const override { return "pair"; }
  std::string help() const override {
    return "one pair's phasors, and where the key would have to stand to be read";
  }
  std::string example() const override {
    return "phasescope pair rope --head L1H0 --query 40 --key 12";
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [pair, json, tensors] = run.ask<protocol::PairResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(pair)};
    const ModelNames names({pair.model});
    Table table = facts_table("", output.result,
                              {"true_distance", "score", "weight", "content", "positional", "rest",
                               "tail", "best_distance", "share_above", "why"});
    table.notes.push_back(pair.formula);
    add_notes(table.notes, std::vector{pair.provenance}, names);
    output.tables = {std::move(table)};
    if (pair.curve) {
      Table curve = table_of("", output.result["curve"], {"distance", "score", "weight"});
      curve.for_files = true;
      output.tables.push_back(std::move(curve));
    }
    output.figures = pair_figures(pair, names);
    return output;
  }

 private:
  protocol::PairRequest request_;
};

}  // namespace

std::unique_ptr<Verb> pair_verb() { return std::make_unique<PairVerb>(); }

}  // namespace phasescope::app
