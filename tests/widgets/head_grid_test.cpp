#include "widgets/head_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "tests/widgets/headless_imgui.h"

namespace phasescope::widgets {
namespace {

using phasescope::testing::HeadlessImGui;

TEST(HeadGrid, AtlasPutsLayersDownAndHeadsAcross) {
  // Thumbnails of 1 x 1 cell hold their own number.
  const HeadAtlas atlas = atlas_of(2, 3, 1, std::vector<float>{0, 1, 2, 3, 4, 5});
  EXPECT_EQ(atlas.rows, 2);
  EXPECT_EQ(atlas.cols, 3);
  EXPECT_EQ(atlas.values, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const HeadAtlas wide = atlas_of(1, 2, 2, std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13});
  EXPECT_EQ(wide.values, (std::vector<float>{0, 1, 10, 11, 2, 3, 12, 13}));
  EXPECT_THROW(atlas_of(1, 2, 2, std::vector<float>{0, 1}), std::invalid_argument);
}

TEST(HeadGrid, ClickFindsTheHeadUnderTheMouse) {
  HeadlessImGui gui;
  HeatmapTexture atlas;
  HeadGridSpec grid;
  grid.layers = 4, grid.heads = 4, grid.side = 8;
  const HeadGridDraw how{.fit = {100}};
  HeadGridDrawn drawn;
  ImVec2 origin;
  const auto draw = [&] {
    origin = ImGui::GetCursorScreenPos();
    drawn = draw_head_grid(grid, atlas, how);
  };
  gui.settled(draw);
  EXPECT_EQ(drawn.clicked, -1);
  const float step = 100 + std::round(ImGui::GetFontSize() * 0.2F);
  ImGui::GetIO().AddMousePosEvent(origin.x + 2 * step + 50, origin.y + step + 50);
  gui.frame(draw);
  EXPECT_EQ(drawn.hovered, 6);  // layer 1, head 2
  ImGui::GetIO().AddMouseButtonEvent(0, true);
  gui.frame(draw);
  ImGui::GetIO().AddMouseButtonEvent(0, false);
  gui.frame(draw);
  EXPECT_EQ(drawn.clicked, 6);
  grid.order = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  gui.frame(draw);
  EXPECT_NE(drawn.hovered, 6);
}

TEST(HeadGrid, PicturesFillTheRoomAndAreNeverOutOfReach) {
  HeadlessImGui gui;
  gui.begin_frame();
  HeadGridSpec grid;
  grid.layers = 4, grid.heads = 4;
  const float gap = std::round(ImGui::GetFontSize() * 0.2F);
  // Four lines of four: 100 pixels each with a gap between them.
  const float side = 4 * 100 + 3 * gap;
  EXPECT_EQ(fit_head_grid(grid, {}, {side, side}).pixels, 100);
  // All layers one below the other leave no room in a low panel: sorted ones stand in two lines.
  EXPECT_LT(fit_head_grid(grid, {}, {8 * 100 + 7 * gap, 2 * 100 + gap}).pixels, 100);
  for (int cell = 0; cell < 16; ++cell) grid.order.push_back(15 - cell);
  EXPECT_EQ(fit_head_grid(grid, {}, {8 * 100 + 7 * gap, 2 * 100 + gap}).pixels, 100);
  // A wide model in a narrow, high panel: its layers take several lines.
  grid = {};
  grid.layers = 2, grid.heads = 32;
  const float wrapped = fit_head_grid(grid, {}, {300, 900}).pixels;
  EXPECT_GT(wrapped, 300.0F / 32);
  EXPECT_GE(fit_head_grid(grid, {}, {30, 30}).pixels, grid.smallest_pixels);
  gui.end_frame();
}

TEST(HeadGrid, CaptionsAreShownWholeOrShorterOrNotAtAll) {
  HeadlessImGui gui;
  gui.begin_frame();
  HeadGridSpec grid;
  grid.layers = 1, grid.heads = 1;
  const CaptionWidths widths = caption_widths({.full = {"L0H0  1.86"}, .brief = {"1.86"}});
  EXPECT_GT(widths.full, widths.brief);
  EXPECT_EQ(widths.brief, caption_width("1.86"));
  const auto captions = [&](float width) {
    return fit_head_grid(grid, widths, {width, 500}).captions;
  };
  EXPECT_EQ(captions(widths.full + 1), HeadCaptions::full);
  EXPECT_EQ(captions(widths.full - 1), HeadCaptions::brief);
  EXPECT_EQ(captions(widths.brief - 1), HeadCaptions::none);
  // Who makes no captions where their edge is too short for one of them misses none.
  EXPECT_LT(captioned_edge(grid, {widths.brief - 1, 500}), widths.brief);
  EXPECT_EQ(fit_head_grid(grid, {}, {500, 500}).captions, HeadCaptions::none);
  // Beside a grid that has room for shorter ones alone.
  EXPECT_EQ(fit_head_grid(grid, widths, {500, 500}, HeadCaptions::brief).captions,
            HeadCaptions::brief);
  EXPECT_EQ(fit_head_grid(grid, widths, {500, 500}, HeadCaptions::none).captions,
            HeadCaptions::none);
  gui.end_frame();
}

TEST(HeadGrid, EmptyIsDrawnToo) {
  HeadlessImGui gui;
  HeatmapTexture atlas;
  HeadGridDrawn drawn{.hovered = 7, .clicked = 7};
  const int nothing = gui.settled([] {});
  EXPECT_EQ(gui.settled([&] { drawn = draw_head_grid({}, atlas); }), nothing);
  EXPECT_EQ(drawn.hovered, -1);
  EXPECT_EQ(drawn.clicked, -1);
}

}  // namespace
}  // namespace phasescope::widgets
