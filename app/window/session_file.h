#pragma once
// A session in a file: JSON that holds any bytes, written so that none is lost.
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include "app/window/session.h"
#include "formats/file_system.h"

namespace phasescope::app {

// The key, in the JSON file beside a figure that the window wrote, of the session that drew it,
// without what is about the window alone. read_session() takes such a file too.
inline constexpr const char* kSessionOfFigure = "session";
nlohmann::json session_for_figure(Session session);

struct LoadedSession {
  Session session;
  std::string warning;  // what was wrong with the file, empty when nothing was
  // What is in its place could neither be read nor kept under another name: nothing may be written
  // over it.
  bool occupied = false;
};

// Reads a session of this version of the program or of the one before. A file that is corrupt or
// newer is kept as FILE.bad, or FILE.bad2 and so on where that is taken, and the default is used; a
// missing one is no fault.
LoadedSession load_session(formats::FileSystem& fs, const std::filesystem::path& path);
// Reads a file that the user names, and leaves it as it is. Throws formats::Error "bad_input".
Session read_session(formats::FileSystem& fs, const std::filesystem::path& path);
// Strings that are no UTF-8 (a text in another coding, a path of such a folder) are written as
// {"base64": ...}. Throws formats::Error.
void save_session(formats::FileSystem& fs, const std::filesystem::path& path,
                  const Session& session);

// How files of sessions end that users name; desktops open them with Phasescope (assets/desktop).
inline constexpr const char* kSessionEnding = ".phasescope";

// $XDG_STATE_HOME/phasescope/session.json, ~/.local/state/... where that is not set.
std::filesystem::path default_session_path();

// Writes a session beside the window some time after it has changed.
class SessionSaver {
 public:
  using Clock = std::chrono::steady_clock;
  SessionSaver(formats::FileSystem& fs, std::filesystem::path path)
      : fs_(fs), path_(std::move(path)) {}

  // Tells that the session differs from what was written last.
  void changed(Clock::time_point now);
  // Once a frame or when it is due: whether it is to be written now, since it has rested for a
  // moment or has changed for some time, and nothing is being written.
  bool due(Clock::time_point now);
  // Seconds until then; infinite where nothing has changed.
  double due_in(Clock::time_point now) const;
  void write_aside(Session session);
  // Writes at once, after what is being written. Returns what went wrong, empty when nothing did.
  std::string write_now(const Session& session);
  // What went wrong since the last call; once for each time.
  std::string trouble();
  bool waits() const { return first_change_.has_value(); }

 private:
  std::string write(const Session& session) const;
  Clock::time_point when() const;  // of what has changed
  void collect();

  formats::FileSystem& fs_;
  std::filesystem::path path_;
  std::optional<Clock::time_point> first_change_, last_change_;
  std::future<std::string> writing_;
  std::string trouble_;
};

}  // namespace phasescope::app
