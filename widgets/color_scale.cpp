#include "widgets/color_scale.h"

#include <imgui.h>
#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "widgets/map_colors.h"
#include "widgets/scaled.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

constexpr float kSmall = 0.87F;
constexpr float kGap = 4;  // pixels between colours, numbers and title

// Upwards, in the middle of the height; what has no room is cut off.
void draw_scale_title(std::string words, ImVec2 at, float height) {
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * kSmall);
  const auto length = [&] { return ImGui::CalcTextSize(words.c_str()).x; };
  if (length() > height) {
    words += "...";
    while (words.size() > 4 && length() > height) words.erase(words.size() - 4, 1);
  }
  ImPlot::AddTextVertical(ImGui::GetWindowDrawList(), {at.x, at.y + (height + length()) / 2},
                          ImGui::ColorConvertFloat4ToU32(palette().quiet), words.c_str());
  ImGui::PopFont();
}

}  // namespace

float color_scale_width(bool titled) { return ImGui::GetFontSize() * (titled ? 5.2F : 4.2F); }

void draw_color_scale(const MapSpec& map, float height, bool titled) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetFontSize() * 0.8F, font = ImGui::GetFontSize() * kSmall;
  const int steps = 128;
  // Of a map that is hardly there: below this it would run upwards, over what stands above.
  height = std::max(height, font * 3);
  const Ground ground = window_ground();
  for (int i = 0; i < steps; ++i) {
    const float top = at.y + height * static_cast<float>(i) / steps;
    const double t = 1 - (i + 0.5) / steps;
    list->AddRectFilled({at.x, top}, {at.x + width, top + height / steps + 0.5F},
                        color_u32(color_at(map.colormap, t, ground)));
  }
  list->AddRect(at, {at.x + width, at.y + height}, ImGui::GetColorU32(ImGuiCol_Border));
  float widest = 0;
  const auto label = [&](double value, float y) {
    const std::string words = short_number(value);
    list->AddText(ImGui::GetFont(), font, {at.x + width + scaled(kGap), y},
                  ImGui::ColorConvertFloat4ToU32(palette().quiet), words.c_str());
    widest = std::max(widest, ImGui::GetFont()->CalcTextSizeA(font, 1e9F, 0, words.c_str()).x);
  };
  label(value_at_place(map, 1), at.y - 1);
  label(value_at_place(map, 0.5), at.y + (height - font) / 2);
  label(value_at_place(map, 0), at.y + height - font);
  titled = titled && !map.value_label.empty();
  if (titled) {
    draw_scale_title(map.value_label, {at.x + width + widest + 2 * scaled(kGap), at.y}, height);
  }
  ImGui::Dummy({width + font * (titled ? 4.2F : 3.2F), height});
  if (!map.value_label.empty() && ImGui::IsItemHovered()) {
    ImGui::SetTooltip("%s: %s", map.value_label.c_str(), scale_text(map).c_str());
  }
}

void draw_color_line(const MapSpec& map) {
  const float line = ImGui::GetTextLineHeight(), gap = ImGui::GetFontSize() * 0.4F;
  const auto words = [](const std::string& text) {
    ImGui::TextColored(palette().quiet, "%s", text.c_str());
  };
  words((map.value_label.empty() ? "" : map.value_label + " ") +
        short_number(value_at_place(map, 0)));
  ImGui::SameLine(0, gap);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size{std::round(ImGui::GetFontSize() * 5), std::round(line * 0.7F)};
  const float top = at.y + (line - size.y) / 2;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const Ground ground = window_ground();
  for (int x = 0; x < static_cast<int>(size.x); ++x) {
    const float left = at.x + static_cast<float>(x);
    list->AddRectFilled({left, top}, {left + 1, top + size.y},
                        color_u32(color_at(map.colormap, (x + 0.5) / size.x, ground)));
  }
  list->AddRect({at.x, top}, {at.x + size.x, top + size.y}, ImGui::GetColorU32(ImGuiCol_Border));
  ImGui::Dummy({size.x, line});
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", scale_text(map).c_str());
  ImGui::SameLine(0, gap);
  words(short_number(value_at_place(map, 1)));
}

}  // namespace phasescope::widgets
