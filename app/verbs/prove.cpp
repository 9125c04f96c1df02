#include "protocol/messages/prove.h"

#include <algorithm>

#include "app/figures/question_figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class ProveVerb : public Verb {
 public:
  std::string name() const override { return "prove"; }
  std::string help() const override {
    return "models whose heads are known exactly, against what is measured";
  }
  std::string example() const override {
    return "phasescope prove proof-induction\n"
           "phasescope prove proof-sink --make out/proofs\n"
           "phasescope prove out/proofs";
  }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [proof, json, tensors] = run.ask<protocol::ProveResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(proof)};
    Table table = table_of(
        "", output.result["claims"],
        {"model", "metric", "input", "layer", "head", "value", "measured", "tolerance", "holds"});
    const auto fails = std::ranges::count(proof.claims, false, &protocol::Claim::holds);
    table.notes.push_back(std::to_string(proof.claims.size()) + " claims, " +
                          std::to_string(fails) + " fail");
    output.tables = {std::move(table)};
    output.figures = {prove_figure(proof)};
    output.status = fails > 0 ? 1 : 0;
    return output;
  }

 private:
  protocol::ProveRequest request_;
};

}  // namespace

std::unique_ptr<Verb> prove_verb() { return std::make_unique<ProveVerb>(); }

}  // namespace phasescope::app
