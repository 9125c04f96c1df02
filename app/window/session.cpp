#include "app/window/session.h"

#include <algorithm>
#include <cstdlib>

#include "app/window/commands.h"
#include "formats/error.h"
#include "formats/text_input.h"
#include "protocol/model_reading.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

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
  give_colors(session);
  return session;
}

widgets::Hover marks_of(const Selection& selection) {
  widgets::Hover marks;
  marks.model = selection.model, marks.layer = selection.layer;
  if (selection.head >= 0) marks.head = selection.head;
  marks.query = marks.token = selection.query;
  marks.key = selection.key;
  marks.distance = selection.distance, marks.position = selection.position;
  return marks;
}

std::string selected_model(const Session& session) {
  if (session.models.empty()) return "";
  const auto last = static_cast<std::int64_t>(session.models.size()) - 1;
  return session
      .models[static_cast<std::size_t>(std::clamp<std::int64_t>(session.selection.model, 0, last))];
}

void give_colors(Session& session) {
  const auto holds = [](const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  for (std::string& owner : session.colors) {
    if (!holds(session.models, owner)) owner.clear();
  }
  for (const std::string& model : session.models) {
    if (holds(session.colors, model)) continue;
    const auto free = std::ranges::find(session.colors, "");
    if (free != session.colors.end()) {
      *free = model;
    } else {
      session.colors.push_back(model);
    }
  }
}

ModelNames names_of(const Session& session) {
  // As they were when the program began: every name of every frame asks for them.
  static const std::vector<std::string> bundled = bundled_models();
  return {session.models, session.colors, bundled};
}

std::string short_name(const Session& session, const std::string& model) {
  return names_of(session).short_name(model);
}

std::string lasting_name(const std::string& model) {
  const std::string path = protocol::model_reading(model).model;
  std::error_code error;
  const bool bundled = path.find('/') == std::string::npos &&
                       fs::exists(assets_folder() / "models" / path / "config.json", error);
  if (path.empty() || bundled || !fs::exists(path, error)) return model;
  fs::path whole = fs::absolute(path, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "runs/a/"
  return whole.string() + model.substr(path.size());
}

fs::path assets_folder() {
  if (const std::string assets = environment("PHASESCOPE_ASSETS"); !assets.empty()) return assets;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path shared = program.parent_path().parent_path() / "share" / "phasescope";
  return !error && fs::is_directory(shared, error) ? shared : fs::path(PHASESCOPE_SOURCE_ASSETS);
}

}  // namespace phasescope::app
