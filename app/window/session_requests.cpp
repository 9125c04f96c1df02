#include "app/window/session_requests.h"

#include <algorithm>

#include "protocol/shell_word.h"

namespace phasescope::app {
namespace {

using nlohmann::json;

// WorkerRequests::ask adds the words. Without any the worker takes what the command line takes
// without --text: bundled texts.
void add_text(json& params, const Session& session) {
  if (!session.text.words.empty()) params["input"] = {{"name", session.text.name}};
  if (session.text.length > 0) params["length"] = session.text.length;
}

void add_range(json& params, const char* name, int64_t begin, int64_t end) {
  if (end > begin) params[name] = {begin, end};
}

}  // namespace

json info_params(const Session& session, const std::string& model) {
  json params{{"model", model}};
  if (session.text.length > 0) params["length"] = session.text.length;
  return params;
}

json text_params(const Session& session, const std::string& model) {
  json params{{"model", model}};
  add_text(params, session);
  return params;
}

json heads_params(const Session& session, const std::string& model) {
  json params{{"model", model}, {"corpus", false}, {"thumbnails", true}};
  add_text(params, session);
  return params;
}

json map_params(const Session& session, const std::string& model, int height, int width) {
  const Selection& at = session.selection;
  json params{{"model", model},
              {"head", name_of_head(at.layer, at.head)},
              {"of", session.map.of},
              {"pool", session.map.pool},
              {"size", {height, width}}};
  add_range(params, "rows", session.map.row_begin, session.map.row_end);
  add_range(params, "cols", session.map.col_begin, session.map.col_end);
  add_text(params, session);
  return params;
}

json patterns_params(const Session& session, const std::string& model) {
  json params{{"model", model}, {"positions", 128}};
  add_text(params, session);
  return params;
}

json distance_params(const Session& session, const std::string& model) {
  json params{{"models", {model}}};
  if (session.distance.corpus)
    params["corpus"] = true;
  else
    add_text(params, session);
  return params;
}

json shift_params(const Session& session, const std::string& model) {
  json params{{"models", {model}}, {"by", session.shift.by}, {"method", {"ids", "tokens"}}};
  add_text(params, session);
  return params;
}

json theory_params(const Session&, const std::string& model) { return {{"models", {model}}}; }

json eval_params(const Session& session, const std::string& model,
                 const std::vector<int64_t>& lengths) {
  json params{
      {"task", "perplexity"}, {"models", {model}}, {"trials", session.extrapolation.trials}};
  if (!lengths.empty()) params["lengths"] = lengths;
  return params;
}

std::vector<int64_t> eval_lengths(const protocol::LoadReport& report) {
  const int64_t trained = std::min(report.model.context, kLongestRead / 4);
  if (trained < 1) return {};
  if (report.encoding != "learned") return {trained, 2 * trained, 4 * trained};
  const int64_t stated = report.encoding_options.value("max_positions", int64_t{0});
  const int64_t rows = stated > 0 ? stated : report.model.context;
  std::vector<int64_t> lengths{trained, 2 * trained, 4 * trained};
  std::erase_if(lengths, [&](int64_t length) { return length > rows; });
  if (lengths.size() < 2) lengths = {trained / 4, trained / 2, trained};
  std::erase_if(lengths, [](int64_t length) { return length < 1; });
  return lengths;
}

std::string shell_word(const std::string& word) { return protocol::shell_word(word); }

std::string verb_line(const Session& session, const std::string& verb) {
  std::string line = "phasescope " + verb;
  for (const std::string& model : session.models) line += " " + shell_word(model);
  return line;
}

std::string text_option(const Session& session) {
  if (session.text.words.empty()) return "";
  if (session.text.name == "typed") return " --prompt " + shell_word(session.text.words.str());
  std::string option = " --text " + shell_word(session.text.name);
  if (session.text.length > 0) option += " --length " + std::to_string(session.text.length);
  return option;
}

}  // namespace phasescope::app
