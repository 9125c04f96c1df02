// Words that can be read and colours that can be told apart: contrasts by WCAG 2.1, maps and curves
// as they look with each of the colour-vision deficiencies.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/widgets/headless_imgui.h"
#include "widgets/colormap.h"
#include "widgets/map_colors.h"
#include "widgets/plot_draw.h"
#include "widgets/svg_writer.h"

namespace phasescope::widgets {
namespace {

using phasescope::testing::HeadlessImGui;
using Triple = std::array<double, 3>;

// --- contrast -----------------------------------------------------------------------------------

double linear(double part) {
  return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
}

double brightness(const Triple& c) {
  return 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
}

double contrast_of(const Triple& a, const Triple& b) {
  const double x = brightness(a) + 0.05, y = brightness(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

Triple parts(const ImVec4& c) { return {c.x, c.y, c.z}; }

Triple parts(const std::string& hex) {
  Triple out;
  for (std::size_t i = 0; i < 3; ++i) {
    out[i] = std::stoi(hex.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
  }
  return out;
}

// A colour that lets some of what is below it through.
Triple over(const ImVec4& top, const Triple& below) {
  Triple out = parts(top);
  for (std::size_t i = 0; i < 3; ++i) out[i] = out[i] * top.w + below[i] * (1 - top.w);
  return out;
}

// Ratios that W3C and WebAIM give of these pairs.
TEST(Contrast, OfKnownPairs) {
  const Triple white = parts("#ffffff");
  EXPECT_NEAR(contrast_of(parts("#000000"), white), 21, 1e-9);
  EXPECT_NEAR(contrast_of(parts("#767676"), white), 4.54, 0.005);
  EXPECT_NEAR(contrast_of(parts("#777777"), white), 4.48, 0.005);
  EXPECT_NEAR(contrast_of(parts("#0000ff"), white), 8.59, 0.005);
}

struct NamedColor {
  std::string name;
  Triple color;
};

std::vector<NamedColor> texts() {
  const ImVec4* c = ImGui::GetStyle().Colors;
  const Palette& p = palette();
  std::vector<NamedColor> all = {{"text", parts(c[ImGuiCol_Text])},
                                 {"disabled", parts(c[ImGuiCol_TextDisabled])},
                                 {"quiet", parts(p.quiet)},
                                 {"accent", parts(p.accent)},
                                 {"good", parts(p.good)},
                                 {"bad", parts(p.bad)},
                                 {"warn", parts(p.warn)}};
  for (int i = 0; i < series_count(); ++i) {
    all.push_back({"model " + std::to_string(i), parts(series_text(i))});
  }
  return all;
}

// What words of every colour stand on: windows, bars, fields, rows of tables, lit ones too.
std::vector<NamedColor> grounds() {
  const ImVec4* c = ImGui::GetStyle().Colors;
  const Triple window = parts(c[ImGuiCol_WindowBg]);
  std::vector<NamedColor> all;
  for (const ImGuiCol id : {ImGuiCol_WindowBg,
                            ImGuiCol_ChildBg,
                            ImGuiCol_PopupBg,
                            ImGuiCol_MenuBarBg,
                            ImGuiCol_TitleBg,
                            ImGuiCol_DockingEmptyBg,
                            ImGuiCol_Tab,
                            ImGuiCol_TabSelected,
                            ImGuiCol_TabHovered,
                            ImGuiCol_TabDimmed,
                            ImGuiCol_TabDimmedSelected,
                            ImGuiCol_FrameBg,
                            ImGuiCol_FrameBgHovered,
                            ImGuiCol_FrameBgActive,
                            ImGuiCol_Button,
                            ImGuiCol_TableHeaderBg,
                            ImGuiCol_TableRowBg,
                            ImGuiCol_TableRowBgAlt,
                            ImGuiCol_Header,
                            ImGuiCol_HeaderHovered}) {
    all.push_back({ImGui::GetStyleColorName(id), over(c[id], window)});
  }
  all.push_back({"a plot", over(ImPlot::GetStyle().Colors[ImPlotCol_PlotBg], window)});
  return all;
}

TEST(Contrast, OfEveryTextOnWhatItStandsOn) {
  HeadlessImGui gui;
  for (const char* theme : {"light", "dark"}) {
    apply_theme(theme);
    for (const NamedColor& text : texts()) {
      for (const NamedColor& ground : grounds()) {
        EXPECT_GE(contrast_of(text.color, ground.color), 4.5)
            << theme << ": " << text.name << " on " << ground.name;
      }
    }
  }
}

// What is being pressed or marked has plain text alone.
TEST(Contrast, OfTextOnWhatIsPressed) {
  HeadlessImGui gui;
  for (const char* theme : {"light", "dark"}) {
    apply_theme(theme);
    const ImVec4* c = ImGui::GetStyle().Colors;
    const Triple text = parts(c[ImGuiCol_Text]);
    for (const ImGuiCol id : {ImGuiCol_ButtonHovered, ImGuiCol_ButtonActive, ImGuiCol_HeaderActive,
                              ImGuiCol_TextSelectedBg}) {
      for (const ImGuiCol below : {ImGuiCol_WindowBg, ImGuiCol_FrameBg, ImGuiCol_Button}) {
        EXPECT_GE(contrast_of(text, over(c[id], parts(c[below]))), 4.5)
            << theme << ": " << ImGui::GetStyleColorName(id);
      }
    }
  }
}

// Three to one is what WCAG asks of what is not text.
TEST(Contrast, OfMarksAndSelection) {
  HeadlessImGui gui;
  for (const char* theme : {"light", "dark"}) {
    apply_theme(theme);
    const ImVec4* c = ImGui::GetStyle().Colors;
    const Triple window = parts(c[ImGuiCol_WindowBg]);
    for (const ImGuiCol id : {ImGuiCol_CheckMark, ImGuiCol_SliderGrab, ImGuiCol_NavCursor,
                              ImGuiCol_TabSelectedOverline}) {
      EXPECT_GE(contrast_of(parts(c[id]), window), 3)
          << theme << ": " << ImGui::GetStyleColorName(id);
    }
  }
}

TEST(Contrast, OfWordsInFigures) {
  for (const FigureTheme theme : {FigureTheme::light, FigureTheme::dark}) {
    const FigureInk& ink = figure_ink(theme);
    for (const std::string& words : {ink.strong, ink.ink, ink.quiet}) {
      EXPECT_GE(contrast_of(parts(words), parts(ink.ground)), 4.5) << words;
    }
  }
}

TEST(Scale, LettersAndSpacesGrowTogether) {
  HeadlessImGui gui;
  apply_theme("light", 1);
  gui.frame([] {});
  float letters = 0;
  gui.frame([&] { letters = ImGui::GetFontSize(); });
  const float space = ImGui::GetStyle().FramePadding.x;
  for (const float scale : {0.75F, 1.5F, 3.0F}) {
    apply_theme("light", scale);
    // Letters are drawn at whole pixels, spaces are cut to them.
    gui.frame([&] { EXPECT_NEAR(ImGui::GetFontSize(), letters * scale, 1) << scale; });
    EXPECT_NEAR(ImGui::GetStyle().FramePadding.x, space * scale, 1) << scale;
  }
}

// Letters three times as large beside lines of 1.6 pixels: curves and their points were hard to
// see.
TEST(Scale, LinesAndPointsGrowWithLetters) {
  PlotSpec plot{.id = "plot", .legend = false};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {1, 1}, .color = 2});
  Series& series = plot.series.front();
  // From the highest to the lowest pixel of the series' colour.
  const auto height_at = [&](float scale) {
    HeadlessImGui gui;
    apply_theme("light", scale);
    const auto rgb = [](ImU32 color) { return color & ~IM_COL32_A_MASK; };
    const ImU32 wanted = rgb(ImGui::ColorConvertFloat4ToU32(series_vec(series.color)));
    for (int n = 0; n < 3; ++n) gui.frame([&] { draw_plot(plot, {.version = 1}); });
    float top = 1e9F, bottom = 0;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) {
        if (rgb(vertex.col) == wanted) {
          top = std::min(top, vertex.pos.y), bottom = std::max(bottom, vertex.pos.y);
        }
      }
    }
    return bottom - top;
  };
  const auto grows = [&] { return height_at(3) - height_at(1); };
  EXPECT_NEAR(grows(), 2 * 1.6, 1) << "a line, but for what smooths its edges";
  series.dashed = true;
  EXPECT_NEAR(grows(), 2 * 1.6, 1) << "a dashed one";
  series.points = PointShape::circle;
  EXPECT_NEAR(grows(), 2 * 2 * 3.2, 1) << "its points";
  series.kind = SeriesKind::scatter;
  EXPECT_NEAR(grows(), 2 * 2 * 3.5 + 1, 2) << "points alone: decagons, and the line around them";
}

// --- room ---------------------------------------------------------------------------------------

// The legend of three models beside published ones left ten pixels of their curves.
TEST(Room, ALegendLeavesThePlotItsHeight) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot"};
  for (int n = 0; n < 9; ++n) {
    plot.series.push_back({.label = "published: model " + std::to_string(n) + ", not equivariant",
                           .x = {0, 1},
                           .y = {0, 1.0 + n}});
  }
  PlotDrawn drawn;
  const auto legend_in = [&](float width) {
    std::string words;
    for (int frame = 0; frame < 3; ++frame) {
      gui.frame([&] {
        ImGui::BeginChild("place", {width, 260});
        words = gui.words_of([&] { drawn = draw_plot(plot, {.version = 1}); });
        ImGui::EndChild();
      });
    }
    return words;
  };
  const std::string narrow = legend_in(330);  // an entry a line
  EXPECT_GE(drawn.plot_size.y, 0.4F * 260);
  EXPECT_NE(narrow.find("published: model 0"), narrow.npos) << narrow;
  EXPECT_EQ(narrow.find("published: model 8"), narrow.npos) << narrow;
  EXPECT_NE(narrow.find("+6"), narrow.npos) << "0.3 of 260 pixels are three lines: " << narrow;
  const std::string wide = legend_in(1500);
  EXPECT_NE(wide.find("published: model 8"), wide.npos) << wide;
  EXPECT_EQ(wide.find("+"), wide.npos) << wide;
}

// Words with room on neither side of their line lay over the first point and the axis.
TEST(Room, WordsOfAMarkerStandBesideItsLine) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot", .legend = false};
  plot.series.push_back({.label = "a", .kind = SeriesKind::scatter, .x = {0, 9}, .y = {0, 1}});
  plot.markers = {{.at = 4.5, .label = "layers 1, 4: planes 5-9 stay (0)", .color = 2}};
  const auto farthest_left = [](ImU32 color) {
    float left = 1e9F;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) {
        if (vertex.col == color) left = std::min(left, vertex.pos.x);
      }
    }
    return left;
  };
  for (int frame = 0; frame < 3; ++frame) {
    gui.frame([&] {
      ImGui::BeginChild("place", {330, 260});
      draw_plot(plot, {.version = 1});
      ImGui::EndChild();
    });
  }
  const ImU32 letters = ImGui::ColorConvertFloat4ToU32(series_text(2));
  const ImU32 line = ImGui::ColorConvertFloat4ToU32(series_vec(2));
  ASSERT_LT(farthest_left(line), 330);
  ASSERT_LT(farthest_left(letters), 330);
  EXPECT_GE(farthest_left(letters), farthest_left(line));
}

// Beside letters three times as large the four pixels between an axis, its numbers and its title
// were hardly a gap.
TEST(Room, GapsOfAnAxisGrowWithItsLetters) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot", .y = {.label = "y"}, .legend = false};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {0, 1}});
  const auto beside_the_plot = [&](float scale) {
    apply_theme("light", scale);
    PlotDrawn drawn;
    for (int frame = 0; frame < 3; ++frame) {
      gui.frame([&] { drawn = draw_plot(plot, {.size = {900, 600}, .version = 1}); });
    }
    return 900 - drawn.plot_size.x;
  };
  // Letters have whole pixels of width. Of four gaps, 8 pixels each would be missing.
  EXPECT_NEAR(beside_the_plot(3), 3 * beside_the_plot(1), 8);
}

// --- colours ------------------------------------------------------------------------------------

// Linear RGB as it looks without one kind of cones (Machado, Oliveira and Fernandes, "A
// physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6) 2009,
// the matrices of severity 1), and as it is.
using Sight = std::array<Triple, 3>;
constexpr Sight kSights[] = {
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
};

// CIE L*a*b* under D65 of an sRGB colour.
Triple lab_of(const Triple& color, const Sight& sight) {
  constexpr std::array<Triple, 3> to_xyz = {{{0.4124564, 0.3575761, 0.1804375},
                                             {0.2126729, 0.7151522, 0.0721750},
                                             {0.0193339, 0.1191920, 0.9503041}}};
  constexpr Triple white = {0.95047, 1, 1.08883};
  Triple seen{}, xyz{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) seen[i] += sight[i][j] * linear(color[j]);
    seen[i] = std::clamp(seen[i], 0.0, 1.0);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) xyz[i] += to_xyz[i][j] * seen[j];
    const double t = xyz[i] / white[i];
    xyz[i] = t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116;
  }
  return {116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])};
}

Triple parts(const Rgba& c) { return {c.r / 255.0, c.g / 255.0, c.b / 255.0}; }

double apart(const Triple& a, const Triple& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// Two colours are just told apart at 2.3 (Mahy, Van Eycken and Oosterlinck, 1994).
constexpr double kJustSeen = 2.3;
constexpr int kSteps = 16;

std::vector<Triple> steps_of(Colormap map, Ground ground, const Sight& sight) {
  std::vector<Triple> steps;
  for (int i = 0; i <= kSteps; ++i) {
    steps.push_back(lab_of(parts(color_at(map, double(i) / kSteps, ground)), sight));
  }
  return steps;
}

TEST(ColorVision, LabOfKnownColours) {
  const Triple white = lab_of({1, 1, 1}, kSights[0]), red = lab_of({1, 0, 0}, kSights[0]);
  EXPECT_NEAR(white[0], 100, 1e-3);
  EXPECT_NEAR(red[0], 53.24, 0.01);  // as every table of sRGB's primaries has it
  EXPECT_NEAR(red[1], 80.09, 0.02);
  EXPECT_NEAR(red[2], 67.20, 0.02);
}

// Weights and viridis get lighter, or darker, all along; a signed map does so on each side of 0.
TEST(ColorVision, StepsOfEveryMapStayApartInLightness) {
  for (const Colormap map : {Colormap::weights, Colormap::viridis, Colormap::signed_values}) {
    for (const Ground ground : {Ground::light, Ground::dark}) {
      for (const Sight& sight : kSights) {
        const std::vector<Triple> steps = steps_of(map, ground, sight);
        const bool two_sides = map == Colormap::signed_values;
        const bool rises = steps[1][0] > steps[0][0];
        for (int i = 0; i < kSteps; ++i) {
          const double up = steps[std::size_t(i) + 1][0] - steps[std::size_t(i)][0];
          const bool turned = two_sides && i >= kSteps / 2;
          EXPECT_GT(rises != turned ? up : -up, kJustSeen)
              << name_of(map) << " step " << i << " sight " << &sight - kSights;
        }
      }
    }
  }
}

TEST(ColorVision, SidesOfASignedMapStayApart) {
  for (const Ground ground : {Ground::light, Ground::dark}) {
    for (const Sight& sight : kSights) {
      const std::vector<Triple> steps = steps_of(Colormap::signed_values, ground, sight);
      for (std::size_t i = 1; i <= kSteps / 2; ++i) {
        EXPECT_GT(apart(steps[kSteps / 2 - i], steps[kSteps / 2 + i]), 3 * kJustSeen) << i;
      }
    }
  }
}

// On a dark ground they are lighter (theme.h), and so nearer to each other.
TEST(ColorVision, CurvesOfModelsStayApart) {
  HeadlessImGui gui;
  for (const char* theme : {"light", "dark"}) {
    apply_theme(theme);
    for (const Sight& sight : kSights) {
      for (int i = 0; i < series_count(); ++i) {
        for (int j = 0; j < i; ++j) {
          EXPECT_GT(apart(lab_of(parts(series_vec(i)), sight), lab_of(parts(series_vec(j)), sight)),
                    3 * kJustSeen)
              << theme << " " << i << " " << j << " sight " << &sight - kSights;
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasescope::widgets
