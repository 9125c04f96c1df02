// The window by keys alone, driven by Dear ImGui's test engine without a display.
#include <gtest/gtest.h>
#include <imgui_internal.h>
#include <implot.h>
#include <implot_internal.h>

#include <chrono>
#include <string>

#include "app/views/kept_tables.h"
#include "app/window/main_window.h"
#include "app/window/shortcuts.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/window_scenario.h"
#include "widgets/focus_keys.h"

namespace phasescope::app {
namespace {

struct Keyed {
  MadeUpWorker link;
  MainWindow main_window{default_session(), link, link};
  const Session& session() { return main_window.edit().session(); }
};

void play_keys(ScenarioStep step) { play_scenario<Keyed>(step, std::chrono::seconds(60)); }

bool a_figure_has_the_focus() {
  return GImPlot->Plots.GetByKey(ImGui::GetCurrentContext()->NavId) != nullptr;
}

// Nothing but keys: to the figure, closer, all again, and its menu.
TEST(Keys, AFigureIsUsedByKeysAlone) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    for (const char* id : {"map", "distance", "shift", "extrapolation"}) {
      stage.main_window.window().focus_view = id;
      ctx->Yield(4);
      IM_CHECK(!a_figure_has_the_focus());
      ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_G);
      ctx->Yield(3);
      if (!a_figure_has_the_focus()) ctx->LogError("no figure of %s has the focus", id);
      IM_CHECK(a_figure_has_the_focus());
    }
    const auto zoomed = [&] { return stage.session().views.get<FiguresState>().zoomed.size(); };
    IM_CHECK_EQ(zoomed(), std::size_t{0});
    ctx->KeyChars("+");
    ctx->Yield(4);
    IM_CHECK_EQ(zoomed(), std::size_t{1});
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->Yield(4);
    IM_CHECK(a_figure_has_the_focus());
    ctx->KeyChars("0");
    ctx->Yield(4);
    IM_CHECK_EQ(zoomed(), std::size_t{0});
    ctx->KeyPress(ImGuiMod_Shift | ImGuiKey_F10);
    ctx->Yield(2);
    ctx->ItemClick("//$FOCUSED/Save these figures...");
    ctx->Yield(3);
    IM_CHECK(stage.main_window.window().to_export != nullptr);
  });
}

TEST(Keys, TheMapIsZoomedByKeys) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    stage.main_window.window().focus_view = "map";
    ctx->Yield(4);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_G);
    ctx->Yield(2);
    ctx->KeyChars("+");
    IM_CHECK(holds_within(ctx, std::chrono::seconds(2),
                          [&] { return stage.session().region != Region{}; }));
    ctx->KeyChars("0");
    IM_CHECK(holds_within(ctx, std::chrono::seconds(2),
                          [&] { return stage.session().region == Region{}; }));
  });
}

TEST(Keys, ATokenIsSelectedByArrows) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    const ImGuiTestItemInfo text = ctx->ItemInfo("//###text/**/##tokens");
    IM_CHECK(text.ID != 0);
    ctx->MouseMoveToPos({text.RectFull.Min.x + 6, text.RectFull.Min.y + 6});
    ctx->MouseClick();
    ctx->Yield(2);
    IM_CHECK(stage.session().selection.query == 0);
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->Yield(2);
    IM_CHECK(stage.session().selection.query == 2);
    ctx->KeyPress(ImGuiKey_LeftArrow);
    ctx->Yield(2);
    IM_CHECK(stage.session().selection.query == 1);
  });
}

TEST(Keys, KeysMakeLettersLarger) {
  play_keys([](ImGuiTestContext* ctx) {
    const float before = ImGui::GetStyle().FontScaleDpi;
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Equal);
    ctx->Yield(2);
    IM_CHECK(ImGui::GetStyle().FontScaleDpi > 1.2F * before);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Minus);
    ctx->Yield(2);
    IM_CHECK(ImGui::GetStyle().FontScaleDpi == before);
  });
}

// F1 tells of the keys of what has the focus too, which are no commands.
TEST(Keys, AreListedWithThoseOfFigures) {
  phasescope::testing::HeadlessImGui gui;
  bool open = true;
  std::string said;
  for (int frame = 0; frame < 3; ++frame) {
    gui.begin_frame();
    said = gui.words_of([&] { draw_shortcuts(open, window_commands()); });
    gui.end_frame();
  }
  EXPECT_FALSE(open);
  EXPECT_NE(said.find("Undo"), std::string::npos) << said;
  for (const widgets::KeyHelp& help : widgets::focus_keys_help())
    EXPECT_NE(said.find(help.keys), std::string::npos) << help.keys << " in " << said;
}

}  // namespace
}  // namespace phasescope::app
