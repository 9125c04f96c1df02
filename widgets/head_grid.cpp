#include "widgets/head_grid.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

struct Placement {
  ImVec2 origin;
  float pixels = 0, gap = 0, caption = 0;
  int columns = 1, cells = 0;

  float step_x() const { return pixels + gap; }
  float step_y() const { return pixels + caption + gap; }
  int rows() const { return (cells + columns - 1) / columns; }
  ImVec2 corner(int slot) const {
    return {origin.x + static_cast<float>(slot % columns) * step_x(),
            origin.y + static_cast<float>(slot / columns) * step_y()};
  }
};

// Whole layers stay in a row unless the cells were sorted: then a row is as long as the room.
Placement placement_of(const HeadGridSpec& grid) {
  Placement place;
  const float room = ImGui::GetContentRegionAvail().x;
  place.origin = ImGui::GetCursorScreenPos();
  place.cells = grid.order.empty() ? grid.layers * grid.heads : static_cast<int>(grid.order.size());
  place.gap = std::round(ImGui::GetFontSize() * (grid.captions.empty() ? 0.2F : 0.4F));
  place.columns = std::max(1, grid.heads);
  place.pixels = grid.cell_pixels > 0
                     ? grid.cell_pixels
                     : (room + place.gap) / static_cast<float>(place.columns) - place.gap;
  place.pixels = std::floor(std::max(place.pixels, grid.smallest_pixels));
  if (!grid.order.empty())
    place.columns = std::max(1, static_cast<int>((room + place.gap) / place.step_x()));
  place.caption = grid.captions.empty() ? 0 : ImGui::GetFontSize() * 0.87F + 3;
  return place;
}

int cell_at(const HeadGridSpec& grid, int slot) {
  return grid.order.empty() ? slot : grid.order[static_cast<std::size_t>(slot)];
}

int slot_under(const Placement& place, ImVec2 mouse) {
  const int column = static_cast<int>(std::floor((mouse.x - place.origin.x) / place.step_x()));
  const int row = static_cast<int>(std::floor((mouse.y - place.origin.y) / place.step_y()));
  if (column < 0 || column >= place.columns || row < 0) return -1;
  const int slot = row * place.columns + column;
  return slot < place.cells ? slot : -1;
}

void draw_thumbnail(const HeadGridSpec& grid, std::uint64_t picture, ImVec2 at, float pixels,
                    int cell) {
  const ImVec2 end{at.x + pixels, at.y + pixels};
  const int layer = cell / grid.heads, head = cell % grid.heads;
  const ImVec2 uv0{static_cast<float>(head) / static_cast<float>(grid.heads),
                   static_cast<float>(layer) / static_cast<float>(grid.layers)};
  const ImVec2 uv1{uv0.x + 1.0F / static_cast<float>(grid.heads),
                   uv0.y + 1.0F / static_cast<float>(grid.layers)};
  const bool dim = !grid.dimmed.empty() && grid.dimmed[static_cast<std::size_t>(cell)];
  ImDrawList* list = ImGui::GetWindowDrawList();
  if (picture)
    list->AddImage(static_cast<ImTextureID>(picture), at, end, uv0, uv1,
                   dim ? IM_COL32(255, 255, 255, 60) : IM_COL32_WHITE);
  else
    list->AddRectFilled(at, end, ImGui::ColorConvertFloat4ToU32(palette().panel));
}

void draw_frame(const HeadGridSpec& grid, ImVec2 at, float pixels, int cell, bool hovered) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 end{at.x + pixels, at.y + pixels};
  const bool selected = cell == grid.selected;
  const ImVec4 color = selected || hovered ? palette().accent : palette().rule;
  list->AddRect(at, end, ImGui::ColorConvertFloat4ToU32(color), 0, selected ? 3.0F : 1.0F);
}

void draw_caption(const HeadGridSpec& grid, const Placement& place, ImVec2 at, int cell) {
  if (grid.captions.empty()) return;
  const ImVec4 color = cell == grid.selected ? palette().accent : palette().quiet;
  const ImVec4 clip{at.x, at.y, at.x + place.pixels, at.y + place.step_y()};
  ImGui::GetWindowDrawList()->AddText(
      ImGui::GetFont(), ImGui::GetFontSize() * 0.87F, {at.x, at.y + place.pixels + 1},
      ImGui::ColorConvertFloat4ToU32(color), grid.captions[static_cast<std::size_t>(cell)].c_str(),
      nullptr, 0, &clip);
}

void draw_cells(const HeadGridSpec& grid, const Placement& place, std::uint64_t picture,
                int hovered_slot) {
  const ImVec2 clip_min = ImGui::GetWindowDrawList()->GetClipRectMin();
  const ImVec2 clip_max = ImGui::GetWindowDrawList()->GetClipRectMax();
  for (int slot = 0; slot < place.cells; ++slot) {
    const ImVec2 at = place.corner(slot);
    if (at.y > clip_max.y || at.y + place.step_y() < clip_min.y) continue;
    draw_thumbnail(grid, picture, at, place.pixels, cell_at(grid, slot));
  }
  for (int slot = 0; slot < place.cells; ++slot) {
    const ImVec2 at = place.corner(slot);
    if (at.y > clip_max.y || at.y + place.step_y() < clip_min.y) continue;
    draw_frame(grid, at, place.pixels, cell_at(grid, slot), slot == hovered_slot);
    draw_caption(grid, place, at, cell_at(grid, slot));
  }
}

}  // namespace

HeadAtlas atlas_of(int layers, int heads, int side, const std::vector<float>& thumbnails) {
  const std::size_t cells = static_cast<std::size_t>(layers) * heads;
  if (thumbnails.size() != cells * side * side)
    throw std::invalid_argument("an atlas needs layers * heads * side * side values");
  HeadAtlas atlas{layers * side, heads * side, {}};
  atlas.values.resize(thumbnails.size());
  for (int layer = 0; layer < layers; ++layer)
    for (int head = 0; head < heads; ++head)
      for (int row = 0; row < side; ++row) {
        const auto from = thumbnails.begin() +
                          ((static_cast<std::ptrdiff_t>(layer) * heads + head) * side + row) * side;
        const std::ptrdiff_t to =
            (static_cast<std::ptrdiff_t>(layer) * side + row) * atlas.cols + head * side;
        std::copy(from, from + side, atlas.values.begin() + to);
      }
  return atlas;
}

HeadGridDrawn draw_head_grid(const HeadGridSpec& grid, HeatmapTexture& atlas) {
  HeadGridDrawn drawn;
  const Placement place = placement_of(grid);
  if (place.cells == 0) return drawn;
  const ImVec2 size{static_cast<float>(std::min(place.columns, place.cells)) * place.step_x(),
                    static_cast<float>(place.rows()) * place.step_y()};
  const bool pressed = ImGui::InvisibleButton("##heads", size);
  int slot = -1;
  if (ImGui::IsItemHovered()) slot = slot_under(place, ImGui::GetMousePos());
  draw_cells(grid, place, atlas.colored(grid.look), slot);
  if (slot >= 0) drawn.hovered = cell_at(grid, slot);
  if (pressed && slot >= 0) drawn.clicked = drawn.hovered;
  return drawn;
}

}  // namespace phasescope::widgets
