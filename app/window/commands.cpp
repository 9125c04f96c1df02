#include "app/window/commands.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "app/cli/given_input.h"
#include "formats/error.h"
#include "formats/text_input.h"
#include "tasks/named_sample.h"

namespace phasescope::app {
namespace {

constexpr std::size_t kRecent = 8;
// What stands last stands behind whole matches of others, before those of scattered letters.
constexpr int kLast = 450;

std::int64_t last_of(std::int64_t count) { return std::max<std::int64_t>(0, count - 1); }

// Of the stack that is selected: of an encoder-decoder each has its own.
std::int64_t layers_of(const protocol::ModelSummary& model, const Selection& at) {
  return model.encoder_layers > 0 && at.stack == "enc" ? model.encoder_layers : model.layers;
}

// Moves the selected head within the selected model's shape, as far as it is known.
void step_head(ViewContext& context, std::int64_t layers, std::int64_t heads) {
  const std::string model = selected_model(context.session());
  if (model.empty()) return;
  const auto* report = context.info(model);
  if (!report) return;
  const Selection at = context.session().selection;
  const std::int64_t layer =
      std::clamp<std::int64_t>(at.layer + layers, 0, last_of(layers_of(report->model, at)));
  const std::int64_t head =
      std::clamp<std::int64_t>(at.head + heads, 0, last_of(report->model.heads));
  select_head(context, at.model, layer, head);
}

void edit_commands(std::vector<Command>& list) {
  list.push_back({"edit.undo", "Undo", "Take the last change back", ImGuiMod_Ctrl | ImGuiKey_Z,
                  [](ViewContext& context) {
                    if (!context.edit.undo()) context.window.say("There is nothing to undo");
                  },
                  [](const ViewContext& context) { return !context.edit.undo_title().empty(); }});
  list.push_back({"edit.redo", "Redo", "Make the change again",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Z,
                  [](ViewContext& context) {
                    if (!context.edit.redo()) context.window.say("There is nothing to redo");
                  },
                  [](const ViewContext& context) { return !context.edit.redo_title().empty(); }});
}

void file_commands(std::vector<Command>& list) {
  list.push_back({"file.open_model", "Open a model...", "A folder or a file from this machine",
                  ImGuiMod_Ctrl | ImGuiKey_O,
                  [](ViewContext& context) { context.window.open_dialog = "model"; }});
  list.push_back({"file.open_text", "Open a text...", "A text file that all open models read",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_O,
                  [](ViewContext& context) { context.window.open_dialog = "text"; }});
  list.push_back({"file.save_session", "Save the session", "Also done automatically",
                  ImGuiMod_Ctrl | ImGuiKey_S,
                  [](ViewContext& context) { context.window.save_session = true; }});
  list.push_back({"file.sessions", "Sessions by name...", "Open one, or keep this one under a name",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_S,
                  [](ViewContext& context) { context.window.sessions_open = true; }});
  list.push_back({"file.start_worker", "Start the worker again",
                  "After it died several times, and no other one is started by itself",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_W,
                  [](ViewContext& context) { context.requests.start_again(); },
                  [](const ViewContext& context) { return context.requests.gave_up(); }});
  list.push_back({"file.quit", "Quit", "Jobs go on without the window", ImGuiMod_Ctrl | ImGuiKey_Q,
                  [](ViewContext& context) { context.window.quit = true; }});
}

// A quarter of the display's scale each.
void set_scale(ViewContext& context, double scale) {
  scale = std::clamp(scale, kLeastScale, kLargestScale);
  context.edit.apply("Change the size of letters", [&](Session& s) { s.scale = scale; });
}

void scale_commands(std::vector<Command>& list) {
  constexpr double kStep = 0.25;
  list.push_back(
      {"look.larger", "Larger letters", "The whole window grows with them, up to three times",
       ImGuiMod_Ctrl | ImGuiKey_Equal,
       [](ViewContext& context) { set_scale(context, context.session().scale + kStep); }});
  list.push_back(
      {"look.smaller", "Smaller letters",
       "The whole window shrinks with them, down to three quarters", ImGuiMod_Ctrl | ImGuiKey_Minus,
       [](ViewContext& context) { set_scale(context, context.session().scale - kStep); }});
  list.push_back({"look.own_size", "Letters of the display's size", "Neither larger nor smaller",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_0,
                  [](ViewContext& context) { set_scale(context, 1); }});
}

void look_commands(std::vector<Command>& list) {
  list.push_back({"look.theme", "Switch between light and dark", "The theme of the window",
                  ImGuiMod_Ctrl | ImGuiKey_T, [](ViewContext& context) {
                    set_theme(context, context.session().theme == "dark" ? "light" : "dark");
                  }});
  list.push_back({"look.layout", "Reset the layout", "All views back where they were at first",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_L, [](ViewContext& context) {
                    context.edit.apply("Reset the layout",
                                       [](Session& s) { s.closed_views.clear(); });
                    context.window.reset_layout = true;
                  }});
  list.push_back({"look.palette", "Command palette", "Find a command by its name",
                  ImGuiMod_Ctrl | ImGuiKey_K,
                  [](ViewContext& context) { context.window.palette_open = true; }});
  list.push_back({"look.messages", "Messages", "What the window has said so far",
                  ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_M,
                  [](ViewContext& context) { context.window.messages_open = true; }});
  list.push_back({"look.shortcuts", "Keyboard shortcuts", "What the keys do", ImGuiKey_F1,
                  [](ViewContext& context) { context.window.help_open = true; }});
}

void head_commands(std::vector<Command>& list) {
  list.push_back({"head.next", "Next head", "", ImGuiMod_Alt | ImGuiKey_RightArrow,
                  [](ViewContext& context) { step_head(context, 0, 1); }});
  list.push_back({"head.previous", "Previous head", "", ImGuiMod_Alt | ImGuiKey_LeftArrow,
                  [](ViewContext& context) { step_head(context, 0, -1); }});
  list.push_back({"head.deeper", "Same head, next layer", "", ImGuiMod_Alt | ImGuiKey_DownArrow,
                  [](ViewContext& context) { step_head(context, 1, 0); }});
  list.push_back({"head.higher", "Same head, layer before", "", ImGuiMod_Alt | ImGuiKey_UpArrow,
                  [](ViewContext& context) { step_head(context, -1, 0); }});
  list.push_back({"head.mean", "Mean of the layer's heads", "", ImGuiMod_Alt | ImGuiKey_M,
                  [](ViewContext& context) {
                    const Selection at = context.session().selection;
                    select_head(context, at.model, at.layer, -1);
                  }});
  list.push_back({"model.swap", "Select the next model", "", ImGuiMod_Ctrl | ImGuiKey_M,
                  [](ViewContext& context) {
                    const auto count = static_cast<std::int64_t>(context.models());
                    if (count > 0) {
                      select_model(context, (context.session().selection.model + 1) % count);
                    }
                  }});
  list.push_back(
      {"model.yarn", "Read the selected model twice as long (YaRN)",
       "A second reading of a model that rotates q and k; others are in Models",
       ImGuiMod_Alt | ImGuiKey_Y, [](ViewContext& context) {
         const std::string model = selected_model(context.session());
         if (model.empty()) return;
         open_reading(context, model, {{"encoding.scaling", "yarn"}, {"encoding.factor", "2"}});
       }});
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// 0 where the letters are not found in order; more for a whole match, and the earlier the better.
int match_score(const std::string& title, const std::string& words) {
  std::string name, wanted;
  for (char c : title) name += lower(c);
  for (char c : words) wanted += lower(c);
  const std::size_t whole = name.find(wanted);
  if (whole != std::string::npos) return 1000 - static_cast<int>(whole);
  std::size_t at = 0;
  int spread = 0;
  for (char c : wanted) {
    if (c == ' ') continue;
    const std::size_t next = name.find(c, at);
    if (next == std::string::npos) return 0;
    spread += static_cast<int>(next - at);
    at = next + 1;
  }
  return std::max(1, 500 - spread);
}

// The heads that "L3H1" begins the name of: of "L3H" those of layer 3, as far as the model is
// known.
void add_heads(const ViewContext& context, const std::string& words, std::vector<Command>& list) {
  std::int64_t layer = 0, head = -1;
  int read = 0;  // of the words, up to the head's number
  std::sscanf(words.c_str(), " %*1[lL]%" SCNd64 "%*1[hH]%n%" SCNd64, &layer, &read, &head);
  if (read == 0 || layer < 0) return;
  const std::string selected = selected_model(context.session());
  const auto* report = selected.empty() ? nullptr : context.info(selected);
  const std::string typed = head < 0 ? "" : std::to_string(head);
  std::vector<std::int64_t> heads;
  if (report && layer < layers_of(report->model, context.session().selection)) {
    for (std::int64_t n = 0; n < report->model.heads; ++n) {
      if (std::to_string(n).starts_with(typed)) heads.push_back(n);
    }
  } else if (!report && head >= 0) {
    heads = {head};
  }
  for (const std::int64_t n : heads) {
    list.push_back(
        {"head.select." + name_of_head(layer, n), "Select head " + name_of_head(layer, n),
         "Of the model", 0,
         [=](ViewContext& c) { select_head(c, c.session().selection.model, layer, n); }});
  }
}

}  // namespace

std::vector<Command> window_commands() {
  std::vector<Command> list;
  file_commands(list);
  edit_commands(list);
  head_commands(list);
  look_commands(list);
  scale_commands(list);
  return list;
}

std::vector<const Command*> matching(const std::vector<Command>& commands,
                                     const std::string& words) {
  std::vector<std::pair<int, const Command*>> found;
  for (const Command& command : commands) {
    const int score = std::max(match_score(command.title, words), match_score(command.id, words));
    if (score > 0) found.emplace_back(command.last ? score - kLast : score, &command);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const Command*> list;
  for (const auto& [score, command] : found) list.push_back(command);
  return list;
}

std::vector<std::string> bundled_models() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(assets_folder() / "models", error)) {
    if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> openable_models(const Session& session) {
  std::vector<std::string> names = session.recent;
  std::ranges::copy(bundled_models(), std::back_inserter(names));
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::find(session.models, name) != session.models.end();
  });
  return names;
}

std::vector<Command> commands_about(const ViewContext& context, const std::string& words,
                                    const std::vector<std::string>& openable) {
  std::vector<Command> list;
  const Session& session = context.session();
  for (std::size_t i = 0; i < session.models.size(); ++i) {
    list.push_back({"model.select." + session.models[i],
                    "Select " + short_name(session, session.models[i]), "An open model", 0,
                    [i](ViewContext& c) { select_model(c, static_cast<std::int64_t>(i)); }});
  }
  for (const std::string& name : session.models) {
    list.push_back({"model.close." + name, "Close " + short_name(session, name), "An open model", 0,
                    [name](ViewContext& c) { close_model(c, name); }});
  }
  for (const std::string& name : openable) {
    list.push_back({"model.open." + name, "Open " + name, "A model that is not open", 0,
                    [name](ViewContext& c) { open_model_or_say(c, name); }});
  }
  std::int64_t token = 0;
  add_heads(context, words, list);
  if (std::sscanf(words.c_str(), " token %" SCNd64, &token) == 1) {
    list.push_back({"token.select", "Select token " + std::to_string(token), "As the query", 0,
                    [=](ViewContext& c) { select_query(c, token); }});
  }
  return list;
}

std::string shortcut_text(const Command& command) {
  return command.shortcut ? ImGui::GetKeyChordName(command.shortcut) : "";
}

void open_model(ViewContext& context, const std::string& name) {
  require_utf8(name);
  context.edit.apply("Open " + name, [&](Session& s) {
    if (std::find(s.models.begin(), s.models.end(), name) == s.models.end()) {
      s.models.push_back(name);
    }
    const auto place = std::find(s.models.begin(), s.models.end(), name) - s.models.begin();
    s.selection.model = place;
    if (name.find('/') == std::string::npos) return;  // bundled ones are always listed
    std::erase(s.recent, name);
    s.recent.insert(s.recent.begin(), name);
    if (s.recent.size() > kRecent) s.recent.resize(kRecent);
  });
}

void open_model_or_say(ViewContext& context, const std::string& name) {
  try {
    open_model(context, name);
  } catch (const formats::Error& error) {
    context.window.say(error.full_text(), true);
  }
}

void open_reading(ViewContext& context, const std::string& name,
                  const protocol::Settings& settings) {
  open_model(context, protocol::name_of({protocol::model_reading(name).model, settings}));
}

void close_model(ViewContext& context, const std::string& name) {
  context.edit.apply("Close " + name, [&](Session& s) {
    // The selected one stays selected, though its place may be another one then.
    const std::string selected = selected_model(s);
    std::erase(s.models, name);
    const auto place = std::ranges::find(s.models, selected);
    const auto last = last_of(static_cast<std::int64_t>(s.models.size()));
    s.selection.model =
        place == s.models.end() ? std::min(s.selection.model, last) : place - s.models.begin();
  });
}

void select_model(ViewContext& context, std::int64_t index) {
  context.edit.apply(
      "Select a model", [&](Session& s) { s.selection.model = index; }, "select");
}

void select_head(ViewContext& context, std::int64_t model, std::int64_t layer, std::int64_t head) {
  context.edit.apply("Select " + name_of_head(layer, head), [&](Session& s) {
    s.selection.model = model, s.selection.layer = layer, s.selection.head = head;
  });
}

void fit_selection(ViewContext& context) {
  const std::string model = selected_model(context.session());
  const auto* report = model.empty() ? nullptr : context.info(model);
  if (!report || report->model.layers < 1 || report->model.heads < 1) return;
  Selection at = context.session().selection;
  at.layer = std::clamp<std::int64_t>(at.layer, 0, last_of(layers_of(report->model, at)));
  at.head = std::clamp<std::int64_t>(at.head, -1, last_of(report->model.heads));
  if (at == context.session().selection) return;
  context.edit.apply_silently([&](Session& s) { s.selection = at; });
}

std::string head_obstacle(const ViewContext& context, std::size_t index) {
  const Selection& at = context.session().selection;
  const auto selected = static_cast<std::size_t>(at.model);
  const auto* report = context.info(context.session().models[index]);
  if (!report || index == selected || report->model.layers < 1) return "";
  const protocol::ModelSummary& shape = report->model;
  if (at.layer < layers_of(shape, at) && at.head < shape.heads) return "";
  const auto sized = [&](std::size_t of, const protocol::ModelSummary& model) {
    return short_name(context.session(), context.session().models[of]) + " has " +
           std::to_string(layers_of(model, at)) +
           (layers_of(model, at) == 1 ? " layer" : " layers") + " of " +
           std::to_string(model.heads) + (model.heads == 1 ? " head" : " heads");
  };
  std::string words = sized(index, shape);
  const auto* other =
      selected < context.models() ? context.info(context.session().models[selected]) : nullptr;
  if (other) words += " and " + sized(selected, other->model);
  return words + ": " + name_of_head(at.layer, at.head) +
         " is not in both, so that only one is shown";
}

void fit_selection_to_text(ViewContext& context, std::int64_t tokens) {
  const Session& session = context.session();
  const Selection& at = session.selection;
  const std::int64_t place = std::max(at.query.value_or(0), at.key.value_or(0));
  const bool beyond = place >= tokens;
  Region region = session.region;
  region.row_end = std::min(region.row_end, tokens);
  region.col_end = std::min(region.col_end, tokens);
  if (region.row_begin >= tokens || region.col_begin >= tokens) region = {};
  if (tokens < 1 || (!beyond && region == session.region)) return;
  if (beyond) {
    context.window.say("Token " + std::to_string(place) + " is not selected any more: " +
                       short_name(session, selected_model(session)) + " reads " +
                       std::to_string(tokens) + (tokens == 1 ? " token" : " tokens"));
  }
  context.edit.apply_silently([&](Session& s) {
    if (beyond) s.selection.query.reset(), s.selection.key.reset();
    s.region = region;
  });
}

void select_query(ViewContext& context, std::optional<std::int64_t> query) {
  context.edit.apply("Select a query", [&](Session& s) {
    s.selection.query = query;
    s.selection.key.reset();
  });
}

void select_pair(ViewContext& context, std::int64_t query, std::int64_t key) {
  context.edit.apply("Select a pair",
                     [&](Session& s) { s.selection.query = query, s.selection.key = key; });
}

void select_marks(ViewContext& context, const widgets::Hover& marks) {
  context.edit.apply("Select in a figure", [&](Session& s) {
    Selection& at = s.selection;
    if (marks.distance) at.distance = marks.distance;
    if (marks.position) at.position = marks.position;
    if (marks.layer) at.layer = *marks.layer;
    if (marks.head) at.head = *marks.head;
    if (marks.model && *marks.model < static_cast<std::int64_t>(s.models.size())) {
      at.model = *marks.model;
    }
  });
}

void read_text(ViewContext& context, const std::string& name, const std::string& words) {
  context.edit.apply("Read " + name, [&](Session& s) {
    s.text.name = name, s.text.words = words;
    s.selection.query.reset(), s.selection.key.reset();
    s.region = {};
  });
}

void read_text_file_into(ViewContext& context, const std::string& path) {
  const std::string words = formats::read_text_file(path, std::uintmax_t{16} << 20);
  read_text(context, std::filesystem::absolute(path).lexically_normal().string(), words);
}

std::string words_of_sample(const std::string& words) {
  const tasks::NamedSample named = tasks::named_sample(words);
  std::string symbols = named.sample.prompt;
  if (!symbols.empty()) return symbols;
  for (const std::int64_t id : named.sample.input) {
    symbols += (symbols.empty() ? "" : " ") + named.task->input_symbol(id);
  }
  return symbols;
}

void read_sample(ViewContext& context, const std::string& words) {
  read_text(context, TextInput::kSample + words, words_of_sample(words));
}

void show_region(ViewContext& context, const Region& region) {
  context.edit.apply(
      "Zoom the map", [&](Session& s) { s.region = region; }, "zoom");
}

void set_theme(ViewContext& context, const std::string& theme) {
  context.edit.apply("Theme " + theme, [&](Session& s) { s.theme = theme; });
}

void show_view(ViewContext& context, const std::string& id) {
  context.edit.apply("Show " + id, [&](Session& s) { std::erase(s.closed_views, id); });
  context.window.focus_view = id;
}

}  // namespace phasescope::app
