#include "protocol/messages/theory.h"

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class TheoryVerb : public Verb {
 public:
  std::string name() const override { return "theory"; }
  std::string help() const override { return "theorem checks with verdicts"; }
  std::string example() const override { return "phasescope theory tape --check tape.shift"; }
  std::string missing_forms() const override { return list_ ? kTablesAlone : kNoArrays; }
  void declare(Options& options) override {
    options.request(request_, Options::Arguments::optional);
    options.flag("--list", list_, "the checks, what each states and what it needs");
  }
  Output run(Run& run) override {
    const std::set<std::string> asked = given(request_);
    if (list_ && !asked.empty()) {
      throw formats::bad_usage("the list has all checks and reads no model", "--list",
                               "give it alone");
    }
    if (list_) return run_list(run);
    if (request_.models.empty()) check_alone(asked);
    auto [theory, json, tensors] = run.ask<protocol::TheoryResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(theory)};
    output.tables = {table_of<protocol::CheckResult>(
        "", output.result["checks"],
        {"id", "model", "verdict", "value", "bound", "noise", "samples", "detail"})};
    for (const protocol::CheckResult& check : theory.checks) {
      if (check.verdict == "fails") output.status = 1;
      for (widgets::PlotSpec& plot : check_figures(check, names_in(theory))) {
        output.figures.push_back(std::move(plot));
      }
    }
    return output;
  }

 private:
  // Without a model checks read nothing, and what would be read of it is refused.
  static void check_alone(const std::set<std::string>& asked) {
    for (const std::string& key : asked) {
      if (key == "check" || key == "pairs" || key == "seed" || key == "threads" ||
          key == "backend") {
        continue;
      }
      throw formats::bad_usage("this is read with a model, and none is named",
                               key == "input" ? "the text" : protocol::option_name(key),
                               "name the MODEL");
    }
  }

  static Output run_list(Run& run) {
    Output output{.result = run.call(protocol::TheoryListRequest{}).result};
    output.tables = {
        table_of("", output.result["checks"], {"id", "title", "needs", "statement", "source"})};
    return output;
  }

  protocol::TheoryRequest request_;
  bool list_ = false;
};

}  // namespace

std::unique_ptr<Verb> theory_verb() { return std::make_unique<TheoryVerb>(); }

}  // namespace phasescope::app
