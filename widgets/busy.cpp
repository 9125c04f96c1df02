#include "widgets/busy.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

// A bar that says how far, or a piece that wanders when nobody knows.
void draw_bar(double fraction, double seconds, float width) {
  const float height = ImGui::GetFontSize() * 0.35F;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float top = at.y + (ImGui::GetFrameHeight() - height) / 2;
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({at.x, top}, {at.x + width, top + height},
                      ImGui::ColorConvertFloat4ToU32(palette().rule), height / 2);
  float begin = 0, end = static_cast<float>(std::clamp(fraction, 0.0, 1.0));
  if (fraction < 0) {
    const auto phase = static_cast<float>(0.5 - 0.5 * std::cos(seconds * 2.2));
    begin = phase * 0.7F, end = begin + 0.3F;
  }
  list->AddRectFilled({at.x + begin * width, top}, {at.x + end * width, top + height},
                      ImGui::ColorConvertFloat4ToU32(palette().accent), height / 2);
  ImGui::Dummy({width, ImGui::GetFrameHeight()});
}

BusyAction draw_progress(const BusySpec& spec) {
  const float cancel = ImGui::CalcTextSize("Cancel").x + ImGui::GetStyle().FramePadding.x * 2;
  const float room = ImGui::GetContentRegionAvail().x;
  const float end = ImGui::GetCursorScreenPos().x + room;
  draw_bar(spec.fraction, spec.seconds, std::max(60.0F, room * 0.3F));
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  char words[160];
  if (spec.fraction >= 0) {
    std::snprintf(words, sizeof words, "%.0f %%  %s", 100 * spec.fraction, spec.text.c_str());
  } else {
    std::snprintf(words, sizeof words, "%s  %.0f s", spec.text.c_str(), spec.seconds);
  }
  ImGui::PushStyleColor(ImGuiCol_Text, palette().quiet);
  draw_line(words, ImGui::GetContentRegionAvail().x - cancel - ImGui::GetStyle().ItemSpacing.x);
  ImGui::PopStyleColor();
  ImGui::SameLine();
  // In places of the screen: those of a table's columns are counted from elsewhere.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({std::max(at.x, end - cancel), at.y});
  return ImGui::SmallButton("Cancel") ? BusyAction::cancel : BusyAction::none;
}

BusyAction draw_failure(const BusySpec& spec) {
  ImGui::PushTextWrapPos(0.0F);
  ImGui::TextColored(palette().bad, "%s", spec.text.c_str());
  if (!spec.hint.empty()) ImGui::TextColored(palette().quiet, "%s", spec.hint.c_str());
  ImGui::PopTextWrapPos();
  return ImGui::SmallButton("Try again") ? BusyAction::retry : BusyAction::none;
}

}  // namespace

void draw_line(const std::string& words, float width) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float offset = ImGui::GetCurrentWindow()->DC.CurrLineTextBaseOffset;
  const ImVec2 end{at.x + std::max(1.0F, width), at.y + offset + ImGui::GetTextLineHeight()};
  ImGui::RenderTextEllipsis(ImGui::GetWindowDrawList(), {at.x, at.y + offset}, end, end.x,
                            words.c_str(), nullptr, nullptr);
  ImGui::Dummy({end.x - at.x, ImGui::GetTextLineHeight()});
}

void draw_paragraph(const std::string& words, const ImVec4& color) {
  if (words.empty()) return;
  ImGui::PushTextWrapPos(0.0F);
  ImGui::TextColored(color, "%s", words.c_str());
  ImGui::PopTextWrapPos();
}

BusyAction draw_busy(const BusySpec& spec) {
  if (spec.state == BusyState::failed) return draw_failure(spec);
  if (spec.state == BusyState::busy && spec.seconds > 0.2) return draw_progress(spec);
  return BusyAction::none;
}

void draw_empty(const std::string& words) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float width = std::min(room.x * 0.8F, ImGui::GetFontSize() * 30);
  const ImVec2 size = ImGui::CalcTextSize(words.c_str(), nullptr, false, width);
  const ImVec2 at = ImGui::GetCursorPos();
  ImGui::SetCursorPos({at.x + std::max(0.0F, (room.x - size.x) / 2),
                       at.y + std::max(0.0F, (room.y - size.y) * 0.4F)});
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width);
  ImGui::TextColored(palette().quiet, "%s", words.c_str());
  ImGui::PopTextWrapPos();
}

}  // namespace phasescope::widgets
