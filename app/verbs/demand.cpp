#include "protocol/messages/demand.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class DemandVerb : public Verb {
 public:
  std::string name() const override { return "demand"; }
  std::string help() const override {
    return "at which distances each head wants more weight, and the bias that would repair it";
  }
  std::string example() const override { return "phasescope demand rope --texts 0:70:20"; }
  std::string missing_forms() const override { return request_.fit ? "" : kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    if (others_.any() && request_.fit) {
      throw formats::bad_usage("a bias is fitted for one model at a time", "--fit");
    }
    const auto answers = others_.ask<protocol::DemandResult>(run, request_);
    Output output = question_output(answers, names_of(answers));
    output.without_tensors =
        "no bias by distance lowers the loss of texts that it was not fitted on, so no table is "
        "written";
    return output;
  }

 private:
  protocol::DemandRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> demand_verb() { return std::make_unique<DemandVerb>(); }

}  // namespace phasescope::app
