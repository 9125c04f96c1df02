#include "protocol/messages/xray.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class XrayVerb : public Verb {
 public:
  std::string name() const override { return "xray"; }
  std::string help() const override {
    return "which heads fail past the trained length, and the smallest repair";
  }
  std::string example() const override { return "phasescope xray rope --texts 0:70:35 --by layer"; }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::XrayResult>(run, request_);
    return question_output(answers, names_of(answers));
  }

 private:
  protocol::XrayRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> xray_verb() { return std::make_unique<XrayVerb>(); }

}  // namespace phasescope::app
