#pragma once
// Everything a user can do to the session, by name. The palette, the menus and the shortcuts all
// run these; views call the functions below for what needs a parameter.
#include <string>
#include <vector>

#include "app/window/view_context.h"
#include "protocol/model_reading.h"

namespace phasescope::app {

struct Command {
  std::string id;     // "view.heads", "edit.undo"
  std::string title;  // as the palette shows it
  std::string help;
  int shortcut = 0;  // an ImGuiKeyChord, 0: none
  std::function<void(ViewContext&)> run;
  // Whether it would do anything now; it always does where this is not set.
  std::function<bool(const ViewContext&)> possible = {};
  bool can_run(const ViewContext& context) const { return !possible || possible(context); }
  bool last = false;  // in the palette behind whatever else is found
};

// The least and the largest scale of a session.
inline constexpr double kLeastScale = 0.75, kLargestScale = 3;

// The commands of the window itself; views add theirs.
std::vector<Command> window_commands();

// The commands whose title or id holds the letters of `words` in order, best first.
std::vector<const Command*> matching(const std::vector<Command>& commands,
                                     const std::string& words);

// Commands that follow from what is open and from what is typed, for the palette: models to select
// ("openable" are those that could be opened), the heads of "L3H5" and of "L3H", the token of
// "token 120".
std::vector<Command> commands_about(const ViewContext& context, const std::string& words,
                                    const std::vector<std::string>& openable);
// Names of the models with weights in the assets, in order.
std::vector<std::string> bundled_models();
// Bundled models and those opened lately that are not open.
std::vector<std::string> openable_models(const Session& session);

// "Ctrl+K"; empty where a command has no shortcut.
std::string shortcut_text(const Command& command);

// --- commands with a parameter ------------------------------------------------------------

// Throws Error "bad_input" for a name that is no UTF-8, which no worker can be told.
void open_model(ViewContext& context, const std::string& name);
// Opens a model from where the window is drawn: why a name is refused becomes a notice.
void open_model_or_say(ViewContext& context, const std::string& name);
// Opens the model once more with other settings, named by them: "rope (yarn x2)". A reading of
// `name` is one of the model itself.
void open_reading(ViewContext& context, const std::string& name,
                  const protocol::Settings& settings);
void close_model(ViewContext& context, const std::string& name);
void select_model(ViewContext& context, std::int64_t index);
void select_head(ViewContext& context, std::int64_t model, std::int64_t layer, std::int64_t head);
// Moves the selected layer and head to the last ones of the selected model where it has fewer, as
// far as its shape is known. No step of undo: the user chose nothing.
void fit_selection(ViewContext& context);
// Selects no token any more where the selected one is beyond the text, which says so, and cuts the
// region of the map to it. `tokens`: that the selected model reads of it. No step of undo either.
void fit_selection_to_text(ViewContext& context, std::int64_t tokens);
// Why a model cannot be shown beside the selected one at the selected head: one sentence that names
// both; empty where it can, and before its shape is known.
std::string head_obstacle(const ViewContext& context, std::size_t index);
void select_query(ViewContext& context, std::optional<std::int64_t> query);
void select_pair(ViewContext& context, std::int64_t query, std::int64_t key);
void read_text(ViewContext& context, const std::string& name, const std::string& words);
// Selects what a click in a figure is at, as far as it is a distance, a position, a layer or a
// head; a pair of a map and a token are selected with the functions above.
void select_marks(ViewContext& context, const widgets::Hover& marks);
// Reads the file and makes it the text. Throws formats::Error.
void read_text_file_into(ViewContext& context, const std::string& path);
// A sample of a task, "addition:7:3,4". Throws formats::Error for one that there is not.
void read_sample(ViewContext& context, const std::string& words);
// What it says: its prompt, or the symbols of its ids.
std::string words_of_sample(const std::string& words);
// Lets this part of the text fill the map.
void show_region(ViewContext& context, const Region& region);
void set_theme(ViewContext& context, const std::string& theme);
void show_view(ViewContext& context, const std::string& id);

}  // namespace phasescope::app
