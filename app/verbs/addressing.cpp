#include "protocol/messages/addressing.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class AddressingVerb : public Verb {
 public:
  std::string name() const override { return "addressing"; }
  std::string help() const override {
    return "how much of a head's scores comes from distance, from the key, and from the pair alone";
  }
  std::string example() const override { return "phasescope addressing rope --texts 0:70:20"; }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::AddressingResult>(run, request_);
    return question_output(answers, names_of(answers));
  }

 private:
  protocol::AddressingRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> addressing_verb() { return std::make_unique<AddressingVerb>(); }

}  // namespace phasescope::app
