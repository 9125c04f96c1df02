#include "app/report/report.h"

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class ReportVerb : public Verb {
 public:
  std::string name() const override { return "report"; }
  std::string help() const override {
    return "one self-contained page with every measurement, its figures and data as files";
  }
  std::string example() const override { return "phasescope report rope tapa --out out/report"; }
  bool exports() const override { return false; }
  void declare(Options& options) override {
    options.arguments("MODEL", models_, kModelsHelp);
    input_.declare(options);
    set_.declare(options);
  }
  Output run(Run& run) override {
    if (run.common().out.empty()) throw formats::bad_usage("report needs a folder", "--out");
    ReportOptions options{.folder = run.common().out};
    for (const auto& model : models_param(models_)) {
      options.models.push_back(set_.applied_to(model));
    }
    input_.add_to(options.input);
    return make_report(run, options);
  }

 private:
  std::vector<std::string> models_;
  InputOptions input_;
  SetOptions set_;
};

}  // namespace

std::unique_ptr<Verb> report_verb() { return std::make_unique<ReportVerb>(); }

}  // namespace phasescope::app
