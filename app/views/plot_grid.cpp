#include "app/views/plot_grid.h"

#include <algorithm>

#include "app/views/view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// In font sizes: what a figure needs to be read.
constexpr float kLeastWidth = 20, kLeastHeight = 16;

void draw_one(const widgets::PlotSpec& plot, widgets::PlotDraw options, bool title,
              const PlotGrid::DrawFigure& draw) {
  // In further lines where it is too long: "key 254" must not end as "key 2".
  if (title) ImGui::TextWrapped("%s", plot.title.c_str());
  draw_folded_notes(plot.notes);
  options.notes = false, options.square = true;
  draw(plot, options);
}

}  // namespace

float figure_height(float share, float in_sight, float font_sizes) {
  // In font sizes: a lower figure is title, legend and axes alone. And no fewer pixels than letters
  // of the usual size would ask for.
  constexpr float kLowest = 10;
  const float font = ImGui::GetFontSize(), most = font * font_sizes;
  const float least = std::max(font * kLowest, ImGui::GetStyle().FontSizeBase * font_sizes);
  return std::max(share, std::clamp(in_sight, std::min(least, most), most));
}

void draw_folded_notes(const std::vector<std::string>& notes) {
  if (notes.empty()) return;
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * 0.87F);
  const float room = ImGui::GetContentRegionAvail().x;
  const std::string more =
      notes.size() > 1 ? "  +" + std::to_string(notes.size() - 1) : std::string();
  std::string words = notes.front();
  const auto width = [&] { return ImGui::CalcTextSize((words + "..." + more).c_str()).x; };
  if (ImGui::CalcTextSize((words + more).c_str()).x > room) {
    while (words.size() > 1 && width() > room) {
      words.pop_back();
      while (words.size() > 1 && (static_cast<unsigned char>(words.back()) & 0xC0U) == 0x80U) {
        words.pop_back();  // no half of a character stays
      }
    }
    words += "...";
  }
  ImGui::TextColored(widgets::palette().quiet, "%s", (words + more).c_str());
  ImGui::PopFont();
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip)) return;
  std::string all;
  for (const std::string& note : notes) all += (all.empty() ? "" : "\n") + note;
  tooltip(all);
}

void PlotGrid::draw(const std::vector<widgets::PlotSpec>& plots, std::uint64_t version,
                    const Options& options, const DrawFigure& draw) {
  if (plots.empty()) return;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float font = ImGui::GetFontSize();
  const auto count = static_cast<int>(plots.size());
  const int columns = std::clamp(static_cast<int>(room.x / (font * kLeastWidth)), 1, count);
  const int rows = (count + columns - 1) / columns;
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const float share = (room.y - options.below) / static_cast<float>(rows) - 2 * gap;
  const float height = figure_height(share, room.y - 2 * gap, kLeastHeight);
  if (!ImGui::BeginTable("figures", columns, ImGuiTableFlags_SizingStretchSame)) return;
  for (const widgets::PlotSpec& plot : plots) {
    ImGui::TableNextColumn();
    Picture& picture = pictures_[plot.id];
    if (plot.map && picture.version != version) {
      picture.texture.set_values(plot.map->rows, plot.map->cols, plot.map->values);
      picture.version = version;
    }
    ImGui::PushID(plot.id.c_str());
    if (ImGui::BeginChild("figure", {0, height}, ImGuiChildFlags_NavFlattened,
                          ImGuiWindowFlags_NoScrollWithMouse)) {
      const Dimmed dimmed(options.old);
      widgets::PlotDraw look;
      look.version = version, look.texture = &picture.texture;
      draw_one(plot, look, options.titles, draw);
    }
    ImGui::EndChild();
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace phasescope::app
