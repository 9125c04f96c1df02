#include "app/views/field_form.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "app/views/view.h"
#include "protocol/error_info.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::BoundField;
using protocol::FieldKind;

constexpr float kFieldWidth = 14;  // font sizes

std::string words_in(const BoundField& field) {
  const std::vector<std::string> words = field.words();
  return words.empty() ? "" : words.front();
}

// Its title on the screen; its key stays its id.
std::string label_of(const BoundField& field) { return title_of(field) + "###" + field.key; }

// Its help, what it takes and what it is by default; made on hover alone.
void draw_help(const BoundField& field, const BoundField& fallback) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip)) return;
  const protocol::FieldInfo info = protocol::described({fallback}).front();
  std::string words = info.help + "\n" + info.type;
  if (!info.range.empty()) words += ", " + info.range;
  if (!info.choices.empty()) words += ": " + info.choices;
  if (!info.fallback.empty()) words += "; by default " + info.fallback;
  if (!field.about.wire_only) words += "\n" + protocol::option_name(field.key);
  tooltip(words);
}

// A truth value; one that may be neither has three words.
bool draw_flag(const BoundField& field, const BoundField& fallback) {
  const nlohmann::json value = field.write();
  if (fallback.write().is_null()) {
    const std::string before = value.is_null() ? kAutomatic : value.get<bool>() ? "yes" : "no";
    std::string word = before;
    if (!draw_choice(label_of(field).c_str(), word, {kAutomatic, "yes", "no"},
                     ImGui::GetFontSize() * kFieldWidth)) {
      return false;
    }
    field.read(word == kAutomatic ? fallback.write() : nlohmann::json(word == "yes"));
    return true;
  }
  bool on = value.get<bool>();
  if (!ImGui::Checkbox(label_of(field).c_str(), &on)) return false;
  field.read(on);
  return true;
}

// Some of several words, each with a tick; without any of them the field is as by default.
bool draw_words(const BoundField& field, const BoundField& fallback,
                const std::vector<std::string>& choices) {
  const auto before = field.write().get<std::vector<std::string>>();
  std::vector<std::string> words;
  bool changed = false;
  ImGui::PushID(field.key.c_str());
  for (const std::string& choice : choices) {
    bool on = std::ranges::find(before, choice) != before.end();
    changed |= ImGui::Checkbox((words_of_key(choice) + "###" + choice).c_str(), &on);
    if (on) words.push_back(choice);
    ImGui::SameLine();
  }
  ImGui::PopID();
  ImGui::TextUnformatted(title_of(field).c_str());
  if (changed) field.read(words.empty() ? fallback.write() : nlohmann::json(words));
  return changed;
}

// A tick, and what it may be given.
bool draw_optional(const BoundField& field) {
  bool on = !field.write().is_boolean() || field.write().get<bool>();
  if (!ImGui::Checkbox(label_of(field).c_str(), &on)) return false;
  field.read(on);
  return true;
}

bool is_form_field(const BoundField& field) {
  return field.kind != FieldKind::object && field.kind != FieldKind::repeated &&
         *field.about.argument == '\0';
}

}  // namespace

std::string title_of_key(const std::string& key) {
  std::string title = words_of_key(key);
  if (!title.empty()) {
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  }
  return title;
}

std::string title_of(const BoundField& field) {
  const std::string unit = field.about.unit;
  return (*field.about.title ? field.about.title : title_of_key(field.key)) +
         (unit.empty() ? "" : " (" + unit + ")");
}

void put_choices(const std::vector<BoundField>& fields, const nlohmann::json& chosen) {
  if (!chosen.is_object()) return;
  for (const BoundField& field : fields) {
    const auto found = chosen.find(field.key);
    if (found == chosen.end() || found->is_null()) continue;
    if (!protocol::detail::belongs(field, fields)) continue;
    try {
      field.read(*found);
    } catch (const protocol::RequestError&) {  // as it is by default
    }
  }
}

bool FieldForm::draw(nlohmann::json& chosen, const std::vector<BoundField>& fields,
                     const std::vector<BoundField>& defaults) {
  bool any = false;
  for (std::size_t n = 0; n < fields.size(); ++n) {
    const Change change = draw_line(fields[n], defaults[n]);
    if (change == Change::none) continue;
    any = true;
    const nlohmann::json value = fields[n].write();
    if (change == Change::emptied || value == defaults[n].write()) {
      chosen.erase(fields[n].key);
    } else {
      chosen[fields[n].key] = value;
    }
  }
  return any;
}

FieldForm::Change FieldForm::draw_line(const BoundField& field, const BoundField& fallback) {
  const std::vector<std::string> choices = protocol::choices_of(field.about);
  bool changed = false;
  if (field.kind == FieldKind::flag) {
    changed = draw_flag(field, fallback);
  } else if (!choices.empty() && field.kind == FieldKind::list) {
    changed = draw_words(field, fallback, choices);
  } else if (!choices.empty()) {
    std::string word = words_in(field);
    changed = draw_named_choice(label_of(field).c_str(), word, choices, words_of_key,
                                ImGui::GetFontSize() * kFieldWidth);
    if (changed) field.parse(word);
  } else if (field.kind == FieldKind::optional_value) {
    changed = draw_optional(field);
    draw_help(field, fallback);
    const Change typed =
        field.write() == nlohmann::json(false) ? Change::none : draw_text(field, fallback);
    return changed ? Change::made : typed;
  } else {
    return draw_text(field, fallback);
  }
  draw_help(field, fallback);
  return changed ? Change::made : Change::none;
}

// A field whose range leaves out what it is by default (0 texts for all of them) is emptied and not
// read.
FieldForm::Change FieldForm::draw_text(const BoundField& field, const BoundField& fallback) {
  Line& line = lines_[field.key];
  const bool path = field.kind == FieldKind::optional_value;
  const std::string label = path ? "Path###path of " + field.key : label_of(field);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * kFieldWidth);
  ImGui::InputTextWithHint(label.c_str(), path ? "the bundled texts" : kAutomatic, &line.typed);
  const bool entered = ImGui::IsItemDeactivatedAfterEdit(), active = ImGui::IsItemActive();
  draw_help(field, fallback);
  Change change = Change::none;
  if (entered) {
    const nlohmann::json before = field.write();
    try {
      line.fault.clear();
      if (!line.typed.empty()) {
        field.parse(line.typed);
      } else if (path) {
        field.read(true);
      } else if (before != fallback.write()) {
        change = Change::emptied;
      }
      if (field.write() != before) change = Change::made;
    } catch (const protocol::RequestError& error) {
      line.fault = error.info().message;
    }
  } else if (!active && line.fault.empty()) {
    line.typed = words_in(field);
  }
  if (!line.fault.empty()) ImGui::TextColored(widgets::palette().bad, "%s", line.fault.c_str());
  return change;
}

// The button tells that something was chosen.
bool OptionsForm::begin(const nlohmann::json& chosen, const nlohmann::json& usual) {
  const bool pressed = ImGui::Button(chosen == usual ? "Options###options" : "Options *###options");
  if (pressed) ImGui::OpenPopup("options");
  tooltip("What is read and measured; as on the command line");
  return ImGui::BeginPopup("options");
}

bool OptionsForm::draw_fields(nlohmann::json& chosen, const nlohmann::json& usual,
                              std::vector<BoundField> fields, std::vector<BoundField> defaults,
                              const std::set<std::string>& hidden) {
  std::set<std::string> left_out = hidden;
  for (const BoundField& field : fields) {
    const bool shown = is_form_field(field) && protocol::detail::belongs(field, fields);
    if (!shown) left_out.insert(field.key);
  }
  const auto is_left_out = [&](const BoundField& field) { return left_out.contains(field.key); };
  std::erase_if(fields, is_left_out), std::erase_if(defaults, is_left_out);
  bool changed = form_.draw(chosen, fields, defaults);
  ImGui::BeginDisabled(chosen == usual);
  if (ImGui::Button(kReset)) chosen = usual, changed = true;
  tooltip("As before anything was chosen");
  ImGui::EndDisabled();
  ImGui::EndPopup();
  return changed;
}

protocol::EvalRequest EvalChoices::request(std::vector<std::string> models) const {
  return with_choices(protocol::EvalRequest{.task = task, .models = std::move(models)}, options);
}

bool EvalForm::draw(EvalChoices& choices, const EvalChoices& usual,
                    const protocol::EvalTasks* tasks) {
  if (!OptionsForm::begin(choices.options, usual.options)) return false;
  bool changed = false;
  if (tasks) {
    std::vector<std::string> keys;
    for (const protocol::EvalTaskInfo& one : tasks->tasks) keys.push_back(one.key);
    const float width = ImGui::GetFontSize() * kFieldWidth;
    // What was chosen of another task's options means nothing to this one.
    if (draw_named_choice("Task###task", choices.task, keys, words_of_key, width)) {
      choices.options = usual.task == choices.task ? usual.options : nlohmann::json::object(),
      changed = true;
    }
    const auto task = std::ranges::find(tasks->tasks, choices.task, &protocol::EvalTaskInfo::key);
    if (task != tasks->tasks.end()) tooltip(task->title + "\n" + task->help + "\n" + task->source);
  }
  // Options of other tasks stand in the same request; the form leaves them out.
  protocol::EvalRequest now = choices.request({}), defaults{.task = choices.task};
  return form_.draw_fields(choices.options,
                           usual.task == choices.task ? usual.options : nlohmann::json::object(),
                           protocol::detail::bound_fields(now),
                           protocol::detail::bound_fields(defaults), {"device", "threads"}) ||
         changed;
}

}  // namespace phasescope::app
