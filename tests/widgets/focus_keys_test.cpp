// What keys do to what has the focus.
#include "widgets/focus_keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/widgets/headless_imgui.h"
#include "widgets/arcs.h"
#include "widgets/head_grid.h"
#include "widgets/plot_draw.h"
#include "widgets/token_strip.h"

namespace phasescope::widgets {
namespace {

using phasescope::testing::HeadlessImGui;

// The rounding of doubles of this size.
constexpr double kRounding = 1e-12;

TEST(FocusKeys, LimitsAreMovedAsTheAxisCounts) {
  const ValueRange linear = moved_limits({0, 10}, Scale::linear, 0.5, 0);
  EXPECT_NEAR(linear.low, 2.5, kRounding);
  EXPECT_NEAR(linear.high, 7.5, kRounding);
  const ValueRange beside = moved_limits({0, 10}, Scale::linear, 1, 0.25);
  EXPECT_NEAR(beside.low, 2.5, kRounding);
  EXPECT_NEAR(beside.high, 12.5, kRounding);
  // Of 1 .. 10000 the middle half, in logarithms, is 10 .. 1000.
  const ValueRange log = moved_limits({1, 1e4}, Scale::log10, 0.5, 0);
  EXPECT_NEAR(log.low, 10, 10 * kRounding);
  EXPECT_NEAR(log.high, 1000, 1000 * kRounding);
  // Where no double lies between, the limits stay.
  const ValueRange least{1, std::nextafter(1, 2)};
  EXPECT_EQ(moved_limits(least, Scale::linear, 0.1, 0), least);
}

void press(ImGuiKey key, bool shift = false) {
  ImGuiIO& io = ImGui::GetIO();
  if (shift) io.AddKeyEvent(ImGuiMod_Shift, true);
  io.AddKeyEvent(key, true);
}

void release(ImGuiKey key) {
  ImGui::GetIO().AddKeyEvent(key, false);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, false);
}

class FocusedPlot : public ::testing::Test {
 protected:
  FocusedPlot() {
    plot_.id = "plot";
    plot_.series.push_back({.label = "a", .x = {0, 1, 2, 3}, .y = {0, 1, 4, 9}});
    for (int n = 0; n < 3; ++n) frame();
  }
  PlotDrawn frame(bool take_focus = false) {
    PlotDraw draw{.version = 1};
    draw.take_focus = take_focus;
    draw.menu = [this] { menu_drawn_ = true; };
    gui_.frame([&] {
      ImGui::Button("first");  // a window that appears gives its first item the focus
      drawn_ = draw_plot(plot_, draw);
    });
    return drawn_;
  }
  PlotDrawn after_typing(char letter) {
    ImGui::GetIO().AddInputCharacter(static_cast<unsigned>(letter));
    frame();
    return frame();
  }
  PlotDrawn after_key(ImGuiKey key) {
    press(key);
    frame();
    release(key);
    return frame();
  }

  HeadlessImGui gui_;
  PlotSpec plot_;
  PlotDrawn drawn_;
  bool menu_drawn_ = false;
};

double length(const AxisLink& axis) { return axis.high - axis.low; }

TEST_F(FocusedPlot, IsZoomedMovedAndFittedByKeys) {
  frame(/*take_focus=*/true);
  const PlotDrawn all = frame();
  ASSERT_TRUE(all.focused);
  const PlotDrawn closer = after_typing('+');
  EXPECT_LT(length(closer.x), 0.9 * length(all.x));
  EXPECT_LT(length(closer.y), 0.9 * length(all.y));
  EXPECT_NEAR(closer.x.low + closer.x.high, all.x.low + all.x.high, 1e-9);  // the middle stays
  const PlotDrawn right = after_key(ImGuiKey_RightArrow);
  EXPECT_GT(right.x.low, closer.x.low);
  EXPECT_NEAR(length(right.x), length(closer.x), 1e-9);
  EXPECT_EQ(right.y, closer.y);
  EXPECT_TRUE(right.focused);  // the arrow moved the figure, not the focus
  const PlotDrawn up = after_key(ImGuiKey_UpArrow);
  EXPECT_GT(up.y.low, right.y.low);
  const PlotDrawn wider = after_typing('-');
  EXPECT_GT(length(wider.x), length(up.x));
  after_typing('0');
  const PlotDrawn again = frame();
  EXPECT_EQ(again.x, all.x);
  EXPECT_EQ(again.y, all.y);
}

TEST_F(FocusedPlot, HasItsMenuByKeys) {
  frame(/*take_focus=*/true);
  frame();
  press(ImGuiKey_F10, /*shift=*/true);
  frame();
  release(ImGuiKey_F10);
  frame();
  EXPECT_TRUE(menu_drawn_);
}

// Row 0 of a map is at the top: what is above has smaller numbers.
TEST_F(FocusedPlot, OfAMapMovesUpToItsFirstRows) {
  MapSpec map{.rows = 4, .cols = 4};
  map.values.assign(16, 0.5F);
  plot_.series.clear(), plot_.map = map;
  for (int n = 0; n < 3; ++n) frame();
  frame(/*take_focus=*/true);
  const PlotDrawn before = after_typing('+');
  const PlotDrawn up = after_key(ImGuiKey_UpArrow);
  EXPECT_LT(up.y.low, before.y.low);
}

TEST_F(FocusedPlot, KeysAreForWhatHasTheFocusAlone) {
  const PlotDrawn all = frame();
  EXPECT_FALSE(all.focused);
  EXPECT_EQ(after_typing('+').x, all.x);
  EXPECT_EQ(after_key(ImGuiKey_RightArrow).x, all.x);
}

// What the mouse is not at is not pointed at, though the figure has the focus.
TEST_F(FocusedPlot, PointsAtNothingWhereTheMouseIsElsewhere) {
  ImGui::GetIO().AddMousePosEvent(-50, -50);
  frame(/*take_focus=*/true);
  after_key(ImGuiKey_RightArrow);
  EXPECT_FALSE(frame().pointer);
}

// A click gives the focus to what is there.
void click(HeadlessImGui& gui, ImVec2 at, const std::function<void()>& draw) {
  ImGuiIO& io = ImGui::GetIO();
  io.AddMousePosEvent(at.x, at.y);
  gui.frame(draw);
  io.AddMouseButtonEvent(ImGuiMouseButton_Left, true);
  gui.frame(draw);
  io.AddMouseButtonEvent(ImGuiMouseButton_Left, false);
  gui.frame(draw);
}

TEST(FocusKeys, TokensAreSelectedByArrows) {
  HeadlessImGui gui;
  // Lines of three tokens of equal width.
  std::vector<StripToken> tokens;
  for (int n = 0; n < 9; ++n) tokens.push_back({n % 3 == 2 ? "ab\n" : "abc", std::nullopt});
  TokenStripSpec spec{.tokens = &tokens, .version = 1};
  TokenStrip strip;
  TokenStripDrawn drawn;
  const auto draw = [&] {
    drawn = strip.draw(spec);
    if (drawn.stepped >= 0) spec.selected = drawn.stepped;
  };
  click(gui, {20, 20}, draw);
  spec.selected = 0;
  const auto after = [&](ImGuiKey key) {
    press(key);
    gui.frame(draw);
    release(key);
    gui.frame(draw);
    return spec.selected;
  };
  EXPECT_EQ(after(ImGuiKey_RightArrow), 1);
  EXPECT_EQ(after(ImGuiKey_DownArrow), 4);
  EXPECT_EQ(after(ImGuiKey_DownArrow), 7);
  EXPECT_EQ(after(ImGuiKey_DownArrow), 7);  // there is no line below
  EXPECT_EQ(after(ImGuiKey_UpArrow), 4);
  EXPECT_EQ(after(ImGuiKey_LeftArrow), 3);
  EXPECT_EQ(after(ImGuiKey_LeftArrow), 2);  // the line before
}

TEST(FocusKeys, HeadsAreSelectedByArrows) {
  HeadlessImGui gui;
  HeadGridSpec grid;
  grid.layers = 2, grid.heads = 3;
  HeadGridDraw how{.fit = {100}};
  HeatmapTexture atlas;
  HeadGridDrawn drawn;
  const auto draw = [&] {
    drawn = draw_head_grid(grid, atlas, how);
    if (drawn.stepped >= 0) how.selected = drawn.stepped;
  };
  click(gui, {30, 30}, draw);
  how.selected = 0;
  for (const auto& [key, cell] : std::vector<std::pair<ImGuiKey, int>>{{ImGuiKey_RightArrow, 1},
                                                                       {ImGuiKey_DownArrow, 4},
                                                                       {ImGuiKey_DownArrow, 4},
                                                                       {ImGuiKey_LeftArrow, 3},
                                                                       {ImGuiKey_LeftArrow, 3},
                                                                       {ImGuiKey_UpArrow, 0}}) {
    press(key);
    gui.frame(draw);
    release(key);
    gui.frame(draw);
    EXPECT_EQ(how.selected, cell);
  }
}

TEST(FocusKeys, QueriesAndKeysOfArcsAreSelectedByArrows) {
  HeadlessImGui gui;
  const std::vector<Arc> arcs{{1, 0, 0.5F}};
  ArcsSpec spec{.arcs = &arcs, .tokens = 5};
  spec.query_text = spec.key_text = [](std::int64_t) { return std::string("a"); };
  spec.query = 1, spec.key = 0;
  ArcsDrawn drawn;
  const auto draw = [&] {
    drawn = draw_arcs(spec);
    if (drawn.stepped_query >= 0) spec.query = drawn.stepped_query;
    if (drawn.stepped_key >= 0) spec.key = drawn.stepped_key;
  };
  click(gui, {20, 20}, draw);
  press(ImGuiKey_DownArrow);
  gui.frame(draw);
  release(ImGuiKey_DownArrow);
  press(ImGuiKey_RightArrow);
  gui.frame(draw);
  EXPECT_EQ(spec.query, 2);
  EXPECT_EQ(spec.key, 1);
}

}  // namespace
}  // namespace phasescope::widgets
