#include "widgets/arcs.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

#include "widgets/focus_keys.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

// Where, of the width, the column of queries ends and that of keys begins.
constexpr float kQueriesEnd = 0.36F, kKeysBegin = 0.64F;
// The opacity of arcs that are not those of what is pointed at or selected.
constexpr float kBehind = 0.18F;

struct Columns {
  ImVec2 origin{0, 0};
  float width = 0, line = 0;
  int first = 0, end = 0;  // lines in sight

  float left() const { return origin.x + width * kQueriesEnd; }
  float right() const { return origin.x + width * kKeysBegin; }
  float middle(int row) const { return origin.y + line * (static_cast<float>(row) + 0.5F); }
  bool in_sight(int row) const { return row >= first && row < end; }
};

Columns columns_of(const ArcsSpec& spec) {
  Columns place;
  place.origin = ImGui::GetCursorScreenPos();
  place.width = ImGui::GetContentRegionAvail().x;
  place.line = std::round(ImGui::GetFontSize() * 1.35F);
  const ImDrawList* list = ImGui::GetWindowDrawList();
  const auto row_at = [&](float y) {
    return static_cast<int>(std::floor((y - place.origin.y) / place.line));
  };
  place.first = std::clamp(row_at(list->GetClipRectMin().y), 0, spec.tokens);
  place.end = std::clamp(row_at(list->GetClipRectMax().y) + 1, place.first, spec.tokens);
  return place;
}

void draw_arc(const Columns& place, const Arc& arc, float strength, const ImVec4& color) {
  const ImVec2 a{place.left(), place.middle(arc.query)}, b{place.right(), place.middle(arc.key)};
  const float bend = (b.x - a.x) * 0.45F;
  const float alpha = strength * std::clamp(0.12F + 0.88F * arc.weight, 0.0F, 1.0F);
  ImGui::GetWindowDrawList()->AddBezierCubic(
      a, {a.x + bend, a.y}, {b.x - bend, b.y}, b,
      ImGui::ColorConvertFloat4ToU32({color.x, color.y, color.z, alpha}),
      1.0F + 2.5F * std::clamp(arc.weight, 0.0F, 1.0F));
}

// "12 the", cut off at the edge of its column.
void draw_token(const Columns& place, int row, bool query, const std::string& text, bool marked,
                bool lit) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float pad = ImGui::GetFontSize() * 0.4F;
  const ImVec2 begin{query ? place.origin.x : place.right() + pad / 2,
                     place.origin.y + place.line * static_cast<float>(row)};
  const ImVec2 end{query ? place.left() - pad / 2 : place.origin.x + place.width,
                   begin.y + place.line};
  const ImVec4& accent = query ? palette().accent : palette().warn;
  if (marked) {
    list->AddRectFilled(begin, end,
                        ImGui::ColorConvertFloat4ToU32({accent.x, accent.y, accent.z, 0.25F}), 3);
  }
  if (lit) list->AddRect(begin, end, ImGui::ColorConvertFloat4ToU32(palette().accent), 3);
  const std::string number = std::to_string(row) + " ";
  const float wide = ImGui::CalcTextSize(number.c_str()).x;
  const float words = ImGui::CalcTextSize(text.c_str()).x;
  const float left = query ? std::max(begin.x + pad, end.x - pad - wide - words) : begin.x + pad;
  const float top = begin.y + (place.line - ImGui::GetFontSize()) / 2;
  list->PushClipRect(begin, end, true);
  list->AddText({left, top}, ImGui::ColorConvertFloat4ToU32(palette().quiet), number.c_str());
  list->AddText({left + wide, top}, ImGui::GetColorU32(ImGuiCol_Text), text.c_str());
  list->PopClipRect();
}

void draw_tokens(const ArcsSpec& spec, const Columns& place, const ArcsDrawn& drawn) {
  const auto text = [](const auto& of, int row) { return of ? of(row) : std::string(); };
  for (int row = place.first; row < place.end; ++row) {
    draw_token(place, row, true, text(spec.query_text, row), row == spec.query,
               row == drawn.hovered_query || row == spec.pointed_query);
    draw_token(place, row, false, text(spec.key_text, row), row == spec.key,
               row == drawn.hovered_key || row == spec.pointed_key);
  }
}

// Those of the queries in sight, then in front of them what is pointed at, or else selected.
void draw_all(const ArcsSpec& spec, const Columns& place, const ArcsDrawn& drawn) {
  const bool pointed = drawn.hovered_query >= 0 || drawn.hovered_key >= 0;
  const int query = pointed ? drawn.hovered_query : spec.query;
  const int key = pointed ? drawn.hovered_key : spec.query < 0 ? spec.key : -1;
  const float behind = query >= 0 || key >= 0 ? kBehind : 1;
  for (const Arc& arc : *spec.arcs) {
    if (place.in_sight(arc.query)) draw_arc(place, arc, behind, palette().accent);
  }
  for (const Arc& arc : arcs_of(*spec.arcs, query)) draw_arc(place, arc, 1, palette().accent);
  int count = 0;
  for (const Arc& arc : *spec.arcs) {
    if (arc.key == key && count++ < ArcsSpec::kMostToOneKey) {
      draw_arc(place, arc, 1, palette().warn);
    }
  }
}

}  // namespace

std::vector<Arc> arcs_of(const std::vector<Arc>& arcs, int query) {
  const auto [begin, end] = std::ranges::equal_range(arcs, query, {}, &Arc::query);
  return {begin, end};
}

ArcsDrawn draw_arcs(const ArcsSpec& spec) {
  ArcsDrawn drawn;
  if (!spec.arcs || spec.tokens < 1) return drawn;
  ImGui::PushFont(fonts().mono, 0.0F);
  const Columns place = columns_of(spec);
  const bool pressed = ImGui::InvisibleButton(
      "##arcs", {std::max(1.0F, place.width), place.line * static_cast<float>(spec.tokens)},
      ImGuiButtonFlags_EnableNav);
  const ArrowStep step = arrow_step(ImGui::GetItemID());
  const auto beside = [&](int row, int by) { return std::clamp(row + by, 0, spec.tokens - 1); };
  if (step.down != 0) drawn.stepped_query = beside(spec.query, step.down);
  if (step.right != 0) drawn.stepped_key = beside(spec.key, step.right);
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_NoNavOverride)) {
    const ImVec2 mouse = ImGui::GetMousePos();
    const int row =
        std::clamp(static_cast<int>((mouse.y - place.origin.y) / place.line), 0, spec.tokens - 1);
    if (mouse.x < place.left()) drawn.hovered_query = row;
    if (mouse.x > place.right()) drawn.hovered_key = row;
    if (pressed) drawn.clicked_query = drawn.hovered_query, drawn.clicked_key = drawn.hovered_key;
  }
  if (spec.reveal >= 0) {
    ImGui::SetScrollFromPosY(place.middle(spec.reveal) - ImGui::GetWindowPos().y);
  }
  draw_all(spec, place, drawn);
  draw_tokens(spec, place, drawn);
  ImGui::PopFont();
  return drawn;
}

}  // namespace phasescope::widgets
