#include "app/window/session_file.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>

#include "formats/base64.h"
#include "formats/json.h"
#include "formats/text_input.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Whatever kills the window, what was typed and arranged longer ago than this is kept.
constexpr std::chrono::milliseconds kRest{150}, kLongest{600};
constexpr double kLookAtWriting = 0.05;
constexpr const char* kBase64 = "base64";

// Every string below `value` that JSON cannot hold, as an object.
void encode_bytes(json& value) {
  if (value.is_structured()) {
    for (json& item : value) encode_bytes(item);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (formats::first_invalid_utf8(text) < text.size()) {
      value = {{kBase64, formats::base64_of(text)}};
    }
  }
}

void decode_bytes(json& value) {
  if (!value.is_structured()) return;
  const bool bytes = value.is_object() && value.size() == 1 && value.contains(kBase64);
  if (bytes && value[kBase64].is_string()) {
    value = formats::decoded_base64(value[kBase64].get<std::string>(), kBase64);
  } else {
    for (json& item : value) decode_bytes(item);
  }
}

// Version 1 had every view's state beside the models, and the region among the map's.
json from_version_1(json old) {
  json& views = old["views"] = json::object();
  for (const char* id :
       {"heads", "map", "patterns", "distance", "shift", "theory", "extrapolation", "jobs"}) {
    if (!old.contains(id)) continue;
    if (!old[id].is_object()) {
      throw formats::bad_input("\"" + std::string(id) + "\" is not an object");
    }
    views[id] = std::move(old[id]);
    old.erase(id);
  }
  if (!views.contains("map")) return old;
  for (const char* end : {"row_begin", "row_end", "col_begin", "col_end"}) {
    if (!views["map"].contains(end)) continue;
    old["region"][end] = views["map"][end];
    views["map"].erase(end);
  }
  return old;
}

// Below which heads are dimmed was a number of its own before it became a condition of a search.
void threshold_to_search(json& form) {
  if (!form.contains("views") || !form["views"].is_object()) return;
  const auto heads = form["views"].find("heads");
  if (heads == form["views"].end() || !heads->is_object()) return;
  const json least = heads->value("at_least", json()), metric = heads->value("metric", json());
  if (heads->value("filtered", json(false)) == true && least.is_number()) {
    (*heads)["search"] =
        (metric.is_string() ? metric.get<std::string>() : "entropy") + ">=" + least.dump();
  }
  heads->erase("at_least"), heads->erase("filtered");
}

// Moves what `state` has beside `own` into its options, but for what says nothing.
void into_options(json& state, std::initializer_list<const char*> own) {
  if (!state.is_object()) return;
  json options = state.value("options", json::object());
  for (auto it = state.begin(); it != state.end();) {
    const bool kept = it.key() == "options" ||
                      std::ranges::any_of(own, [&](const char* key) { return it.key() == key; });
    if (kept) {
      ++it;
      continue;
    }
    if (!it->empty() && *it != json("")) options[it.key()] = *it;
    it = state.erase(it);
  }
  if (!options.empty() || state.contains("options")) state["options"] = std::move(options);
}

// What views ask for had fields of its own for the few choices that there were, before it became
// the options of their requests.
void choices_to_options(json& form) {
  if (!form.contains("views") || !form["views"].is_object()) return;
  json& views = form["views"];
  const auto state = [&](const char* id) -> json* {
    const auto found = views.find(id);
    return found != views.end() && found->is_object() ? &*found : nullptr;
  };
  if (json* map = state("map"); map && map->contains("logarithmic")) {
    if ((*map)["logarithmic"] == true) (*map)["look"]["scale"] = "log";
    map->erase("logarithmic");
  }
  if (json* distance = state("distance"); distance && distance->contains("corpus")) {
    if ((*distance)["corpus"] == false) (*distance)["options"] = json::object();
    distance->erase("corpus");
  }
  if (json* shift = state("shift")) into_options(*shift, {"shown", "figure"});
  if (json* eval = state("extrapolation")) into_options(*eval, {"figure", "task"});
  if (json* jobs = state("jobs"); jobs && jobs->contains("evaluation")) {
    into_options((*jobs)["evaluation"], {"task"});
  }
}

// float32 was the default, which nobody chose, before it became "auto".
void let_dtype_be_chosen(json& form) {
  const auto computing = form.find("computing");
  if (computing == form.end() || !computing->is_object()) return;
  const auto dtype = computing->find("dtype");
  if (dtype != computing->end() && *dtype == "f32") computing->erase(dtype);
}

// Values that no command would ever have set, e.g. edited by hand.
void check(const Session& session) {
  const Region& region = session.region;
  if (region.row_begin < 0 || region.row_end < 0 || region.col_begin < 0 || region.col_end < 0 ||
      session.text.length < 0 || session.selection.layer < 0) {
    throw formats::bad_input("it holds a place below 0");
  }
}

Session session_of(json form) {
  if (!form.is_object()) throw formats::bad_input("it is not a JSON object");
  const json version = form.value("version", json(Session::kVersion));
  if (version == 1) form = from_version_1(std::move(form));
  if (version == 1 || version == 2) {
    let_dtype_be_chosen(form);
  } else if (version != Session::kVersion) {
    throw formats::bad_input("it was written by another version of the program");
  }
  form["version"] = Session::kVersion;
  threshold_to_search(form);
  choices_to_options(form);
  decode_bytes(form);
  Session session = protocol::from_json_form<Session>(form);
  check(session);
  return session;
}

// FILE.bad, FILE.bad2, FILE.bad3, ...: one that is not there yet.
fs::path free_place(const formats::FileSystem& files, const fs::path& path) {
  fs::path place = path.string() + ".bad";
  for (int i = 2; files.exists(place); ++i) place = path.string() + ".bad" + std::to_string(i);
  return place;
}

}  // namespace

Session read_session(formats::FileSystem& files, const fs::path& path) {
  json form = formats::parse_json(files.read(path), path.string());
  // The file beside a figure has the session that drew it.
  if (form.is_object() && form.contains(kSessionOfFigure)) {
    form = json(form[kSessionOfFigure]);
  } else if (!form.is_object() || !form.contains("models") || !form.contains("selection")) {
    throw formats::bad_input("this file holds no session of the window", path.string());
  }
  try {
    return session_of(std::move(form));
  } catch (const formats::Error& error) {
    if (!error.where().empty()) throw;
    throw formats::Error(error.code(), error.message(), path.string(), error.hint());
  } catch (const std::exception& error) {
    throw formats::bad_input(std::string("this session cannot be read: ") + error.what(),
                             path.string());
  }
}

json session_for_figure(Session session) {
  session.layout.clear(), session.recent.clear();
  json form = protocol::to_json_form(session);
  encode_bytes(form);
  return form;
}

LoadedSession load_session(formats::FileSystem& files, const fs::path& path) {
  if (!files.exists(path)) return {default_session(), ""};
  try {
    return {session_of(formats::parse_json(files.read(path), path.string())), ""};
  } catch (const std::exception& error) {
    LoadedSession loaded{default_session(), "", true};
    loaded.warning = "The session " + path.string() + " could not be read: " + error.what() + ". ";
    try {
      const fs::path kept = free_place(files, path);
      files.rename(path, kept);
      loaded.warning += "It was kept as " + kept.string() + ".";
      loaded.occupied = false;
    } catch (const formats::Error&) {
      loaded.warning += "It stays as it is, and this session will not be saved.";
    }
    return loaded;
  }
}

void save_session(formats::FileSystem& files, const fs::path& path, const Session& session) {
  if (path.has_parent_path()) formats::make_directories(files, path.parent_path());
  json form = protocol::to_json_form(session);
  encode_bytes(form);
  formats::write_file_atomically(files, path, std::string_view(form.dump(1) + "\n"));
}

fs::path default_session_path() {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty()) {
    return fs::path(state) / "phasescope" / "session.json";
  }
  const std::string home = environment("HOME");
  return fs::path(home.empty() ? "." : home) / ".local" / "state" / "phasescope" / "session.json";
}

void SessionSaver::changed(Clock::time_point now) {
  if (!first_change_) first_change_ = now;
  last_change_ = now;
}

bool SessionSaver::due(Clock::time_point now) {
  collect();
  return first_change_ && !writing_.valid() && now >= when();
}

SessionSaver::Clock::time_point SessionSaver::when() const {
  return std::min(*last_change_ + kRest, *first_change_ + kLongest);
}

double SessionSaver::due_in(Clock::time_point now) const {
  if (!first_change_) return std::numeric_limits<double>::infinity();
  const double least = writing_.valid() ? kLookAtWriting : 0;
  return std::max(least, std::chrono::duration<double>(when() - now).count());
}

void SessionSaver::write_aside(Session session) {
  first_change_.reset();
  const auto kept = std::make_shared<const Session>(std::move(session));
  try {
    writing_ = std::async(std::launch::async, [this, kept] { return write(*kept); });
  } catch (const std::system_error&) {  // there is no thread to be had
    trouble_ = write(*kept);
  }
}

std::string SessionSaver::write_now(const Session& session) {
  if (writing_.valid()) writing_.wait();
  collect();
  first_change_.reset();
  return write(session);
}

std::string SessionSaver::trouble() {
  collect();
  return std::exchange(trouble_, {});
}

// What was written and what went wrong is the same for the thread beside the window and for it.
std::string SessionSaver::write(const Session& session) const {
  try {
    save_session(fs_, path_, session);
    return "";
  } catch (const formats::Error& error) {
    return "The session was not saved: " + error.full_text();
  } catch (const std::exception& error) {
    return "The session was not saved: " + std::string(error.what());
  }
}

void SessionSaver::collect() {
  if (!writing_.valid()) return;
  if (writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  trouble_ = writing_.get();
}

}  // namespace phasescope::app
