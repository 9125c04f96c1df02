#include "protocol/messages/pair.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class PairVerb : public Verb {
 public:
  std::string name() const override { return "pair"; }
  std::string help() const override {
    return "one pair's phasors, and where the key would have to stand to be read";
  }
  std::string example() const override {
    return "phasescope pair rope --head L1H0 --query 40 --key 12";
  }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::PairResult>(run, request_);
    return question_output(answers, names_of(answers));
  }

 private:
  protocol::PairRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> pair_verb() { return std::make_unique<PairVerb>(); }

}  // namespace phasescope::app
