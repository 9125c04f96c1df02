#include "widgets/plot_series.h"

#include <imgui.h>
#include <implot.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "widgets/busy.h"
#include "widgets/scaled.h"
#include "widgets/series_marks.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

// Of the letters beside markers, of those around.
constexpr float kSmall = 0.87F;
// The line keeps its colour on it, and several bands over each other are still told apart.
constexpr float kBandOpacity = 0.22F;

// Of a series for ImPlot, which shows it nowhere.
std::string imgui_id_of(int index) { return "##" + std::to_string(index); }

ImPlotSpec line_look(const Series& series) {
  ImPlotSpec look;
  look.LineColor = series_vec(series.color, series.quiet ? 0.55F : 1.0F);
  look.LineWeight = scaled(series.quiet ? 1.0F : static_cast<float>(series.width));
  return look;
}

// The colour has the opacity itself: ImPlot would multiply a FillAlpha into it twice.
ImPlotSpec fill_look(const Series& series, float alpha) {
  ImPlotSpec look;
  look.FillColor = series_vec(series.color, alpha);
  look.LineColor = series_vec(series.color);
  look.LineWeight = scaled(look.LineWeight);
  return look;
}

bool has_band(const Series& series) {
  return !series.y.empty() && series.low.size() == series.y.size() &&
         series.high.size() == series.y.size();
}

int count_of(const Series& series) {
  return static_cast<int>(std::min(series.x.size(), series.y.size()));
}

// ImPlot has no dashed lines; drawn as every other piece of the polyline between pixels.
void draw_dashed(const Series& series) {
  ImDrawList* list = ImPlot::GetPlotDrawList();
  const ImU32 color = ImGui::ColorConvertFloat4ToU32(line_look(series).LineColor);
  const float width = line_look(series).LineWeight, dash = scaled(6);
  float walked = 0;
  ImPlot::PushPlotClipRect();
  for (int i = 1; i < count_of(series); ++i) {
    const ImVec2 a = ImPlot::PlotToPixels(series.x[i - 1], series.y[i - 1]);
    const ImVec2 b = ImPlot::PlotToPixels(series.x[i], series.y[i]);
    const float length = std::hypot(b.x - a.x, b.y - a.y);
    if (!std::isfinite(length) || length <= 0 || length > 1e5F) continue;
    for (float at = 0; at < length;) {
      const float left = dash - std::fmod(walked + at, dash);
      const float end = std::min(length, at + left);
      const bool on = static_cast<int>((walked + at) / dash) % 2 == 0;
      const auto mix = [&](float t) {
        return ImVec2(a.x + (b.x - a.x) * t / length, a.y + (b.y - a.y) * t / length);
      };
      if (on) list->AddLine(mix(at), mix(end), color, width);
      at = end + 0.01F;
    }
    walked += length;
  }
  ImPlot::PopPlotClipRect();
}

// As plot_svg.cpp has them; `radius` in pixels of the usual density.
void draw_point(ImDrawList* list, PointShape shape, ImVec2 at, ImU32 color, float radius = 3.2F) {
  const float r = scaled(radius), x = at.x, y = at.y;
  switch (shape) {
    case PointShape::none:
      return;
    case PointShape::circle:
      return list->AddCircleFilled(at, r, color);
    case PointShape::square:
      return list->AddRectFilled({x - 0.9F * r, y - 0.9F * r}, {x + 0.9F * r, y + 0.9F * r}, color);
    case PointShape::triangle:
      return list->AddTriangleFilled({x, y - 1.3F * r}, {x + 1.2F * r, y + 0.9F * r},
                                     {x - 1.2F * r, y + 0.9F * r}, color);
    case PointShape::diamond:
      return list->AddQuadFilled({x, y - 1.4F * r}, {x + 1.2F * r, y}, {x, y + 1.4F * r},
                                 {x - 1.2F * r, y}, color);
    case PointShape::wedge:
      return list->AddTriangleFilled({x, y + 1.3F * r}, {x - 1.2F * r, y - 0.9F * r},
                                     {x + 1.2F * r, y - 0.9F * r}, color);
    case PointShape::cross:
      list->AddLine({x - r, y - r}, {x + r, y + r}, color, scaled(1.6F));
      return list->AddLine({x - r, y + r}, {x + r, y - r}, color, scaled(1.6F));
    case PointShape::open_circle:
      return list->AddCircle(at, 0.75F * r, color, 0, 0.5F * r);
    case PointShape::open_square:
      list->AddRect({x - 0.68F * r, y - 0.68F * r}, {x + 0.68F * r, y + 0.68F * r}, color, 0,
                    0.45F * r);
  }
}

void draw_points(const Series& series, PointShape shape) {
  if (series.points == PointShape::none) return;
  const ImU32 color = ImGui::ColorConvertFloat4ToU32(line_look(series).LineColor);
  ImPlot::PushPlotClipRect();
  for (int i = 0; i < count_of(series); ++i) {
    const ImVec2 at = ImPlot::PlotToPixels(series.x[i], series.y[i]);
    if (std::isfinite(at.x) && std::isfinite(at.y)) {
      draw_point(ImPlot::GetPlotDrawList(), shape, at, color);
    }
  }
  ImPlot::PopPlotClipRect();
}

void draw_line(const Series& series, PointShape shape, const char* name) {
  draw_points(series, shape);
  if (series.dashed || series.quiet) return draw_dashed(series);
  ImPlot::PlotLine(name, series.x.data(), series.y.data(), count_of(series), line_look(series));
}

void draw_histogram(const Series& series, const char* name) {
  // Twice each edge, so that the outline is a staircase that starts and ends at 0.
  std::vector<double> x, y;
  const std::size_t bins = std::min(series.y.size(), series.x.size() - 1);
  x.push_back(series.x[0]), y.push_back(0);
  for (std::size_t i = 0; i < bins; ++i) {
    x.insert(x.end(), {series.x[i], series.x[i + 1]});
    y.insert(y.end(), {series.y[i], series.y[i]});
  }
  x.push_back(series.x[bins]), y.push_back(0);
  const int count = static_cast<int>(x.size());
  ImPlot::PlotShaded(name, x.data(), y.data(), count, 0.0, fill_look(series, 0.26F));
  ImPlot::PlotLine(name, x.data(), y.data(), count, line_look(series));
}

// A line from low to high at each point that has both.
void draw_ends(const Series& series, const char* name) {
  if (!has_band(series)) return;
  std::vector<double> below(series.y.size()), above(series.y.size());
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    const bool known = std::isfinite(series.low[i]) && std::isfinite(series.high[i]);
    below[i] = known ? series.y[i] - series.low[i] : 0;
    above[i] = known ? series.high[i] - series.y[i] : 0;
  }
  ImPlot::PlotErrorBars(name, series.x.data(), series.y.data(), below.data(), above.data(),
                        count_of(series), line_look(series));
}

void draw_bars(const Series& series, const char* name) {
  const double step = series.x.size() > 1 ? std::abs(series.x[1] - series.x[0]) : 1.0;
  ImPlot::PlotBars(name, series.x.data(), series.y.data(), count_of(series), 0.76 * step,
                   fill_look(series, 0.5F));
  draw_ends(series, name);
}

ImPlotMarker marker_of(PointShape shape) {
  switch (shape) {
    case PointShape::square:
      return ImPlotMarker_Square;
    case PointShape::triangle:
      return ImPlotMarker_Up;
    case PointShape::diamond:
      return ImPlotMarker_Diamond;
    case PointShape::wedge:
      return ImPlotMarker_Down;
    case PointShape::cross:
      return ImPlotMarker_Cross;
    case PointShape::open_square:
      return ImPlotMarker_Square;
    case PointShape::none:
    case PointShape::circle:
    case PointShape::open_circle:
      break;
  }
  return ImPlotMarker_Circle;
}

void draw_scatter(const Series& series, PointShape shape, const char* name) {
  const int count = count_of(series);
  draw_ends(series, name);
  ImPlotSpec look = fill_look(series, 1.0F);
  look.Marker = marker_of(shape);
  look.MarkerSize = scaled(3.5F);
  look.MarkerFillColor = look.MarkerLineColor = series_vec(series.color);
  if (shape == PointShape::open_circle || shape == PointShape::open_square) {
    look.MarkerFillColor.w = 0;
  }
  if (series.sizes.empty()) {
    ImPlot::PlotScatter(name, series.x.data(), series.y.data(), count, look);
    return;
  }
  for (int i = 0; i < count; ++i) {
    look.MarkerSize = scaled(static_cast<float>(series.sizes[static_cast<std::size_t>(i)]));
    ImPlot::PlotScatter(name, series.x.data() + i, series.y.data() + i, 1, look);
  }
}

}  // namespace

void draw_band(const Series& series, int index, Scale scale_of_x, Scale scale_of_y) {
  if (series.kind != SeriesKind::line || series.x.empty()) return;
  const std::string name = imgui_id_of(index);
  const double axis_end = ImPlot::GetPlotLimits().Y.Min;
  for (const auto& run : band_runs(series, scale_of_y)) {
    const BandEdges edges = band_edges(series, run, scale_of_x, scale_of_y, axis_end);
    ImPlot::PlotShaded(name.c_str(), edges.x.data(), edges.low.data(), edges.high.data(),
                       static_cast<int>(edges.x.size()), fill_look(series, kBandOpacity));
  }
}

void draw_series(const Series& series, int index, PointShape shape) {
  if (series.x.empty() || series.y.empty()) return;
  const std::string words = imgui_id_of(index);
  const char* name = words.c_str();
  switch (series.kind) {
    case SeriesKind::line:
      return draw_line(series, shape, name);
    case SeriesKind::bars:
      return draw_bars(series, name);
    case SeriesKind::histogram:
      return draw_histogram(series, name);
    case SeriesKind::scatter:
      return draw_scatter(series, shape, name);
  }
}

void draw_series_marks(const PlotSpec& plot, const std::vector<PointShape>& shapes) {
  const float left = ImPlot::GetPlotPos().x, right = left + ImPlot::GetPlotSize().x;
  const auto marks = series_marks(plot, shapes, left, right, [](double x, double y) {
    const ImVec2 at = ImPlot::PlotToPixels(x, y);
    return MarkPlace{at.x, at.y};
  });
  ImPlot::PushPlotClipRect();
  for (std::size_t n = 0; n < marks.size(); ++n) {
    const ImU32 color = ImGui::ColorConvertFloat4ToU32(series_vec(plot.series[n].color));
    for (const auto& [x, y] : marks[n]) {
      draw_point(ImPlot::GetPlotDrawList(), shapes[n],
                 {static_cast<float>(x), static_cast<float>(y)}, color,
                 static_cast<float>(kMarkRadius));
    }
  }
  ImPlot::PopPlotClipRect();
}

void shade_beyond(const Marker& marker) {
  if (!marker.vertical || !marker.beyond) return;
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const float right = origin.x + size.x;
  const float from = std::max(origin.x, ImPlot::PlotToPixels(marker.at, 0).x);
  if (!(from < right)) return;
  ImVec4 color = palette().quiet;
  color.w = 0.13F;
  ImPlot::GetPlotDrawList()->AddRectFilled({from, origin.y}, {right, origin.y + size.y},
                                           ImGui::ColorConvertFloat4ToU32(color));
}

int draw_marker(const Marker& marker, int place) {
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const ImVec4 color = marker.color < 0 ? palette().quiet : series_vec(marker.color);
  const ImU32 ink = ImGui::ColorConvertFloat4ToU32(color);
  const ImU32 letters =
      marker.color < 0 ? ink : ImGui::ColorConvertFloat4ToU32(series_text(marker.color));
  const ImVec2 at =
      ImPlot::PlotToPixels(marker.vertical ? marker.at : 0, marker.vertical ? 0 : marker.at);
  ImDrawList* list = ImPlot::GetPlotDrawList();
  const float font = ImGui::GetFontSize() * kSmall;
  const auto size_of_words = [&](float wrap) {
    return ImGui::GetFont()->CalcTextSizeA(font, FLT_MAX, wrap, marker.label.c_str());
  };
  ImVec2 words = size_of_words(0);
  int lines = 1;
  ImPlot::PushPlotClipRect();
  if (marker.vertical) {
    list->AddLine({at.x, origin.y}, {at.x, origin.y + size.y}, ink, scaled(1.2F));
    // Beside the line, in several lines where neither side has room for one; over it where there is
    // hardly any: what it says is never cut off at the left.
    const float room = origin.x + size.x - 6 - at.x;
    const float wider = std::max(room, at.x - 7 - origin.x);
    const float wrap = words.x > wider ? std::max(wider, font * 6) : 0;
    if (wrap > 0) {
      words = size_of_words(wrap);
      lines = static_cast<int>(std::lround(words.y / font));
    }
    const float wanted = words.x > room ? at.x - words.x - 4 : at.x + 4;
    const float last = origin.x + size.x - words.x - 3;
    const ImVec2 begin{std::max(origin.x + 3, std::min(wanted, last)),
                       origin.y + 3 + static_cast<float>(place) * (font + 1)};
    list->AddText(ImGui::GetFont(), font, begin, letters, marker.label.c_str(), nullptr, wrap);
  } else {
    list->AddLine({origin.x, at.y}, {origin.x + size.x, at.y}, ink, scaled(1.2F));
    list->AddText(ImGui::GetFont(), font, {origin.x + size.x - words.x - 5, at.y - font - 2},
                  letters, marker.label.c_str());
  }
  ImPlot::PopPlotClipRect();
  return lines;
}

void draw_swatch(const Series& series, PointShape shape) {
  const float line = ImGui::GetTextLineHeight();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = line * 1.2F, middle = at.y + line * 0.5F;
  const ImU32 color = ImGui::ColorConvertFloat4ToU32(series_vec(series.color));
  // Under a mark: as opaque as bins are.
  const ImU32 pale = ImGui::ColorConvertFloat4ToU32(series_vec(series.color, 0.26F));
  ImDrawList* list = ImGui::GetWindowDrawList();
  if (series.kind == SeriesKind::bars || series.kind == SeriesKind::histogram) {
    list->AddRectFilled({at.x, middle - line * 0.3F}, {at.x + width, middle + line * 0.3F},
                        shape == PointShape::none ? color : pale, 2);
  } else if (series.kind == SeriesKind::scatter) {
    draw_point(list, shape, {at.x + width / 2, middle}, color);
  } else if (series.dashed || series.quiet) {
    for (int part = 0; part < 2; ++part) {
      // A point in the middle is parted from both dashes, else it would close the gap.
      const float dash = shape == PointShape::none ? 0.4F : 0.18F;
      const float begin = shape == PointShape::none ? 0.55F : 0.82F;
      const float from = at.x + width * begin * static_cast<float>(part);
      list->AddLine({from, middle}, {from + width * dash, middle}, color, scaled(2));
    }
  } else {
    list->AddLine({at.x, middle}, {at.x + width, middle}, color, scaled(2.4F));
  }
  if (series.kind != SeriesKind::scatter) {
    draw_point(list, shape, {at.x + width / 2, middle}, color);
  }
  ImGui::Dummy({width, line});
}

namespace {

struct LegendEntry {
  const Series* series;
  PointShape shape;
};

// Its name ends in an ellipsis where it has no room, and is said in full under the pointer.
void draw_entry(const LegendEntry& entry, float right) {
  const Series& series = *entry.series;
  draw_swatch(series, entry.shape);
  ImGui::SameLine(0, ImGui::GetStyle().ItemSpacing.x * 0.6F);
  const float room = right - ImGui::GetCursorScreenPos().x;
  if (ImGui::CalcTextSize(series.label.c_str()).x <= room + 1) {
    return ImGui::TextUnformatted(series.label.c_str());
  }
  widgets::draw_line(series.label, room);
  ImGui::SetItemTooltip("%s", series.label.c_str());
}

void draw_hidden(std::span<const LegendEntry> hidden) {
  ImGui::TextColored(palette().quiet, "+%zu", hidden.size());
  if (!ImGui::BeginItemTooltip()) return;
  for (const LegendEntry& entry : hidden) draw_entry(entry, std::numeric_limits<float>::max());
  ImGui::EndTooltip();
}

}  // namespace

void draw_legend(const PlotSpec& plot, int most_lines) {
  if (!plot.legend) return;
  std::vector<LegendEntry> entries;
  const std::vector<PointShape> shapes = shapes_of(plot);
  for (std::size_t n = 0; n < shapes.size(); ++n) {
    if (!plot.series[n].label.empty() && plot.series[n].in_legend) {
      entries.push_back({&plot.series[n], shapes[n]});
    }
  }
  const float right = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
  const float gap = ImGui::GetStyle().ItemSpacing.x * 2;
  const float count = ImGui::CalcTextSize("+99").x + gap;
  int line = 1;
  for (std::size_t n = 0; n < entries.size(); ++n) {
    const float width =
        ImGui::CalcTextSize(entries[n].series->label.c_str()).x + ImGui::GetFontSize() * 1.8F;
    const bool ends = line == most_lines;
    const float edge = ends && n + 1 < entries.size() ? right - count : right;
    if (n > 0) ImGui::SameLine(0, gap);
    if (n > 0 && ImGui::GetCursorScreenPos().x + width > edge) {
      if (ends) return draw_hidden(std::span(entries).subspan(n));
      ImGui::NewLine(), ++line;
    }
    draw_entry(entries[n], right);
  }
}

}  // namespace phasescope::widgets
