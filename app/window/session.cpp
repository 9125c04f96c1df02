#include "app/window/session.h"

#include <algorithm>
#include <cstdlib>

#include "formats/json.h"
#include "formats/text_input.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kVersion = 1;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string default_text() {
  try {
    return formats::read_text_file(assets_folder() / "texts" / "default.txt");
  } catch (const formats::Error&) {
    return "To every thing there is a season, and a time to every purpose under the heaven.";
  }
}

// The last `parts` parts of a path, or all of it where it has no more.
std::string end_of_path(std::string path, int parts) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::size_t begin = path.size();
  for (int i = 0; i < parts; ++i) {
    begin = begin > 0 ? path.rfind('/', begin - 1) : std::string::npos;
    if (begin == std::string::npos) return path;
  }
  return path.substr(begin + 1);
}

// Values that no command would ever have set, e.g. edited by hand.
void check(const Session& session) {
  if (session.version != kVersion)
    throw formats::bad_input("it was written by another version of the program");
  if (session.map.row_begin < 0 || session.map.row_end < 0 || session.map.col_begin < 0 ||
      session.map.col_end < 0 || session.text.length < 0 || session.selection.layer < 0)
    throw formats::bad_input("it holds a place below 0");
}

}  // namespace

SharedText::SharedText(std::string text)
    : text_(std::make_shared<const std::string>(std::move(text))) {
  static std::uint64_t last = 0;
  serial_ = ++last;
}

Session default_session() {
  Session session;
  session.models = {"rope", "tapa_norm"};
  // A head of the last layer: there the two encodings differ to the eye.
  session.selection.layer = 3, session.selection.head = 1;
  session.text.words = default_text();
  return session;
}

std::string selected_model(const Session& session) {
  if (session.models.empty()) return "";
  const auto last = static_cast<int64_t>(session.models.size()) - 1;
  return session
      .models[static_cast<std::size_t>(std::clamp<int64_t>(session.selection.model, 0, last))];
}

std::string short_name(const std::vector<std::string>& models, const std::string& model) {
  for (const int parts : {1, 2}) {
    const std::string name = end_of_path(model, parts);
    const bool alone = std::none_of(models.begin(), models.end(), [&](const std::string& other) {
      return other != model && end_of_path(other, parts) == name;
    });
    if (alone) return name;
  }
  return model;
}

std::string short_name(const Session& session, const std::string& model) {
  return short_name(session.models, model);
}

std::string name_of_head(int64_t layer, int64_t head) {
  const std::string name = "L" + std::to_string(layer);
  return head < 0 ? name : name + "H" + std::to_string(head);
}

LoadedSession load_session(formats::FileSystem& files, const fs::path& path) {
  if (!files.exists(path)) return {default_session(), ""};
  try {
    const auto json = formats::parse_json(files.read(path), path.string());
    if (!json.is_object()) throw formats::bad_input("it is not a JSON object");
    Session session = protocol::from_json_form<Session>(json);
    check(session);
    return {std::move(session), ""};
  } catch (const std::exception& error) {
    const fs::path kept = path.string() + ".bad";
    std::string warning = "The session " + path.string() + " could not be read: " + error.what();
    try {
      files.rename(path, kept);
      warning += ". It was kept as " + kept.string() + ".";
    } catch (const formats::Error&) {
      warning += ".";
    }
    return {default_session(), warning};
  }
}

void save_session(formats::FileSystem& files, const fs::path& path, const Session& session) {
  if (path.has_parent_path()) formats::make_directories(files, path.parent_path());
  const std::string text = protocol::to_json_form(session).dump(1) + "\n";
  formats::write_file_atomically(files, path, std::string_view(text));
}

fs::path default_session_path() {
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty())
    return fs::path(state) / "phasescope" / "session.json";
  const std::string home = environment("HOME");
  return fs::path(home.empty() ? "." : home) / ".local" / "state" / "phasescope" / "session.json";
}

fs::path assets_folder() {
  if (const std::string assets = environment("PHASESCOPE_ASSETS"); !assets.empty()) return assets;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path shared = program.parent_path().parent_path() / "share" / "phasescope";
  return !error && fs::is_directory(shared, error) ? shared : fs::path(PHASESCOPE_SOURCE_ASSETS);
}

}  // namespace phasescope::app
