#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "protocol/messages/eval.h"

namespace phasescope::training {

// What stands below "eval_job" in an eval job's config.json.
struct AskedEval {
  std::filesystem::path folder;  // where relative paths are meant from; empty: here
  protocol::EvalRequest request;
};
// Throws Error "bad_input" for a folder that is no string; otherwise as request_of() does.
AskedEval asked_eval(nlohmann::json asked);

}  // namespace phasescope::training
