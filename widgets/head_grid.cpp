#include "widgets/head_grid.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "widgets/focus_keys.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

// Pixels of a picture's edge: around smaller ones a line would take the place of what it frames.
constexpr float kLeastFramed = 14;

float caption_font() { return ImGui::GetFontSize() * 0.87F; }

// Lines of pictures: a layer's heads fill lines of their own, sorted ones all run on.
struct Placement {
  ImVec2 origin{0, 0};
  float pixels = 0, gap = 0, caption = 0;
  int columns = 1, cells = 0, group = 1;  // pictures in a line; in all; in a layer

  float step_x() const { return pixels + gap; }
  float step_y() const { return pixels + caption + gap; }
  int lines_of_group() const { return (group + columns - 1) / columns; }
  int lines() const { return (cells + group - 1) / group * lines_of_group(); }
  // -1 where a line has no picture in this column.
  int slot_at(int line, int column) const {
    const int within = line % lines_of_group() * columns + column;
    const int slot = line / lines_of_group() * group + within;
    return column < columns && within < group && slot < cells ? slot : -1;
  }
  ImVec2 corner(int line, int column) const {
    return {origin.x + static_cast<float>(column) * step_x(),
            origin.y + static_cast<float>(line) * step_y()};
  }
};

Placement empty_placement(const HeadGridSpec& grid, HeadCaptions captions) {
  Placement place;
  const bool with = captions != HeadCaptions::none;
  place.cells = grid.order.empty() ? grid.layers * grid.heads : static_cast<int>(grid.order.size());
  place.group = std::max(1, grid.order.empty() ? grid.heads : place.cells);
  place.gap = std::round(ImGui::GetFontSize() * (with ? 0.4F : 0.2F));
  place.caption = with ? caption_font() + 3 : 0;
  return place;
}

// The edge of pictures of which so many stand in a line.
float edge_of(Placement place, int columns, ImVec2 room) {
  place.columns = columns;
  const float wide = (room.x + place.gap) / static_cast<float>(columns) - place.gap;
  const float high =
      (room.y + place.gap) / static_cast<float>(place.lines()) - place.gap - place.caption;
  return std::floor(std::min(wide, high));
}

float largest_edge(const HeadGridSpec& grid, HeadCaptions captions, ImVec2 room) {
  const Placement place = empty_placement(grid, captions);
  float best = 0;
  // More columns make each narrower: none after the first that is too narrow has to be tried.
  for (int columns = 1; columns <= place.group; ++columns) {
    const float wide = (room.x + place.gap) / static_cast<float>(columns) - place.gap;
    if (columns > 1 && std::floor(wide) <= best) break;
    best = std::max(best, edge_of(place, columns, room));
  }
  return best;
}

Placement placement_of(const HeadGridSpec& grid, const HeadGridFit& fit) {
  Placement place = empty_placement(grid, fit.captions);
  const float room = ImGui::GetContentRegionAvail().x;
  place.origin = ImGui::GetCursorScreenPos();
  const float across = (room + place.gap) / static_cast<float>(std::max(1, grid.heads));
  place.pixels = fit.pixels > 0 ? fit.pixels : across - place.gap;
  place.pixels = std::floor(std::max(place.pixels, grid.smallest_pixels));
  place.columns = std::clamp(static_cast<int>((room + place.gap) / place.step_x()), 1, place.group);
  return place;
}

int cell_at(const HeadGridSpec& grid, int slot) {
  return grid.order.empty() ? slot : grid.order[static_cast<std::size_t>(slot)];
}

int cell_under(const HeadGridSpec& grid, const Placement& place, ImVec2 mouse) {
  const int column = static_cast<int>(std::floor((mouse.x - place.origin.x) / place.step_x()));
  const int line = static_cast<int>(std::floor((mouse.y - place.origin.y) / place.step_y()));
  if (column < 0 || line < 0 || line >= place.lines()) return -1;
  const int slot = place.slot_at(line, column);
  return slot < 0 ? -1 : cell_at(grid, slot);
}

// The picture beside that of a cell, as they stand; from none the first one.
int cell_beside(const HeadGridSpec& grid, const Placement& place, int cell, ArrowStep step) {
  int slot = 0;
  while (slot < place.cells && cell_at(grid, slot) != cell) ++slot;
  if (slot == place.cells) return cell_at(grid, 0);
  const int lines = place.lines_of_group(), within = slot % place.group;
  const int line = slot / place.group * lines + within / place.columns + step.down;
  const int column = within % place.columns + step.right;
  if (line < 0 || line >= place.lines() || column < 0) return cell;
  const int next = place.slot_at(line, column);
  return next < 0 ? cell : cell_at(grid, next);
}

void draw_thumbnail(const HeadGridSpec& grid, std::uint64_t picture, ImVec2 at, float pixels,
                    int cell, bool dim) {
  const ImVec2 end{at.x + pixels, at.y + pixels};
  const int layer = cell / grid.heads, head = cell % grid.heads;
  const ImVec2 uv0{static_cast<float>(head) / static_cast<float>(grid.heads),
                   static_cast<float>(layer) / static_cast<float>(grid.layers)};
  const ImVec2 uv1{uv0.x + 1.0F / static_cast<float>(grid.heads),
                   uv0.y + 1.0F / static_cast<float>(grid.layers)};
  ImDrawList* list = ImGui::GetWindowDrawList();
  if (picture) {
    list->AddImage(static_cast<ImTextureID>(picture), at, end, uv0, uv1,
                   dim ? IM_COL32(255, 255, 255, 60) : IM_COL32_WHITE);
  } else {
    list->AddRectFilled(at, end, ImGui::ColorConvertFloat4ToU32(palette().panel));
  }
}

void draw_frame(const HeadGridDraw& draw, ImVec2 at, float pixels, int cell) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 end{at.x + pixels, at.y + pixels};
  const bool chosen = draw.chosen && (*draw.chosen)[static_cast<std::size_t>(cell)];
  const bool lit = cell == draw.selected || cell == draw.hovered;
  if (!lit && !chosen && pixels < kLeastFramed) return;
  const ImVec4 color = lit ? palette().accent : chosen ? palette().good : palette().rule;
  const float width = cell == draw.selected || chosen ? 3.0F : lit ? 2.0F : 1.0F;
  list->AddRect(at, end, ImGui::ColorConvertFloat4ToU32(color), 0, width);
}

void draw_caption(const HeadGridDraw& draw, const Placement& place, ImVec2 at, int cell) {
  if (place.caption <= 0 || !draw.captions) return;
  const auto& words =
      draw.fit.captions == HeadCaptions::full ? draw.captions->full : draw.captions->brief;
  const ImVec4 color = cell == draw.selected ? palette().accent : palette().quiet;
  ImGui::GetWindowDrawList()->AddText(
      ImGui::GetFont(), caption_font(), {at.x, at.y + place.pixels + 1},
      ImGui::ColorConvertFloat4ToU32(color), words[static_cast<std::size_t>(cell)].c_str());
}

// Those in sight alone: pictures first, which share a texture, then what stands over them.
void draw_cells(const HeadGridSpec& grid, const HeadGridDraw& draw, const Placement& place,
                std::uint64_t picture) {
  const float top = ImGui::GetWindowDrawList()->GetClipRectMin().y - place.origin.y;
  const float bottom = ImGui::GetWindowDrawList()->GetClipRectMax().y - place.origin.y;
  const int first = std::max(0, static_cast<int>(std::floor(top / place.step_y())));
  const int end = std::min(place.lines(), static_cast<int>(std::ceil(bottom / place.step_y())));
  const auto each = [&](auto&& draw_one) {
    for (int line = first; line < end; ++line) {
      for (int column = 0; column < place.columns; ++column) {
        if (const int slot = place.slot_at(line, column); slot >= 0) {
          draw_one(place.corner(line, column), cell_at(grid, slot));
        }
      }
    }
  };
  each([&](ImVec2 at, int cell) {
    const bool dim = !draw.found.empty() && !draw.found[static_cast<std::size_t>(cell)];
    draw_thumbnail(grid, picture, at, place.pixels, cell, dim);
  });
  each([&](ImVec2 at, int cell) {
    draw_frame(draw, at, place.pixels, cell);
    draw_caption(draw, place, at, cell);
  });
}

float widest(const std::vector<std::string>& list) {
  float width = 0;
  for (const std::string& words : list) width = std::max(width, caption_width(words));
  return width;
}

}  // namespace

HeadAtlas atlas_of(int layers, int heads, int side, std::span<const float> thumbnails) {
  const std::size_t cells = static_cast<std::size_t>(layers) * heads;
  if (thumbnails.size() != cells * side * side) {
    throw std::invalid_argument("an atlas needs layers * heads * side * side values");
  }
  HeadAtlas atlas{layers * side, heads * side, {}};
  atlas.values.resize(thumbnails.size());
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      for (int row = 0; row < side; ++row) {
        const auto from = thumbnails.begin() +
                          ((static_cast<std::ptrdiff_t>(layer) * heads + head) * side + row) * side;
        const std::ptrdiff_t to =
            (static_cast<std::ptrdiff_t>(layer) * side + row) * atlas.cols + head * side;
        std::copy(from, from + side, atlas.values.begin() + to);
      }
    }
  }
  return atlas;
}

float caption_width(const std::string& words) {
  return ImGui::GetFont()->CalcTextSizeA(caption_font(), FLT_MAX, 0, words.c_str()).x;
}

CaptionWidths caption_widths(const HeadCaptionWords& words) {
  return {widest(words.full), widest(words.brief)};
}

float captioned_edge(const HeadGridSpec& grid, ImVec2 room) {
  return largest_edge(grid, HeadCaptions::full, room);
}

HeadGridFit fit_head_grid(const HeadGridSpec& grid, const CaptionWidths& widths, ImVec2 room,
                          HeadCaptions most) {
  const float with = captioned_edge(grid, room);
  const auto fits = [&](HeadCaptions form, float width) {
    return form <= most && width > 0 && with >= width;
  };
  if (fits(HeadCaptions::full, widths.full)) return {with, HeadCaptions::full};
  if (fits(HeadCaptions::brief, widths.brief)) return {with, HeadCaptions::brief};
  return {std::max(grid.smallest_pixels, largest_edge(grid, HeadCaptions::none, room)),
          HeadCaptions::none};
}

HeadGridDrawn draw_head_grid(const HeadGridSpec& grid, HeatmapTexture& atlas,
                             const HeadGridDraw& draw) {
  HeadGridDrawn drawn;
  const Placement place = placement_of(grid, draw.fit);
  if (place.cells == 0) return drawn;
  const ImVec2 size{static_cast<float>(place.columns) * place.step_x(),
                    static_cast<float>(place.lines()) * place.step_y()};
  const bool pressed = ImGui::InvisibleButton("##heads", size, ImGuiButtonFlags_EnableNav);
  const ArrowStep step = arrow_step(ImGui::GetItemID());
  if (step != ArrowStep{}) drawn.stepped = cell_beside(grid, place, draw.selected, step);
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_NoNavOverride)) {
    drawn.hovered = cell_under(grid, place, ImGui::GetMousePos());
  }
  HeadGridDraw now = draw;
  if (drawn.hovered >= 0) now.hovered = drawn.hovered;
  draw_cells(grid, now, place, atlas.colored(grid.look));
  if (pressed) drawn.clicked = drawn.hovered;
  return drawn;
}

}  // namespace phasescope::widgets
