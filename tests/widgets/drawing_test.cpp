#include <gtest/gtest.h>
#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/widgets/headless_imgui.h"
#include "widgets/arcs.h"
#include "widgets/busy.h"
#include "widgets/plot_draw.h"
#include "widgets/token_strip.h"

namespace phasescope::widgets {
namespace {

using phasescope::testing::HeadlessImGui;

PlotSpec full_plot() {
  PlotSpec plot;
  plot.id = "plot";
  plot.x.label = "distance", plot.y.label = "score";
  plot.series.push_back({"a", SeriesKind::line, {1, 2, 3}, {1, NAN, 3}, {0, 1, 2}, {2, 3, 4}, 0});
  plot.series.push_back({"b", SeriesKind::histogram, {0, 1, 2}, {3, 4}, {}, {}, 1});
  plot.series.push_back({"c", SeriesKind::bars, {1, 2}, {3, 4}, {}, {}, 2});
  plot.series.push_back({"d", SeriesKind::scatter, {1, 2}, {3, 4}, {2, 3}, {4, 5}, 3});
  plot.series.push_back({"e", SeriesKind::line, {1, 2, 3}, {3, 2, 1}, {}, {}, 4, 1.6, true});
  plot.markers = {{1.5, true, "here"}, {2, false, "level"}};
  plot.notes = {"formula, 12 samples"};
  return plot;
}

TEST(DrawPlot, EmptyAndFull) {
  HeadlessImGui gui;
  const int empty = gui.settled([] { draw_plot(PlotSpec{}, {}); });
  const int full = gui.settled([] { draw_plot(full_plot(), {}); });
  EXPECT_GT(empty, 0);
  EXPECT_GT(full, empty + 100);
}

TEST(DrawPlot, PointsOfEveryShape) {
  HeadlessImGui gui;
  PlotSpec plot;
  plot.series.push_back({.x = {1, 2, 3}, .y = {1, 2, 3}});
  const int plain = gui.settled([&] { draw_plot(plot, {}); });
  for (const PointShape shape : {PointShape::circle, PointShape::square, PointShape::triangle,
                                 PointShape::diamond, PointShape::wedge, PointShape::cross}) {
    plot.series[0].points = shape;
    // At least a triangle each.
    EXPECT_GE(gui.settled([&] { draw_plot(plot, {}); }), plain + 9) << int(shape);
  }
}

// The opacities of what was drawn last in a colour, in the order of drawing.
std::vector<int> opacities_of(const ImVec4& color) {
  constexpr ImU32 kOpacity = ImU32{0xff} << IM_COL32_A_SHIFT;
  const ImU32 wanted = ImGui::ColorConvertFloat4ToU32(color) & ~kOpacity;
  std::vector<int> found;
  for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
    for (const ImDrawVert& vertex : list->VtxBuffer) {
      if ((vertex.col & ~kOpacity) == wanted) {
        found.push_back(static_cast<int>(vertex.col >> IM_COL32_A_SHIFT));
      }
    }
  }
  return found;
}

// A band is as opaque as that of a file (plot_svg.cpp: 0.16) or more, and no line is below it.
TEST(DrawPlot, BandsAreSeenBelowEveryLine) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot"};
  for (int n = 0; n < 2; ++n) {
    plot.series.push_back({.label = "a",
                           .x = {1, 2, 3},
                           .y = {1, 2, 3},
                           .low = {0, 1, 2},
                           .high = {2, 3, 4},
                           .color = n,
                           .in_legend = false});
  }
  for (const char* theme : {"light", "dark"}) {
    apply_theme(theme);
    gui.settled([&] { draw_plot(plot, {}); });
    for (int n = 0; n < 2; ++n) {
      const std::vector<int> drawn = opacities_of(series_vec(n));
      ASSERT_FALSE(drawn.empty()) << theme;
      EXPECT_GE(drawn.front(), 0.16 * 255) << theme;
      EXPECT_LE(drawn.front(), 0.5 * 255) << theme << ": the grid is seen through it";
      EXPECT_EQ(std::ranges::max(drawn), 255) << theme;
    }
    // All that is drawn of both is first the bands, then the lines.
    std::vector<ImU32> both;
    const ImU32 opaque = ImU32{0xff} << IM_COL32_A_SHIFT;
    const ImU32 colors[] = {ImGui::ColorConvertFloat4ToU32(series_vec(0)),
                            ImGui::ColorConvertFloat4ToU32(series_vec(1))};
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) {
        if ((vertex.col & opaque) != 0 &&
            std::ranges::any_of(colors, [&](ImU32 c) { return (vertex.col | opaque) == c; })) {
          both.push_back(vertex.col & opaque);
        }
      }
    }
    EXPECT_TRUE(std::ranges::is_partitioned(both, [&](ImU32 color) { return color != opaque; }))
        << theme;
  }
}

// A band drops to the end of the axis half way to an interval that reaches 0, as in a file.
TEST(DrawPlot, ABandDownToZeroEndsWithALogAxis) {
  HeadlessImGui gui;
  const auto drawn = [&](const std::vector<double>& x, const std::vector<double>& low) {
    PlotSpec plot{.id = "plot", .y = {.scale = Scale::log10, .low = 0.25, .high = 4}};
    const std::vector<double> y(x.size(), NAN), high(x.size(), 2);  // the band without its line
    plot.series.push_back({.x = x, .y = y, .low = low, .high = high});
    gui.settled([&] { draw_plot(plot, {}); });
    std::vector<std::pair<float, float>> places;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) {
        places.emplace_back(vertex.pos.x, vertex.pos.y);
      }
    }
    return places;
  };
  const auto band = drawn({1, 2, 3}, {0.5, -1, 0.5});
  EXPECT_EQ(band, drawn({1, 1.5, 1.5, 2, 2.5, 2.5, 3}, {0.5, 0.5, 0.25, 0.25, 0.25, 0.5, 0.5}));
  EXPECT_NE(band, drawn({1, 2, 3}, {0.5, 0.25, 0.5}));
}

// As opaque as those of a file: plot_svg.cpp has bars of 0.5.
TEST(DrawPlot, BarsHaveTheOpacityThatFilesHave) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot"};
  plot.series.push_back({.label = "a",
                         .kind = SeriesKind::bars,
                         .x = {1, 2},
                         .y = {3, 4},
                         .color = 0,
                         .in_legend = false});
  gui.settled([&] { draw_plot(plot, {}); });
  const std::vector<int> drawn = opacities_of(series_vec(0));
  ASSERT_FALSE(drawn.empty());
  EXPECT_NEAR(drawn.front(), 0.5 * 255, 1);  // of a byte's rounding
}

TEST(DrawPlot, Row19_LogAxesAndValuesThatAreNotFinite) {
  HeadlessImGui gui;
  PlotSpec plot = full_plot();
  plot.x.scale = plot.y.scale = Scale::log10;
  plot.series[0].y = {0, -1, INFINITY};
  const int all = gui.settled([&] { draw_plot(plot, {}); });
  plot.series.clear(), plot.markers.clear();
  const int none = gui.settled([&] { draw_plot(plot, {}); });
  EXPECT_GT(all, none + 50) << "the other series are there";
}

TEST(DrawPlot, NewDataFitTheAxesAgain) {
  HeadlessImGui gui;
  PlotSpec plot;
  plot.id = "plot";
  plot.series.push_back({"a", SeriesKind::line, {0, 1}, {0, 10}, {}, {}, 0});
  PlotDraw options;
  options.version = 1;
  ImVec2 origin;
  PlotDrawn drawn;
  const auto draw = [&] {
    origin = ImGui::GetCursorScreenPos();
    drawn = draw_plot(plot, options);
  };
  gui.settled(draw);
  ImGui::GetIO().AddMousePosEvent(800, 500);
  gui.frame(draw), gui.frame(draw);
  ASSERT_TRUE(drawn.pointer);
  EXPECT_LT(drawn.pointer->y, 11);
  plot.series[0].y = {0, 1000};
  gui.frame(draw), gui.frame(draw);
  EXPECT_LT(drawn.pointer->y, 11);  // the user's view is kept while the data are the same
  options.version = 2;
  gui.frame(draw), gui.frame(draw);
  EXPECT_GT(drawn.pointer->y, 100);
}

// A pixel to the right is as much as a pixel upwards, in a wide plot, in a high one and after a
// change from one to the other, and nothing of the data is cut off.
TEST(DrawPlot, EqualAxesHaveOneScale) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot"};
  plot.series.push_back({.label = "a", .x = {-1, 1}, .y = {-1, 1}});
  plot.equal_axes = true;
  ImVec2 size;
  PlotDrawn drawn;
  const auto at = [&](ImVec2 pixel) {
    ImGui::GetIO().AddMousePosEvent(pixel.x, pixel.y);
    const auto draw = [&] { drawn = draw_plot(plot, {.size = size, .version = 1}); };
    for (int n = 0; n < 3; ++n) gui.frame(draw);
    EXPECT_TRUE(drawn.pointer);
    return drawn.pointer.value_or(PlotPointer{});
  };
  for (const ImVec2 each : {ImVec2{700, 200}, ImVec2{240, 450}, ImVec2{300, 200}}) {
    size = each;
    at({150, 100}), at({150, 100});  // until it has come to rest
    const PlotPointer a = at({150, 100}), b = at({180, 130});
    const double x = (b.x - a.x) / 30, y = (a.y - b.y) / 30;
    EXPECT_NEAR(x, y, 1e-3 * x) << each.x;
    EXPECT_GE(x * drawn.plot_size.x, 2) << each.x;
    EXPECT_GE(y * drawn.plot_size.y, 2) << each.x;
  }
}

// In a line of words the scale has its ends at the sides of its strip, whose colours are those of
// color_at from the one to the other.
TEST(DrawPlot, AColourScaleStandsInALineOfWords) {
  HeadlessImGui gui;
  const MapSpec weights{.value_label = "weight"};
  const MapSpec decades{.range = {0, 1}, .log_decades = 4};
  std::string said, said_of_decades;
  float high = 0;
  gui.frame([&] {
    const float top = ImGui::GetCursorPosY();
    said = gui.words_of([&] { draw_color_line(weights); });
    high = ImGui::GetCursorPosY() - top;
    said_of_decades = gui.words_of([&] { draw_color_line(decades); });
  });
  EXPECT_LE(high, ImGui::GetTextLineHeightWithSpacing() + 1) << "of a line's height";
  EXPECT_NE(said.find("weight 0"), std::string::npos) << said;
  EXPECT_LT(said.find("weight 0"), said.rfind('1')) << said;
  EXPECT_NE(said_of_decades.find("0.0001"), std::string::npos) << said_of_decades;
  for (const double t : {0.02, 0.5, 0.98}) {  // in the strip, whose columns are a pixel wide each
    const Rgba wanted = color_at(Colormap::weights, t);
    bool found = false;
    for (const ImDrawList* list : ImGui::GetDrawData()->CmdLists) {
      for (const ImDrawVert& vertex : list->VtxBuffer) {
        const ImVec4 drawn = ImGui::ColorConvertU32ToFloat4(vertex.col);
        // Neighbouring columns of the strip differ by less than this.
        found |= std::abs(drawn.x * 255 - wanted.r) < 5 && std::abs(drawn.y * 255 - wanted.g) < 5 &&
                 std::abs(drawn.z * 255 - wanted.b) < 5 && drawn.w == 1;
      }
    }
    EXPECT_TRUE(found) << t;
  }
}

// Beside a map that has no room it stands in its place, and not over what is above.
TEST(DrawPlot, AColourScaleNeverRunsUpwards) {
  HeadlessImGui gui;
  MapSpec map{.rows = 1, .cols = 1, .values = {0.5F}};
  float top = 0, highest = 1e9F;
  gui.frame([&] {
    top = ImGui::GetCursorScreenPos().y;
    const int before = ImGui::GetWindowDrawList()->VtxBuffer.Size;
    draw_color_scale(map, -30);
    const auto& drawn = ImGui::GetWindowDrawList()->VtxBuffer;
    for (int i = before; i < drawn.Size; ++i) highest = std::min(highest, drawn[i].pos.y);
  });
  EXPECT_GE(highest, top - 3);
}

// What the colours are of stands beside them, in the room that is kept for a scale; a title longer
// than the scale is high is cut off, and the pointer is told all of it.
TEST(DrawPlot, AColourScaleHasItsTitle) {
  HeadlessImGui gui;
  MapSpec map{.rows = 1, .cols = 2, .values = {0, 1}};
  ImVec2 origin;
  struct Box {
    float left = 1e9F, right = 0, top = 1e9F, bottom = 0;
    int corners = 0;
  };
  const auto drawn = [&](float height) {
    Box box;
    gui.frame([&] {
      origin = ImGui::GetCursorScreenPos();
      const int before = ImGui::GetWindowDrawList()->VtxBuffer.Size;
      draw_color_scale(map, height);
      const auto& corners = ImGui::GetWindowDrawList()->VtxBuffer;
      box.corners = corners.Size - before;
      for (int i = before; i < corners.Size; ++i) {
        box.left = std::min(box.left, corners[i].pos.x);
        box.right = std::max(box.right, corners[i].pos.x);
        box.top = std::min(box.top, corners[i].pos.y);
        box.bottom = std::max(box.bottom, corners[i].pos.y);
      }
    });
    return box;
  };
  const Box plain = drawn(200);
  map.value_label = "change of the loss (nats a token)";
  const Box titled = drawn(300), cut = drawn(100);
  EXPECT_GT(titled.corners, plain.corners + 4 * 20);  // its letters
  EXPECT_LT(cut.corners, titled.corners);
  for (const Box& box : {titled, cut}) {
    EXPECT_LE(box.right, origin.x + color_scale_width());
    EXPECT_GE(box.top, origin.y - 3);
  }
  EXPECT_LE(cut.bottom, origin.y + 104);
}

// Cells of a map are as high as wide whatever room there is and whatever its labels take; without
// the wish a map fills the room.
TEST(DrawPlot, ASquareMapHasSquareCells) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "map"};
  plot.map = MapSpec{.rows = 6, .cols = 9, .values = std::vector<float>(54, 0.5F)};
  plot.map->value_label = "weight";
  plot.x.label = "key (token)";
  plot.y.label = "a label that is longer than a low plot is high";
  HeatmapTexture texture;
  for (const ImVec2 room : {ImVec2{420, 420}, ImVec2{300, 500}, ImVec2{900, 180}}) {
    PlotDrawn drawn;
    PlotDraw options{.size = room, .texture = &texture, .version = 1, .square = true};
    const auto draw = [&] { drawn = draw_plot(plot, options); };
    for (int n = 0; n < 4; ++n) gui.frame(draw);
    EXPECT_NEAR(drawn.plot_size.x / 9, drawn.plot_size.y / 6, 1) << room.x;
    EXPECT_GT(drawn.plot_size.x, 80) << room.x;
    options.square = false;
    for (int n = 0; n < 2; ++n) gui.frame(draw);
    EXPECT_GT(std::abs(drawn.plot_size.x / 9 - drawn.plot_size.y / 6), 4) << room.x;
  }
}

// The names of rows take more room than numbers do, which the names of columns have not: those of a
// small square matrix stood on each other.
TEST(DrawPlot, NamesOfColumnsDoNotTouch) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "matrix"};
  plot.legend = false;
  plot.x.label = "B", plot.y.label = "A";
  for (int n = 0; n < 16; ++n) {
    const std::string name = "L" + std::to_string(n / 4) + "H" + std::to_string(n % 4);
    plot.x.ticks.push_back({n + 0.5, name}), plot.y.ticks.push_back({n + 0.5, name});
  }
  plot.map = MapSpec{.rows = 16, .cols = 16, .values = std::vector<float>(256, 0.5F)};
  for (int frame = 0; frame < 6; ++frame) {
    gui.frame([&] {
      PlotDraw options;
      options.square = true, options.notes = false, options.size = {330, 220};
      draw_plot(plot, options);
    });
  }
  ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
  ASSERT_EQ(plots.GetBufSize(), 1);
  const ImPlotTicker& ticker = plots.GetByIndex(0)->XAxis(0).Ticker;
  int named = 0;
  float end = 0;
  for (int n = 0; n < ticker.TickCount(); ++n) {
    const ImPlotTick& tick = ticker.Ticks[n];
    if (!tick.ShowLabel || tick.LabelSize.x <= 0) continue;
    ++named;
    EXPECT_GE(tick.PixelPos - tick.LabelSize.x / 2, end) << n;
    end = tick.PixelPos + tick.LabelSize.x / 2;
  }
  EXPECT_GE(named, 3);
}

// Dragging moves what is shown, upwards too; only where the pointer stays something is selected.
TEST(DrawPlot, ADragIsNoClick) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "plot"};
  plot.series.push_back({"a", SeriesKind::line, {0, 1}, {0, 10}, {}, {}, 0});
  bool clicked = false;
  const auto draw = [&] { clicked = clicked || draw_plot(plot, {.version = 1}).clicked; };
  ImGuiIO& io = ImGui::GetIO();
  const auto press_and_move = [&](float x, float y) {
    clicked = false;
    io.AddMousePosEvent(800, 500);
    gui.frame(draw);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, true);
    gui.frame(draw);
    io.AddMousePosEvent(800 + x, 500 + y);
    gui.frame(draw);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, false);
    gui.frame(draw), gui.frame(draw);
    return clicked;
  };
  gui.frame(draw);
  EXPECT_TRUE(press_and_move(0, 0));
  EXPECT_FALSE(press_and_move(60, 0));
  EXPECT_FALSE(press_and_move(0, 60));
}

TEST(DrawPlot, LinkedAxesAreSharedWithTheCaller) {
  HeadlessImGui gui;
  AxisLink x{10, 20}, y{0, 1};
  PlotDraw options;
  options.link_x = &x, options.link_y = &y;
  gui.settled([&] { draw_plot(full_plot(), options); });
  EXPECT_DOUBLE_EQ(x.low, 10);
  EXPECT_DOUBLE_EQ(x.high, 20);
}

// One rectangle a row and a frame around them.
TEST(DrawPlot, AMarginIsDrawnBesideTheMap) {
  HeadlessImGui gui;
  PlotSpec plot{.id = "map"};
  plot.map = MapSpec{.rows = 4, .cols = 4, .values = std::vector<float>(16, 0.5F)};
  const int without = gui.settled([&] { draw_plot(plot, {}); });
  plot.map->margin = {0, 0.25F, 0.5F, 1}, plot.map->margin_name = "learned sink";
  EXPECT_GE(gui.settled([&] { draw_plot(plot, {}); }), without + 4 * 4);
}

TEST(DrawBusy, SaysNothingBeforeTwoTenthsOfASecond) {
  HeadlessImGui gui;
  const int idle = gui.settled([] { draw_busy({}); });
  const int young = gui.settled([] { draw_busy({BusyState::busy, 0.1, 0.1, "x", ""}); });
  const int old = gui.settled([] { draw_busy({BusyState::busy, 0.1, 0.3, "x", ""}); });
  const int failed = gui.settled([] {
    draw_busy({BusyState::failed, 0, 0, "no such file", "do y"});
  });
  EXPECT_EQ(young, idle);
  EXPECT_GT(old, idle);
  EXPECT_GT(failed, idle);
  EXPECT_GT(gui.settled([] { draw_empty("nothing yet"); }), idle);
}

// Lines of a thousand tokens: those in sight are drawn, and what the pointer is at is found.
TEST(Arcs, FindTheTokenUnderThePointerAndDrawWhatIsInSight) {
  HeadlessImGui gui;
  std::vector<Arc> arcs;
  for (int query = 0; query < 1000; ++query) arcs.push_back({query, query / 2, 0.5F});
  EXPECT_EQ(arcs_of(arcs, 7).size(), 1U);
  EXPECT_EQ(arcs_of(arcs, 7)[0].key, 3);
  EXPECT_TRUE(arcs_of(arcs, 1000).empty());
  ArcsSpec spec{.arcs = &arcs, .tokens = 1000};
  ArcsDrawn drawn;
  ImVec2 origin;
  const auto draw = [&] {
    origin = ImGui::GetCursorScreenPos();
    drawn = draw_arcs(spec);
  };
  const int vertices = gui.settled(draw);
  spec.tokens = 10;
  EXPECT_LT(vertices, 20 * gui.settled(draw)) << "not all thousand lines";
  spec.tokens = 1000;
  gui.frame(draw);
  const float line = std::round(ImGui::GetFontSize() * 1.35F);
  ImGui::GetIO().AddMousePosEvent(origin.x + 20, origin.y + line * 4.5F);
  gui.frame(draw), gui.frame(draw);
  EXPECT_EQ(drawn.hovered_query, 4);
  EXPECT_EQ(drawn.hovered_key, -1);
  EXPECT_EQ(draw_arcs({}).hovered_query, -1);
}

TEST(TokenStrip, HoverFindsTheToken) {
  HeadlessImGui gui;
  TokenStrip strip;
  const std::vector<StripToken> tokens{
      {"ab", {}}, {"\u00b7", 1.0}, {"cd", 6.0}, {"\u21b5", 0.1}, {"ef", NAN}};
  TokenStripSpec spec{.tokens = &tokens, .version = 1, .selected = 2};
  TokenStripDrawn drawn;
  ImVec2 origin;
  const auto draw = [&] {
    origin = ImGui::GetCursorScreenPos();
    drawn = strip.draw(spec);
  };
  // Four corners of each of the eight letters, at least.
  EXPECT_GE(gui.settled(draw) - gui.settled([] {}), 4 * 8);
  gui.frame(draw);
  ImGui::GetIO().AddMousePosEvent(origin.x + 3, origin.y + 3);
  gui.frame(draw);
  EXPECT_EQ(drawn.hovered, 0);
  // The line break ends the first line: "ef" starts the second one.
  ImGui::GetIO().AddMousePosEvent(origin.x + 3, origin.y + ImGui::GetFontSize() * 1.45F + 5);
  gui.frame(draw);
  EXPECT_EQ(drawn.hovered, 4);
  const std::vector<StripToken> none;
  spec.tokens = &none;
  EXPECT_EQ(gui.settled(draw), gui.settled([] {}));
  EXPECT_EQ(drawn.hovered, -1);
}

// Both tokens of a pair that the pointer is at in another view.
TEST(TokenStrip, MarksBothTokensOfAPairThatIsPointedAt) {
  HeadlessImGui gui;
  TokenStrip strip;
  const std::vector<StripToken> tokens{{"a", {}}, {"b", {}}, {"c", {}}};
  TokenStripSpec spec{.tokens = &tokens};
  const auto draw = [&] { strip.draw(spec); };
  const int none = gui.settled(draw);
  spec.pointed = 2;
  const int one = gui.settled(draw);
  spec.pointed_key = 0;
  EXPECT_EQ(gui.settled(draw) - one, one - none);
  EXPECT_GT(one, none);
}

TEST(CellText, NamesPairsAndTheMask) {
  MapSpec map;
  map.rows = 2, map.cols = 2;
  map.row_begin = 10, map.row_end = 12, map.col_begin = 4, map.col_end = 12;
  map.values = {0.25F, kMaskedCell, 1, 0};
  map.value_label = "weight";
  EXPECT_EQ(cell_text(map, {5, 10.5}), "query 10, key 4..7: weight 0.25");
  EXPECT_NE(cell_text(map, {9, 10.5}).find("masked"), std::string::npos);
  EXPECT_EQ(cell_text(map, {99, 10}), "");
  EXPECT_EQ(cell_value(map, {5, 10.5}), 0.25F);
  EXPECT_EQ(cell_value(map, {99, 10}), std::nullopt);
}

TEST(Heatmap, WithoutOpenGlThereIsNoPictureAndNoCrash) {
  HeatmapTexture texture;
  const std::vector<float> values{0, NAN, kMaskedCell, 1};
  texture.set_values(2, 2, values);
  EXPECT_EQ(texture.colored({}), 0U);
  EXPECT_THROW(texture.set_values(3, 3, values), std::invalid_argument);
}

}  // namespace
}  // namespace phasescope::widgets
