#pragma once
// From the session to the params of requests and to command lines that ask the same. Params that
// have an `input` want the session's text with them (Lab::ask).
#include <nlohmann/json.hpp>
#include <string>

#include "app/window/session.h"

namespace phasescope::app {

nlohmann::json info_params(const Session& session, const std::string& model);
nlohmann::json text_params(const Session& session, const std::string& model);
nlohmann::json heads_params(const Session& session, const std::string& model);
// The region of session.map at `height` x `width` cells at most.
nlohmann::json map_params(const Session& session, const std::string& model, int height, int width);
nlohmann::json patterns_params(const Session& session, const std::string& model);
nlohmann::json distance_params(const Session& session, const std::string& model);
nlohmann::json shift_params(const Session& session, const std::string& model);
nlohmann::json theory_params(const Session& session, const std::string& model);
nlohmann::json eval_params(const Session& session, const std::string& model);

// A word as a POSIX shell reads it back.
std::string shell_word(const std::string& word);
// "phasescope VERB MODEL..." with the session's open models.
std::string verb_line(const Session& session, const std::string& verb);
// " --text FILE", or " --prompt '...'" for a typed text.
std::string text_option(const Session& session);

}  // namespace phasescope::app
