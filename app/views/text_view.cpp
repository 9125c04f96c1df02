#include "app/views/text_view.h"

#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::TextResult;
using protocol::TokenReading;

constexpr double kHighLoss = 6;

std::vector<widgets::StripToken> strip_tokens(const TextResult& result) {
  std::vector<widgets::StripToken> tokens;
  for (const TokenReading& token : result.tokens) tokens.push_back({token.text, token.loss});
  return tokens;
}

std::string headline(const TextResult& result) {
  std::string words;
  if (std::isfinite(result.bits_per_byte))
    words = widgets::short_number(result.bits_per_byte) + " bits/byte, ";
  if (std::isfinite(result.loss)) words += widgets::short_number(result.loss) + " nats/token, ";
  return words + std::to_string(result.tokens.size()) + " tokens";
}

void draw_guess(const protocol::Guess& guess, bool hit) {
  const float width = ImGui::GetContentRegionAvail().x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float line = ImGui::GetTextLineHeight();
  const ImVec4 color = hit ? widgets::palette().good : widgets::palette().accent;
  ImGui::GetWindowDrawList()->AddRectFilled(
      at, {at.x + width * static_cast<float>(std::clamp(guess.probability, 0.0, 1.0)), at.y + line},
      ImGui::ColorConvertFloat4ToU32({color.x, color.y, color.z, 0.22F}), 2);
  ImGui::PushFont(widgets::fonts().mono, 0.0F);
  ImGui::TextUnformatted(guess.text.c_str());
  ImGui::PopFont();
  char words[16];
  std::snprintf(words, sizeof words, "%.1f %%", 100 * guess.probability);
  ImGui::SameLine();
  ImGui::SetCursorPosX(std::max(
      ImGui::GetCursorPosX(),
      ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(words).x));
  ImGui::TextColored(widgets::palette().quiet, "%s", words);
}

}  // namespace

std::string TextView::help_text() const {
  return "All open models read this text. A token's colour is the model's loss on it, clear at 0 "
         "and red at 6 nats and above. Hover to see what the model expected there; click to make "
         "the token the query of the other views.";
}

void TextView::ask(ViewContext& context) {
  ask_of_all(context, kText, [](const std::string& model, const TextInput& text) {
    protocol::TextRequest request{.model = model};
    set_text(request.reading, text);
    return request;
  });
}

std::vector<Saved> TextView::saved(ViewContext& context) {
  const auto answers = shown_answers(context, kText);
  if (answers.empty()) return {};
  Output output;
  std::vector<TextResult> texts;
  for (const auto* answer : answers.list) {
    texts.push_back(answer->result);
    output.result["texts"].push_back(protocol::to_json_form(answer->result));
    output.provenance.push_back(protocol::to_json_form(answer->result.provenance));
  }
  output.figures = {token_loss_figure(texts, names_of(context.session()))};
  return {{"", std::move(output), command_of<protocol::TextRequest>(answers.asked())}};
}

void TextView::draw_editor(ViewContext& context) {
  ImGui::InputTextMultiline("##draft", &draft_, {-1, ImGui::GetFontSize() * 9},
                            ImGuiInputTextFlags_WordWrap);
  const bool keys = ImGui::IsItemFocused() && ImGui::GetIO().KeyCtrl &&
                    ImGui::IsKeyPressed(ImGuiKey_Enter, false);
  if ((ImGui::Button("Read") || keys) && !draft_.empty()) {
    read_text(context, TextInput::kTyped, draft_);
    editing_ = false;
  }
  tooltip("Ctrl+Enter");
  ImGui::SameLine();
  if (ImGui::Button("Back")) editing_ = false;
}

void TextView::draw_input(ViewContext& context) {
  if (ImGui::Button("Edit") && !editing_) {
    editing_ = true;
    draft_ = context.session().text.words.str();
  }
  tooltip("Type or paste a text of your own");
  ImGui::SameLine();
  if (ImGui::Button("Open...")) context.window.open_dialog = "text";
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  const std::string& name = context.session().text.name;
  const std::size_t slash = name.rfind('/');
  ImGui::TextUnformatted(name.c_str() + (slash == std::string::npos ? 0 : slash + 1));
  tooltip(name);
  draw_tools(context);
}

void TextView::draw_model(ViewContext& context, std::size_t index) {
  auto& question = context.of(kText, index);
  draw_model_name(context.session(), index);
  if (const auto* answer = question.answer()) {
    ImGui::SameLine();
    ImGui::PushTextWrapPos(0.0F);
    ImGui::TextColored(widgets::palette().quiet, "%s", headline(answer->result).c_str());
    ImGui::PopTextWrapPos();
  }
  draw_question(context, question, "");
  if (!question.answer()) return;
  const std::string& note = question.answer()->result.provenance.note;
  if (!note.empty()) widgets::draw_notes({note});
  const Dimmed dimmed(!question.answers_now());
  Strip& strip = strips_[context.session().models[index]];
  const auto& tokens = strip.tokens.get(serials_of(question.answer()),
                                        [&] { return strip_tokens(question.answer()->result); });
  widgets::TokenStripSpec spec{&tokens, strip.tokens.version(), kHighLoss, -1, -1};
  const Selection& at = context.session().selection;
  spec.selected = static_cast<int>(at.query.value_or(-1));
  spec.second = static_cast<int>(at.key.value_or(-1));
  ImGui::PushID(static_cast<int>(index));
  const widgets::TokenStripDrawn drawn = strip.strip.draw(spec);
  ImGui::PopID();
  if (drawn.hovered >= 0) hovered_ = drawn.hovered;
  if (drawn.clicked >= 0) {
    const bool again = at.query == drawn.clicked;
    select_query(context, again ? std::nullopt : std::optional<int64_t>(drawn.clicked));
  }
  ImGui::Dummy({0, 4});
}

void TextView::draw_guesses(ViewContext& context) {
  const int64_t token = hovered_ >= 0 ? hovered_ : context.session().selection.query.value_or(-1);
  if (token < 0) {
    widgets::draw_notes({"Colour: loss, 0 .. 6 nats. Hover a token to see what was expected."});
    return;
  }
  if (!ImGui::BeginTable("guesses", std::max(1, static_cast<int>(context.models())))) return;
  for (std::size_t i = 0; i < context.models(); ++i) {
    ImGui::TableNextColumn();
    const auto* answer = context.of(kText, i).answer();
    if (!answer || token >= static_cast<int64_t>(answer->result.tokens.size())) continue;
    const TokenReading& reading = answer->result.tokens[static_cast<std::size_t>(token)];
    draw_model_name(context.session(), i);
    ImGui::SameLine();
    ImGui::TextColored(
        widgets::palette().quiet, "%d \"%s\" %s", static_cast<int>(token), reading.text.c_str(),
        reading.loss ? (widgets::short_number(*reading.loss) + " nats").c_str() : "no loss");
    const std::size_t shown = std::min<std::size_t>(5, reading.guesses.size());
    for (std::size_t k = 0; k < shown; ++k)
      draw_guess(reading.guesses[k], reading.guesses[k].id == reading.id);
  }
  ImGui::EndTable();
}

void TextView::draw_content(ViewContext& context) {
  draw_input(context);
  if (editing_) draw_editor(context);
  if (context.models() == 0) return widgets::draw_empty("Open a model to read this text with it.");
  const float below = ImGui::GetTextLineHeightWithSpacing() * 6.6F;
  hovered_ = -1;
  if (ImGui::BeginChild("tokens", {0, std::max(80.0F, ImGui::GetContentRegionAvail().y - below)}))
    for (std::size_t i = 0; i < context.models(); ++i) draw_model(context, i);
  ImGui::EndChild();
  ImGui::Separator();
  draw_guesses(context);
}

}  // namespace phasescope::app
