// What the models write on from the end of the Text view's text.
#include <imgui.h>

#include <cstdint>
#include <string>

#include "app/views/text_view.h"
#include "widgets/busy.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// A line for each token: where the head looked as it was written.
void draw_looks(const protocol::GenerateResult& written) {
  if (written.tokens.empty()) return;
  ImGui::TextDisabled("where %s looked as each token was written", written.head.c_str());
  for (const protocol::WrittenToken& token : written.tokens) {
    std::string line = token.text + "  <-";
    for (std::size_t n = 0; n < token.keys.size(); ++n) {
      line += "  " + token.words[n] + " (" + std::to_string(token.keys[n]) + ") " +
              widgets::short_number(token.weights[n]);
    }
    if (token.sink) line += "  sink " + widgets::short_number(*token.sink);
    ImGui::TextUnformatted(line.c_str());
  }
}

}  // namespace

void TextView::draw_continuation(ViewContext& context, std::size_t index) {
  if (!context.state<TextState>().continued) return;
  auto& question = context.of(kContinued, index);
  draw_model_name(context.session(), index);
  draw_question(context, question, "");
  const auto* answer = question.answer();
  if (!answer) return;
  const Dimmed dimmed(!question.answers_now());
  std::string words = answer->result.text;
  if (words.empty()) {
    for (const std::int64_t id : answer->result.ids) words += std::to_string(id) + " ";
  }
  ImGui::PushFont(widgets::fonts().mono, 0.0F);
  widgets::draw_paragraph(words, widgets::palette().accent);
  ImGui::PopFont();
  draw_looks(answer->result);
  const bool readable = !answer->result.text.empty() && question.answers_now();
  ImGui::PushID(static_cast<int>(index));
  ImGui::BeginDisabled(!readable);
  if (ImGui::SmallButton("Read it with the text")) {
    read_text(context, TextInput::kTyped, context.session().text.words.str() + answer->result.text);
  }
  ImGui::EndDisabled();
  ImGui::PopID();
}

}  // namespace phasescope::app
