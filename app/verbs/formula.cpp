#include "protocol/messages/formula.h"

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "formats/text_input.h"

namespace phasescope::app {

namespace {

class FormulaVerb : public Verb {
 public:
  std::string name() const override { return "formula"; }
  std::string help() const override {
    return "a score of your own: its parameters and their units, how it runs, what it costs";
  }
  std::string example() const override {
    return "phasescope formula 'param m[head] ~ slopes; score = content - m*lam' --check";
  }
  std::string missing_forms() const override { return kTablesAlone; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    if (request_.expression.empty()) {
      throw formats::bad_usage("no formula is given", "FILE", "name a file, or write score = ...");
    }
    if (request_.expression.find('=') == std::string::npos) {
      const std::string file = request_.expression;
      request_.expression = formats::read_text_file(file, 1 << 16);
      const std::size_t broken = formats::first_invalid_utf8(request_.expression);
      if (broken < request_.expression.size()) {
        throw formats::bad_input(
            "the formula is not UTF-8 from its byte " + std::to_string(broken) + " on", file);
      }
    }
    auto [formula, json, tensors] = run.ask<protocol::FormulaResult>(request_);
    Output output{.result = std::move(json)};
    Table facts = facts_table(
        "", output.result, {"kind", "fused", "why", "shift_invariant", "length", "macs", "flops"});
    facts.counts = {"macs", "flops"};
    for (const std::string& warning : formula.warnings) facts.notes.push_back(warning);
    output.tables = {std::move(facts)};
    if (!formula.parameters.empty()) {
      output.tables.push_back(table_of(
          "parameters, one set a layer unless they are shared", output.result["parameters"],
          {"name", "shape", "count", "unit", "start", "low", "high", "shared"}));
    }
    if (formula.check) {
      output.tables.push_back(facts_table("check, in float64 over the largest score",
                                          output.result["check"],
                                          {"verdict", "both_ways", "slopes", "shift", "why"}));
      if (formula.check->verdict != "holds") output.status = 1;
    }
    return output;
  }

 private:
  protocol::FormulaRequest request_;
};

}  // namespace

std::unique_ptr<Verb> formula_verb() { return std::make_unique<FormulaVerb>(); }

}  // namespace phasescope::app
