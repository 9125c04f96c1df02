#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class TheoryVerb : public Verb {
 public:
  std::string name() const override { return "theory"; }
  std::string help() const override { return "theorem checks with verdicts"; }
  std::string example() const override { return "phasescope theory tape --check tape.shift"; }
  void declare(Options& options) override {
    options.arguments("MODEL", models_, kModelsHelp, false);
    input_.declare(options);
    set_.declare(options);
    options.option("--check", checks_, "ids, comma separated (default: all)");
    options.flag("--list", list_, "the checks and their statements");
  }
  Output run(Run& run) override {
    if (list_) return run_list(run);
    if (models_.empty()) throw formats::bad_usage("theory needs a model", "MODEL", "or --list");
    nlohmann::json params{{"models", models_param(models_)}};
    if (!checks_.empty()) params["check"] = split_list(checks_);
    input_.add_to(params);
    set_.add_to(params);
    protocol::Reply reply = run.call("theory", std::move(params));
    const auto theory = result_of<protocol::TheoryResult>(reply);
    Output output{.result = std::move(reply.result)};
    Table table =
        table_of("", output.result["checks"],
                 {"id", "model", "verdict", "value", "bound", "noise", "samples", "detail"});
    output.tables = {std::move(table)};
    for (const protocol::CheckResult& check : theory.checks) {
      if (check.verdict == "fails") output.status = 1;
      for (widgets::PlotSpec& plot : check_figures(check))
        output.figures.push_back(std::move(plot));
    }
    return output;
  }

 private:
  static Output run_list(Run& run) {
    Output output{.result = run.call("theory.list", nlohmann::json::object()).result};
    output.tables = {table_of("", output.result["checks"], {"id", "statement", "source"})};
    return output;
  }

  std::vector<std::string> models_;
  std::string checks_;
  bool list_ = false;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> theory_verb() { return std::make_unique<TheoryVerb>(); }

}  // namespace phasescope::app
