#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/hf_config.h"
#include "model/config.h"

// Keys of other families that say something of positions, of what a layer sees, of its scores, or
// of a router. A family that does not read one runs as if it were not there, and the load report
// says so; a router of another kind is refused.

namespace phasescope::model {

// Of keys that the reader was never asked for, and whose values are not what the model has anyway.
std::vector<std::string> unread_key_warnings(const formats::ConfigReader& reader,
                                             const ModelConfig& config);

// Keys of routers that the reader was never asked for and that say something else than the model's
// does, each with what is wrong.
std::vector<std::pair<std::string, std::string>> unread_router_problems(
    const formats::ConfigReader& reader, const ModelConfig& config);

// Of keys that are null where null says nothing, so that older keys or the class decide. Null that
// says something (no window, as many key heads as heads) is not among them.
std::vector<std::string> null_key_warnings(const formats::ConfigReader& reader,
                                           const ModelConfig& config);

// Of ropes that a wrapper has outside its text_config and that text_config does not have too.
std::vector<std::string> unread_wrapper_ropes(const Json& whole);

}  // namespace phasescope::model
