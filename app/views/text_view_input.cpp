// What the Text view reads: its editor, the texts to choose from, samples of tasks, the length.
#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "app/views/text_view.h"
#include "app/window/commands.h"
#include "formats/error.h"
#include "formats/sha256.h"
#include "formats/text_input.h"
#include "tasks/task.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

std::string bytes_in_words(std::int64_t bytes) {
  const double size = static_cast<double>(bytes);
  if (size < 1e6) return widgets::short_number(std::round(size / 1e3)) + " kB";
  if (size < 1e9) return widgets::short_number(std::round(size / 1e5) / 10) + " MB";
  return widgets::short_number(std::round(size / 1e7) / 100) + " GB";
}

void read_kept(ViewContext& context, const KeptText& kept) {
  const std::string sample = TextInput::sample_in(kept.name);
  if (kept.name == TextInput::kTyped) {
    read_text(context, kept.name, kept.words.str());
  } else if (!sample.empty()) {
    read_sample(context, sample);
  } else {
    read_text_file_into(context, kept.name);
  }
}

}  // namespace

std::string name_of_text(const std::string& name, const SharedText& words) {
  if (name != TextInput::kTyped) return name.substr(name.rfind('/') + 1);
  std::string begin = words.str().substr(0, 28);
  std::ranges::replace(begin, '\n', ' ');
  while (!begin.empty() && (static_cast<unsigned char>(begin.back()) & 0xC0U) == 0x80U) {
    begin.pop_back();  // no half of a character stays
  }
  return "\"" + begin + "\"";
}

std::vector<KeptText> other_texts(const Session& session) {
  const TextInput& now = session.text;
  std::vector<KeptText> texts = session.views.get<TextState>().kept;
  std::erase_if(texts, [&](const KeptText& kept) {
    return kept.name == now.name && (kept.name != TextInput::kTyped || kept.words == now.words);
  });
  if (!now.untouched()) texts.push_back({TextInput::kBundled, {}});
  return texts;
}

std::string id_of_text(const KeptText& text) {
  if (text.name != TextInput::kTyped) return text.name;
  return text.name + " " + formats::sha256_hex(std::string_view(text.words.str())).substr(0, 16);
}

KeptText text_of_id(const Session& session, const std::string& id) {
  if (id == TextInput::kBundled) return {id, default_session().text.words};
  for (const KeptText& kept : session.views.get<TextState>().kept) {
    if (kept.name == TextInput::kTyped && id_of_text(kept) == id) return kept;
  }
  if (id.starts_with(TextInput::kTyped + std::string(" "))) return {};
  if (const std::string sample = TextInput::sample_in(id); !sample.empty()) {
    return {id, words_of_sample(sample)};
  }
  return {id, formats::read_text_file(id)};
}

// A window that ends at any moment comes back with what was being typed. No step of undo.
void TextView::keep_draft(ViewContext& context, std::string words) {
  auto state = context.state<TextState>();
  state.draft = SharedText(std::move(words));
  context.edit.apply_silently([&](Session& s) { s.views.set(state); });
}

void TextView::draw_editor(ViewContext& context) {
  if (focus_editor_) ImGui::SetKeyboardFocusHere();
  focus_editor_ = false;
  if (ImGui::InputTextMultiline("##draft", &draft_, {-1, ImGui::GetFontSize() * 9},
                                ImGuiInputTextFlags_WordWrap)) {
    keep_draft(context, draft_);
  }
  const bool keys = ImGui::IsItemFocused() && ImGui::GetIO().KeyCtrl &&
                    ImGui::IsKeyPressed(ImGuiKey_Enter, false);
  ImGui::BeginDisabled(draft_.empty());
  const bool pressed = ImGui::Button("Read");
  ImGui::EndDisabled();
  if ((pressed || keys) && !draft_.empty()) {
    read_text(context, TextInput::kTyped, draft_);
    editing_ = false;
  }
  tooltip("Ctrl+Enter");
  ImGui::SameLine();
  if (ImGui::Button("Back")) editing_ = false;
  if (!editing_ && !context.state<TextState>().draft.empty()) keep_draft(context, "");
}

// The texts that were read, the one that the program opens on at the end.
void TextView::draw_choice_of_text(ViewContext& context) {
  const TextInput& now = context.session().text;
  width_of_next(9);
  const bool open = ImGui::BeginCombo("##text", name_of_text(now.name, now.words).c_str());
  tooltip(now.name);
  if (!open) return;
  for (const KeptText& kept : context.state<TextState>().kept) {
    ImGui::PushID(&kept);
    const bool typed = kept.name == TextInput::kTyped;
    const bool here = kept.name == now.name && (!typed || kept.words == now.words);
    if (ImGui::Selectable(name_of_text(kept.name, kept.words).c_str(), here) && !here) {
      try {
        read_kept(context, kept);
      } catch (const formats::Error& error) {
        context.window.say(error.full_text(), true);
      }
    }
    tooltip(kept.name);
    ImGui::PopID();
  }
  if (ImGui::Selectable(TextInput::kBundled, now.untouched()) && !now.untouched()) {
    read_text(context, TextInput::kBundled, default_session().text.words.str());
  }
  ImGui::EndCombo();
}

// A task, what its draw begins with, and how long the sample is.
void TextView::draw_sample(ViewContext& context) {
  if (ImGui::Button("Sample...")) ImGui::OpenPopup("sample");
  tooltip("A sample of a task: copying, addition, parity and others");
  if (!ImGui::BeginPopup("sample")) return;
  std::vector<std::string> keys;
  for (const auto& task : tasks::all_tasks()) keys.push_back(task->info().key);
  if (sample_task_.empty()) sample_task_ = keys.front();
  draw_choice("task", sample_task_, keys);
  const tasks::TaskInfo& info = tasks::task_named(sample_task_).info();
  tooltip(info.title + "\n" + info.help);
  const float width = ImGui::GetFontSize() * 7;
  ImGui::SetNextItemWidth(width);
  ImGui::InputInt("seed", &sample_seed_);
  sample_seed_ = std::max(0, sample_seed_);
  ImGui::SetNextItemWidth(width);
  ImGui::InputTextWithHint("length", "of the task", &sample_length_);
  tooltip(info.length_unit + ", " + std::to_string(info.shortest) + " to " +
          std::to_string(info.longest) + (info.dimensions > 1 ? "; two numbers: 3,4" : ""));
  if (ImGui::Button("Read")) {
    try {
      read_sample(context, sample_task_ + ":" + std::to_string(sample_seed_) +
                               (sample_length_.empty() ? "" : ":" + sample_length_));
      ImGui::CloseCurrentPopup();
    } catch (const formats::Error& error) {
      context.window.say(error.full_text(), true);
    }
  }
  ImGui::EndPopup();
}

// How many tokens are read, and what that takes, while it is typed already.
void TextView::draw_length(ViewContext& context) {
  const std::int64_t now = context.session().text.length;
  if (!typing_length_) draft_length_ = now;
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 5);
  ImGui::InputScalar("tokens", ImGuiDataType_S64, &draft_length_);
  draft_length_ = std::clamp<std::int64_t>(draft_length_, 0, std::int64_t{1} << 40);
  typing_length_ = ImGui::IsItemActive();
  const bool entered = ImGui::IsItemDeactivatedAfterEdit();
  tooltip("How many tokens of the text are read at most; 0: as many as each model was trained at");
  std::string words, all;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const std::string& model = context.session().models[i];
    const protocol::LoadReport* report = context.info(model);
    if (typing_length_ && draft_length_ != now && draft_length_ > 0) {
      auto& question = context.of(kLengthInfo, i);
      if (context.window.may_ask) {
        context.requests.ask(question,
                             protocol::InfoRequest{.model = model, .length = draft_length_});
      }
      report = question.answers_now() ? &question.answer()->result : nullptr;
    }
    if (!report) continue;
    const std::string one = "up to " + std::to_string(report->length) +
                            " tokens: " + bytes_in_words(report->memory_bytes);
    if (words.empty()) words = one;
    all += short_name(context.session(), model) + ": " + one + ", trained at " +
           std::to_string(report->model.context) + "\n";
  }
  next_control(ImGui::CalcTextSize(words.c_str()).x);
  draw_cut_line(words, widgets::palette().quiet);
  tooltip(all);
  if (entered && draft_length_ != now) read_tokens(context, draft_length_);
}

void TextView::draw_input(ViewContext& context) {
  if (ImGui::Button("Edit") && !editing_) {
    editing_ = focus_editor_ = true;
    draft_ = context.session().text.words.str();
  }
  tooltip("Type or paste a text of your own");
  next_control(5 * ImGui::GetFontSize());
  if (ImGui::Button("Open...")) context.window.open_dialog = "text";
  next_control(6 * ImGui::GetFontSize());
  draw_sample(context);
  next_control(9 * ImGui::GetFontSize());
  draw_choice_of_text(context);
  draw_tools(context, Bar::goes_on);
  draw_length(context);
  draw_reading(context);
  draw_openings(context);
}

void fit_to_text(ViewContext& context) {
  const std::string model = selected_model(context.session());
  if (model.empty() || context.has_stacks(model)) return;
  const auto& question = context.requests.of(kText, model);
  const auto* answer = question.answer();
  if (answer && question.answers_now() && answer->asked.is_of(context.text_for(model))) {
    fit_selection_to_text(context, static_cast<std::int64_t>(answer->result.tokens.size()));
  }
}

}  // namespace phasescope::app
