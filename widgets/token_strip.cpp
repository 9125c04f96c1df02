#include "widgets/token_strip.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

#include "widgets/focus_keys.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

bool ends_line(const std::string& text) {
  return text.find("\u21B5") != std::string::npos || text.find("\u23CE") != std::string::npos ||
         text.find('\n') != std::string::npos;
}

// Pale yellow to red with rising loss; nothing at all where the loss is 0. Below it, as a
// difference may be, blue.
ImU32 loss_color(std::optional<double> loss, double high) {
  if (!loss || !std::isfinite(*loss)) return 0;
  const auto t = static_cast<float>(std::clamp(std::abs(*loss) / high, 0.0, 1.0));
  const ImVec4 above{0.95F, 0.72F - 0.50F * t, 0.30F - 0.05F * t, 0.05F + 0.72F * t};
  const ImVec4 below{0.25F - 0.13F * t, 0.62F - 0.22F * t, 0.95F, 0.05F + 0.72F * t};
  return ImGui::ColorConvertFloat4ToU32(*loss < 0 ? below : above);
}

}  // namespace

void draw_loss_scale(const TokenStripSpec& spec, float width) {
  constexpr int kSteps = 48;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = ImGui::GetTextLineHeight();
  const double low = spec.difference ? -spec.high_loss : 0;
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (int i = 0; i < kSteps; ++i) {
    const double loss = low + (spec.high_loss - low) * (i + 0.5) / kSteps;
    const float left = at.x + width * static_cast<float>(i) / kSteps;
    list->AddRectFilled({left, at.y}, {left + width / kSteps, at.y + height},
                        loss_color(loss, spec.high_loss));
  }
  list->AddRect(at, {at.x + width, at.y + height}, ImGui::GetColorU32(ImGuiCol_Border));
  ImGui::Dummy({width, height});
}

void TokenStrip::lay_out(const TokenStripSpec& spec, float width) {
  places_.clear();
  float x = 0;
  lines_ = 0;
  for (const StripToken& token : *spec.tokens) {
    const float size = std::max(4.0F, ImGui::CalcTextSize(token.text.c_str()).x) + 1;
    if (x > 0 && x + size > width) x = 0, ++lines_;
    places_.push_back({x, size, lines_});
    x += size;
    if (ends_line(token.text)) x = 0, ++lines_;
  }
  ++lines_;
  version_ = spec.version, width_ = width, font_size_ = ImGui::GetFontSize();
}

int TokenStrip::token_at(float x, int line) const {
  const auto begin = std::lower_bound(places_.begin(), places_.end(), line,
                                      [](const Place& p, int wanted) { return p.line < wanted; });
  for (auto it = begin; it != places_.end() && it->line == line; ++it) {
    if (x >= it->x && x < it->x + it->width) return static_cast<int>(it - places_.begin());
  }
  return -1;
}

// In the line above or below the one that stands nearest; from none the first one.
int TokenStrip::token_beside(int token, int right, int down) const {
  const int last = static_cast<int>(places_.size()) - 1;
  if (token < 0 || token > last) return 0;
  if (down == 0) return std::clamp(token + right, 0, last);
  const Place& from = places_[static_cast<std::size_t>(token)];
  const float x = from.x + from.width / 2;
  int best = token;
  float least = FLT_MAX;
  for (int n = 0; n <= last; ++n) {
    const Place& place = places_[static_cast<std::size_t>(n)];
    const float away = std::abs(place.x + place.width / 2 - x);
    if (place.line == from.line + down && away < least) best = n, least = away;
  }
  return best;
}

TokenStripDrawn TokenStrip::draw(const TokenStripSpec& spec) {
  TokenStripDrawn drawn;
  if (!spec.tokens || spec.tokens->empty()) return drawn;
  ImGui::PushFont(fonts().mono, 0.0F);
  const float width = ImGui::GetContentRegionAvail().x;
  if (version_ != spec.version || width_ != width || font_size_ != ImGui::GetFontSize()) {
    lay_out(spec, width);
  }
  const float line = std::round(ImGui::GetFontSize() * 1.45F);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::InvisibleButton(
      "##tokens", {width, line * static_cast<float>(lines_)}, ImGuiButtonFlags_EnableNav);
  const ArrowStep step = arrow_step(ImGui::GetItemID());
  if (step != ArrowStep{}) {
    const int next = token_beside(spec.selected, step.right, step.down);
    if (next != spec.selected) drawn.stepped = next;
  }
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_NoNavOverride)) {
    const ImVec2 mouse = ImGui::GetMousePos();
    drawn.hovered = token_at(mouse.x - at.x, static_cast<int>((mouse.y - at.y) / line));
    if (pressed) drawn.clicked = drawn.hovered;
  }
  const int reveal = drawn.stepped >= 0 ? drawn.stepped : spec.reveal;
  if (reveal >= 0 && reveal < static_cast<int>(places_.size())) {
    const auto line_of = static_cast<float>(places_[static_cast<std::size_t>(reveal)].line);
    ImGui::SetScrollFromPosY(at.y + line * line_of - ImGui::GetWindowPos().y);
  }
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float top = list->GetClipRectMin().y, bottom = list->GetClipRectMax().y;
  const ImU32 ink = ImGui::GetColorU32(ImGuiCol_Text);
  const ImU32 mark = ImGui::ColorConvertFloat4ToU32(
      {palette().accent.x, palette().accent.y, palette().accent.z, 0.28F});
  std::size_t range = 0;  // of spec.found, the first that ends behind the token
  const float lift = (line - ImGui::GetFontSize()) / 2;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const ImVec2 a{at.x + place.x, at.y + line * static_cast<float>(place.line)};
    const ImVec2 b{a.x + place.width - 1, a.y + line - 2};
    const int index = static_cast<int>(i);
    while (spec.found && range < spec.found->size() && (*spec.found)[range].second <= index) {
      ++range;
    }
    if (b.y < top || a.y > bottom) continue;
    if (spec.found && range < spec.found->size() && (*spec.found)[range].first <= index) {
      list->AddRectFilled(a, b, mark, 2);
    }
    const ImU32 fill = loss_color((*spec.tokens)[i].loss, spec.high_loss);
    if (fill) list->AddRectFilled(a, b, fill, 2);
    const bool key = index == spec.second || index == spec.pointed_key;
    const bool pointed =
        index == drawn.hovered || index == spec.pointed || index == spec.pointed_key;
    if (pointed || key || index == spec.selected) {
      list->AddRect(a, b, ImGui::ColorConvertFloat4ToU32(key ? palette().warn : palette().accent),
                    2, pointed ? 1.0F : 2.0F);
    }
    list->AddText({a.x, a.y + lift - 1}, ink, (*spec.tokens)[i].text.c_str());
  }
  ImGui::PopFont();
  return drawn;
}

}  // namespace phasescope::widgets
