#pragma once
// A request about one model asked of several: `MODEL...` on the command line.
#include <string>
#include <vector>

#include "app/cli/options.h"
#include "app/cli/run.h"
#include "app/outputs/several_answers.h"
#include "protocol/messages/models.h"

namespace phasescope::app {

class FurtherModels {
 public:
  // After the request's own argument.
  void declare(Options& options) {
    options.arguments("OTHERS", models_, "further models, in the same table and figure", false);
  }
  bool any() const { return !models_.empty(); }

  // The request's answer, then that of each further model. One that is not there or that is named
  // twice is refused before anything is measured.
  template <class Result, class Request>
  std::vector<Answered<Result>> ask(Run& run, Request request) const {
    std::vector<Answered<Result>> answers;
    if (any()) {
      protocol::FindRequest find{{request.model}};
      find.models.insert(find.models.end(), models_.begin(), models_.end());
      protocol::request_of<protocol::FindRequest>(protocol::params_of(find));  // no name twice
      // What a configuration costs is counted without a model.
      if constexpr (requires { request.running; }) run.call(find);
    }
    answers.push_back(run.ask<Result>(request));
    for (const std::string& model : models_) {
      request.model = model;
      answers.push_back(run.ask<Result>(request));
    }
    return answers;
  }

 private:
  std::vector<std::string> models_;
};

}  // namespace phasescope::app
