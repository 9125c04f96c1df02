#pragma once
// From the session to the requests of views, and from those to command lines that ask the same.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "app/window/worker_requests.h"
#include "protocol/messages/common.h"
#include "protocol/messages/distance.h"
#include "protocol/request.h"

namespace phasescope::app {

// What is read, for a request that WorkerRequests::ask sends with the text's words. Of no text the
// worker takes what the command line takes without --text: bundled texts.
void set_text(protocol::Reading& reading, const TextInput& text);

// The text of a request that may read a corpus instead, or has a length of its own.
void set_text(protocol::ReadingMany& reading, const TextInput& text);

// The text of a question as the command line gives it: typed words as a prompt, a file by its path,
// the text that nobody chose not at all, unless `always` names its file.
void set_option_of_text(protocol::Input& input, const SharedText& words, bool always);

// Command lines that ask the same, joined with && where one does not do: questions that differ by
// their models alone have one together. Empty for no question.
template <class Request>
std::string command_of(const std::vector<Asked>& asked) {
  std::vector<Asked> lines;
  for (const Asked& one : asked) {
    if (!one.params.is_object()) continue;  // not asked yet
    const auto same = [&](const Asked& line) {
      nlohmann::json a = line.params, b = one.params;
      a.erase("models"), b.erase("models");
      return a == b && line.text.serial() == one.text.serial();
    };
    const auto found = std::ranges::find_if(lines, same);
    if (found == lines.end() || !one.params.contains("models")) {
      lines.push_back(one);
    } else {
      // What was asked of one and of several together names it once.
      auto& named = found->params["models"];
      for (const auto& model : one.params["models"]) {
        if (std::ranges::find(named, model) == named.end()) named.push_back(model);
      }
    }
  }
  std::string command;
  for (const Asked& line : lines) {
    Request request = protocol::request_of<Request>(line.params);
    if constexpr (requires { request.reading.input; }) {
      // Without a text these read many.
      const bool always = std::is_same_v<Request, protocol::DistanceRequest> || requires {
        request.reading.texts;
      };
      set_option_of_text(request.reading.input, line.text, always);
    }
    command += (command.empty() ? "" : " && ") + protocol::command_line(request);
  }
  return command;
}

}  // namespace phasescope::app
