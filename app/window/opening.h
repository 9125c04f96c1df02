#pragma once
// What a file or a folder is, and opening it as that: a model, a text, a session, a figure.
#include <filesystem>
#include <string>
#include <vector>

#include "app/window/view_context.h"

namespace phasescope::app {

enum class Openable { model, text, session, figure };

// A folder and a file of weights are a model; a .phasescope file is a session, a .json file when it
// holds one, alone or beside a figure; a drawing is a figure; all else is a text. Reads no more of
// it than that takes.
Openable kind_of(const std::filesystem::path& path);

// Opens it as what it is; a figure that the window wrote by the file beside it, as the session that
// drew it, and any other not at all. What goes wrong becomes a notice.
void open_any(ViewContext& context, const std::string& path);

// The session of a file in place of this one, as one step of undo; the window's layout, the size of
// its letters and the list of recent models stay. Throws formats::Error.
void open_session(ViewContext& context, const std::filesystem::path& path);

// --- sessions by name -------------------------------------------------------------------------

// "sessions" beside the session that the window keeps by itself.
std::filesystem::path sessions_folder();
// Names of those that are there, in the order of the alphabet.
std::vector<std::string> session_names(const std::filesystem::path& folder);
// Where the session of a name is or would be. Throws Error "bad_usage" for a name that no file can
// have.
std::filesystem::path place_of_session(const std::filesystem::path& folder,
                                       const std::string& name);

}  // namespace phasescope::app
