#include "protocol/messages/cost.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class CostVerb : public Verb {
 public:
  std::string name() const override { return "cost"; }
  std::string help() const override { return "FLOPs, MACs, parameters and memory at a length"; }
  std::string example() const override { return "phasescope cost rope --length 1024"; }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::CostResult>(run, request_);
    return question_output(answers, names_of(answers));
  }

 private:
  protocol::CostRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> cost_verb() { return std::make_unique<CostVerb>(); }

}  // namespace phasescope::app
