#include "protocol/messages/acuity.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class AcuityVerb : public Verb {
 public:
  std::string name() const override { return "acuity"; }
  std::string help() const override {
    return "how finely the model needs to know distance, and at which distances";
  }
  std::string example() const override {
    return "phasescope acuity rope --texts 0:70:35 --length 64 --seeds 1 --bands 1:3,4:9,16:33";
  }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::AcuityResult>(run, request_);
    return question_output(answers, names_of(answers));
  }

 private:
  protocol::AcuityRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> acuity_verb() { return std::make_unique<AcuityVerb>(); }

}  // namespace phasescope::app
