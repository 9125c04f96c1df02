#pragma once
// From the session to the params of requests and to command lines that ask the same. Params that
// have an `input` want the session's text with them (WorkerRequests::ask).
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/window/session.h"
#include "protocol/messages/models.h"

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
nlohmann::json eval_params(const Session& session, const std::string& model,
                           const std::vector<int64_t>& lengths);
// Tokens of the texts that show how a model reads past its trained length: that length, twice and
// four times it. A table of learned positions ends, so those that it has, or else a quarter, half
// and all of the trained length. Of a trained length above kLongestRead / 4 that much stands in for
// it, since the question asks itself; none where the trained length is not known.
constexpr int64_t kLongestRead = 16384;
std::vector<int64_t> eval_lengths(const protocol::LoadReport& report);

// A word as a POSIX shell reads it back.
std::string shell_word(const std::string& word);
// "phasescope VERB MODEL..." with the session's open models.
std::string verb_line(const Session& session, const std::string& verb);
// " --text FILE", or " --prompt '...'" for a typed text.
std::string text_option(const Session& session);

}  // namespace phasescope::app
