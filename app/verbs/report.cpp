#include "app/report/report.h"

#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class ReportVerb : public Verb {
 public:
  std::string name() const override { return "report"; }
  std::string help() const override {
    return "one self-contained page with every measurement, its figures and data as files";
  }
  std::string example() const override { return "phasescope report rope --out out/report"; }
  bool exports() const override { return false; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    if (run.common().out.empty()) throw formats::bad_usage("report needs a folder", "--out");
    for (std::string& model : request_.models) {
      model = with_settings(model, request_.running.set);
    }
    request_.running.set = {};
    return make_report(run, request_, run.common().out);
  }

 private:
  ReportRequest request_;
};

}  // namespace

std::unique_ptr<Verb> report_verb() { return std::make_unique<ReportVerb>(); }

}  // namespace phasescope::app
