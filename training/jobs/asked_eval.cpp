#include "training/jobs/asked_eval.h"

#include <string>

#include "formats/error.h"
#include "protocol/request.h"

namespace phasescope::training {

AskedEval asked_eval(nlohmann::json asked) {
  AskedEval eval;
  if (asked.is_object() && asked.contains("folder")) {
    const nlohmann::json& folder = asked.at("folder");
    if (!folder.is_string()) {
      throw formats::bad_input("a folder is a string, not " + folder.dump().substr(0, 100),
                               "eval_job.folder");
    }
    eval.folder = folder.get<std::string>();
    asked.erase("folder");
  }
  eval.request = protocol::request_of<protocol::EvalRequest>(asked);
  return eval;
}

}  // namespace phasescope::training
