#include "protocol/messages/profile.h"

#include "app/outputs/question_output.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "app/verbs/verb.h"

namespace phasescope::app {

namespace {

class ProfileVerb : public Verb {
 public:
  std::string name() const override { return "profile"; }
  std::string help() const override {
    return "positional and semantic score of every head (arXiv 2609.39929)";
  }
  std::string example() const override { return "phasescope profile rope --texts 0:70:35"; }
  std::string missing_forms() const override { return kNoArrays; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::ProfileResult>(run, request_);
    return question_output(answers, names_of(answers));
  }

 private:
  protocol::ProfileRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> profile_verb() { return std::make_unique<ProfileVerb>(); }

}  // namespace phasescope::app
