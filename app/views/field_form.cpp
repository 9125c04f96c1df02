#include "app/views/field_form.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <utility>

#include "app/views/view.h"
#include "protocol/error_info.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::BoundField;

std::string words_in(const BoundField& field) {
  const std::vector<std::string> words = field.words();
  return words.empty() ? "" : words.front();
}

std::string title_of(const BoundField& field) {
  std::string title = field.key;
  std::ranges::replace(title, '_', ' ');
  return title;
}

// Those of the options of the task, and the corpus that it reads.
std::vector<BoundField> fields_of(protocol::EvalRequest& request) {
  std::vector<BoundField> fields = protocol::detail::bound_fields(request.perplexity);
  for (BoundField& field : protocol::detail::bound_fields(request))
    if (field.key == "corpus") fields.push_back(std::move(field));
  return fields;
}

}  // namespace

bool FieldForm::draw(const std::vector<BoundField>& fields,
                     const std::vector<BoundField>& defaults) {
  bool changed = false;
  for (std::size_t n = 0; n < fields.size(); ++n) changed |= draw_line(fields[n], defaults[n]);
  return changed;
}

bool FieldForm::draw_line(const BoundField& field, const BoundField& fallback) {
  const float width = ImGui::GetFontSize() * 14;
  const std::vector<std::string> choices = protocol::choices_of(field.about);
  if (!choices.empty() && field.kind == protocol::FieldKind::value) {
    std::string word = words_in(field);
    const bool changed = draw_choice(title_of(field).c_str(), word, choices, width);
    if (changed) field.parse(word);
    tooltip(field.about.help);
    return changed;
  }
  if (field.kind == protocol::FieldKind::flag) {
    bool set = field.write() == nlohmann::json(true);
    const bool changed = ImGui::Checkbox(title_of(field).c_str(), &set);
    if (changed) field.read(set);
    tooltip(field.about.help);
    return changed;
  }
  Line& line = lines_[field.key];
  ImGui::SetNextItemWidth(width);
  ImGui::InputText(title_of(field).c_str(), &line.typed);
  tooltip(field.about.help);
  const bool entered = ImGui::IsItemDeactivatedAfterEdit();
  bool changed = false;
  if (entered) {
    const nlohmann::json before = field.write();
    try {
      line.fault.clear();
      if (line.typed.empty()) {
        field.read(fallback.write());
      } else {
        field.parse(line.typed);
      }
      changed = field.write() != before;
    } catch (const protocol::RequestError& error) {
      line.fault = error.info().message;
    }
  } else if (!ImGui::IsItemActive() && line.fault.empty()) {
    line.typed = words_in(field);
  }
  if (!line.fault.empty()) ImGui::TextColored(widgets::palette().bad, "%s", line.fault.c_str());
  return changed;
}

protocol::EvalRequest EvalChoices::request(std::vector<std::string> models) const {
  protocol::EvalRequest asked{
      .task = "perplexity", .models = std::move(models), .perplexity = perplexity};
  if (!corpus.empty()) asked.corpus = {.asked = true, .path = corpus};
  return asked;
}

bool EvalForm::draw(EvalChoices& choices, const EvalChoices& defaults) {
  if (ImGui::Button("Options")) ImGui::OpenPopup("options");
  tooltip("What is read and measured; as on the command line");
  if (!ImGui::BeginPopup("options")) return false;
  protocol::EvalRequest asked = choices.request({}), as_by_default = defaults.request({});
  const bool changed = form_.draw(fields_of(asked), fields_of(as_by_default));
  ImGui::EndPopup();
  choices = {asked.perplexity, asked.corpus.path};
  return changed;
}

}  // namespace phasescope::app
