#include "app/window/opening.h"

#include <algorithm>

#include "app/cli/given_input.h"
#include "app/window/commands.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "formats/folder_listing.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

// Sessions had it before they had an ending of their own, and those beside figures have it.
constexpr const char* kPlainEnding = ".json";

// A text of the plain ending is told by that it cannot be read as a session.
bool holds_session(const fs::path& path) {
  try {
    read_session(formats::real_file_system(), path);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// What is opened in place of a figure that the window wrote: the file beside it, which has its
// session. Any other file is itself.
fs::path with_session(const fs::path& path) {
  const fs::path beside = path.string() + kPlainEnding;
  const bool two_files = formats::is_file(path) && formats::is_file(beside);
  return two_files && holds_session(beside) ? beside : path;
}

}  // namespace

Openable kind_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return Openable::model;
  const std::string ending = path.extension().string();
  for (const char* weights : {".safetensors", ".bin", ".gguf", ".pt", ".pth"}) {
    if (ending == weights) return Openable::model;
  }
  for (const char* drawing : {".svg", ".png", ".pdf"}) {
    if (ending == drawing) return Openable::figure;
  }
  if (ending == kSessionEnding) return Openable::session;
  return ending == kPlainEnding && holds_session(path) ? Openable::session : Openable::text;
}

void open_any(ViewContext& context, const std::string& dropped) {
  const std::string path = with_session(dropped).string();
  try {
    const Openable kind = kind_of(path);
    if (kind == Openable::model) open_model(context, lasting_name(path));
    if (kind == Openable::session) open_session(context, path);
    if (kind == Openable::text) read_text_file_into(context, path);
    if (kind == Openable::figure) {
      context.window.say(path +
                             " is a figure without a session beside it: those that the window has "
                             "written open what drew them",
                         true);
    }
  } catch (const formats::Error& error) {
    context.window.say(error.full_text(), true);
  } catch (const std::exception& error) {  // a folder that cannot be listed, no memory
    context.window.say(path + ": " + error.what(), true);
  }
}

void open_session(ViewContext& context, const fs::path& path) {
  Session opened = read_session(formats::real_file_system(), path);
  require_utf8(opened.models);
  context.edit.apply("Open the session " + path.stem().string(), [&](Session& s) {
    opened.layout = s.layout, opened.recent = s.recent, opened.scale = s.scale;
    s = std::move(opened);
  });
}

fs::path sessions_folder() { return default_session_path().parent_path() / "sessions"; }

std::vector<std::string> session_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path ending = entry.path().extension();
    if (ending == kSessionEnding || ending == kPlainEnding) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

fs::path place_of_session(const fs::path& folder, const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw formats::bad_usage(
        "a session's name must not be empty, begin with a dot or contain a slash", name);
  }
  const fs::path place = folder / (name + kSessionEnding), before = folder / (name + kPlainEnding);
  std::error_code error;
  return !fs::exists(place, error) && fs::exists(before, error) ? before : place;
}

}  // namespace phasescope::app
