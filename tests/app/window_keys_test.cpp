// The window by keys alone, driven by Dear ImGui's test engine without a display.
#include <gtest/gtest.h>
#include <imgui_internal.h>
#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "app/views/jobs_view.h"
#include "app/views/kept_tables.h"
#include "app/window/main_window.h"
#include "app/window/shortcuts.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/window_scenario.h"
#include "tests/temporary_folder.h"
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

// ---- flows with no click --------------------------------------------------------------

// Presses a key until the condition holds, `most` times at most.
template <class Condition>
bool pressed_until(ImGuiTestContext* ctx, ImGuiKeyChord key, Condition holds, int most = 60) {
  for (int n = 0; n < most && !holds(); ++n) {
    ctx->KeyPress(key);
    ctx->Yield(2);
  }
  return holds();
}

// Tab takes the focus to it, wherever in its window it stands.
bool tabbed_to(ImGuiTestContext* ctx, const char* item) {
  const ImGuiID id = ctx->ItemInfo(item).ID;
  return id != 0 &&
         pressed_until(ctx, ImGuiKey_Tab, [id] { return ImGui::GetCurrentContext()->NavId == id; });
}

// What the palette finds first for these words.
void run_command(ImGuiTestContext* ctx, const char* words) {
  ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
  ctx->Yield(3);
  ctx->KeyChars(words);
  ctx->KeyPress(ImGuiKey_Enter);
  ctx->Yield(4);
}

// What is saved by name, and figures, stand in a folder of its own.
struct OwnFolder {
  TemporaryFolder folder;
  OwnFolder() { setenv("XDG_STATE_HOME", folder.path().c_str(), 1); }
  ~OwnFolder() { unsetenv("XDG_STATE_HOME"); }
};
struct KeyedInFolder : OwnFolder, Keyed {};

TEST(Keys, AModelIsOpenedAndClosed) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    const auto is_open = [&](const std::string& name) {
      return std::ranges::count(stage.session().models, name) == 1;
    };
    run_command(ctx, "open tape");
    IM_CHECK(is_open("tape"));
    run_command(ctx, "close tape");
    IM_CHECK(!is_open("tape"));
    // One of files, by its path.
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    ctx->Yield(3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    ctx->KeyChars("/models/mine");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(4);
    IM_CHECK(stage.main_window.window().open_dialog.empty());
    IM_CHECK(is_open("/models/mine"));
    // In the list of models, by its box.
    run_command(ctx, "show models");
    IM_CHECK(tabbed_to(ctx, "//###models/models/rope/##open"));
    const bool before = is_open("rope");
    ctx->KeyPress(ImGuiKey_Space);
    ctx->Yield(3);
    IM_CHECK(is_open("rope") != before);
  });
}

TEST(Keys, AHeadIsChosen) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    const auto head = [&] {
      const Selection& at = stage.session().selection;
      return std::pair{at.layer, at.head};
    };
    run_command(ctx, "L0H1");
    IM_CHECK(head() == std::pair(std::int64_t{0}, std::int64_t{1}));
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_LeftArrow);
    ctx->Yield(2);
    IM_CHECK(head() == std::pair(std::int64_t{0}, std::int64_t{0}));
  });
}

TEST(Keys, ATokenIsReachedWithoutAClick) {
  play_keys([](ImGuiTestContext* ctx) {
    const Selection& at = stage_in<Keyed>(ctx).session().selection;
    IM_CHECK(!at.query);
    run_command(ctx, "show text");
    IM_CHECK(tabbed_to(ctx, "//###text/**/##tokens"));
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->KeyPress(ImGuiKey_RightArrow);
    ctx->Yield(2);
    IM_CHECK(at.query.has_value());
  });
}

TEST(Keys, ATextIsChosen) {
  play_keys([](ImGuiTestContext* ctx) {
    const TextInput& text = stage_in<Keyed>(ctx).session().text;
    IM_CHECK(text.untouched());
    run_command(ctx, "show text");
    IM_CHECK(tabbed_to(ctx, "//###text/Sample..."));
    ctx->KeyPress(ImGuiKey_Space);
    ctx->Yield(3);
    IM_CHECK(tabbed_to(ctx, "//$FOCUSED/Read"));
    ctx->KeyPress(ImGuiKey_Space);
    ctx->Yield(3);
    IM_CHECK(!TextInput::sample_in(text.name).empty());
    // Typed, and read by the keys that the field takes for it.
    IM_CHECK(tabbed_to(ctx, "//###text/Edit"));
    ctx->KeyPress(ImGuiKey_Space);
    ctx->Yield(3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    ctx->KeyChars("by keys");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter);
    ctx->Yield(3);
    IM_CHECK_EQ(text.words.str(), "by keys");
    // The one that the program opens on, from the list of those that were read.
    IM_CHECK(tabbed_to(ctx, "//###text/##text"));
    ctx->KeyPress(ImGuiKey_Space);
    ctx->Yield(3);
    ctx->KeyPress(ImGuiKey_DownArrow);  // the sample, and below it the last one
    ctx->KeyPress(ImGuiKey_DownArrow);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
    IM_CHECK(text.untouched());
    // Its length has an id of its own.
    IM_CHECK(tabbed_to(ctx, "//###text/tokens"));
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    ctx->KeyChars("12");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
    IM_CHECK_EQ(text.length, 12);
  });
}

// A model that cannot be opened, beside one that can.
struct Unopened : Keyed {
  Unopened() {
    link.set_manner("", MadeUpWorker::Manner::fail);
    link.set_manner(protocol::ModelsRequest::method, MadeUpWorker::Manner::answer);
  }
};

TEST(Keys, WhyAModelCouldNotBeOpenedIsReached) {
  play_scenario<Unopened>(
      [](ImGuiTestContext* ctx) {
        auto& stage = stage_in<Unopened>(ctx);
        run_command(ctx, "show models");
        ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_W);
        ctx->Yield(4);
        IM_CHECK(!stage.session().closed_views.empty());
        run_command(ctx, "show attention map");
        IM_CHECK(tabbed_to(ctx, "//###map/**/##why"));
        ctx->KeyPress(ImGuiKey_Space);
        ctx->Yield(4);
        IM_CHECK(stage.session().closed_views.empty());
      },
      std::chrono::seconds(60));
}

TEST(Keys, ATrainingIsStarted) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    run_command(ctx, "show jobs");
    IM_CHECK(tabbed_to(ctx, "//###jobs/New training..."));
    ctx->KeyPress(ImGuiKey_Space);
    ctx->Yield(4);
    IM_CHECK(stage.session().views.get<JobsState>().form);
    IM_CHECK(holds_within(ctx, std::chrono::seconds(20), [&] {
      return stage.main_window.requests().of(kJobForm).answer() != nullptr;
    }));
    ctx->Yield(3);
    IM_CHECK(tabbed_to(ctx, "//###jobs/Train"));
    ctx->KeyPress(ImGuiKey_Space);
    IM_CHECK(holds_within(ctx, std::chrono::seconds(20), [&] {
      return stage.link.counts().contains(protocol::StartRequest::method);
    }));
  });
}

TEST(Keys, FiguresAreSaved) {
  play_scenario<KeyedInFolder>(
      [](ImGuiTestContext* ctx) {
        auto& stage = stage_in<KeyedInFolder>(ctx);
        ctx->Yield(20);
        run_command(ctx, "show attention map");
        ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_E);
        ctx->Yield(4);
        IM_CHECK(stage.main_window.window().to_export != nullptr);
        IM_CHECK(tabbed_to(ctx, "//$FOCUSED/folder"));
        ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
        ctx->KeyChars(stage.folder.path().c_str());
        ctx->Yield(2);
        IM_CHECK(tabbed_to(ctx, "//$FOCUSED/Save"));
        ctx->KeyPress(ImGuiKey_Space);
        IM_CHECK(holds_within(ctx, std::chrono::seconds(20),
                              [&] { return !std::filesystem::is_empty(stage.folder.path()); }));
      },
      std::chrono::seconds(60));
}

TEST(Keys, AViewIsClosedAndShownAgain) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    const auto& closed = stage.session().closed_views;
    run_command(ctx, "show theory");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_W);
    ctx->Yield(4);
    IM_CHECK(closed == std::vector<std::string>{"theory"});
    // The next one, not the same again.
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_W);
    ctx->Yield(4);
    IM_CHECK_EQ(closed.size(), std::size_t{2});
    run_command(ctx, "show theory");
    IM_CHECK_EQ(closed.size(), std::size_t{1});
    IM_CHECK(stage.main_window.view("theory")->visible());
  });
}

TEST(Keys, ASessionIsKeptAndOpened) {
  play_scenario<KeyedInFolder>(
      [](ImGuiTestContext* ctx) {
        auto& stage = stage_in<KeyedInFolder>(ctx);
        run_command(ctx, "L0H1");
        ctx->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_S);
        ctx->Yield(4);
        ctx->KeyChars("by keys");
        ctx->Yield(2);
        IM_CHECK(tabbed_to(ctx, "//Sessions/Save"));
        ctx->KeyPress(ImGuiKey_Space);
        ctx->Yield(4);
        run_command(ctx, "L1H0");
        ctx->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_S);
        ctx->Yield(4);
        IM_CHECK(tabbed_to(ctx, "//Sessions/**/by keys"));
        ctx->KeyPress(ImGuiKey_Enter);
        ctx->Yield(4);
        IM_CHECK_EQ(stage.session().selection.layer, 0);
        IM_CHECK_EQ(stage.session().selection.head, 1);
      },
      std::chrono::seconds(60));
}

TEST(Keys, AWorkerThatDiedOverAndOverIsStartedAgain) {
  play_keys([](ImGuiTestContext* ctx) {
    Keyed& stage = stage_in<Keyed>(ctx);
    const WorkerRequests& requests = stage.main_window.requests();
    for (int death = 0; death < 6 && !requests.gave_up(); ++death) {
      stage.link.die("killed by signal 9");
      ctx->Yield(4);
    }
    IM_CHECK(requests.gave_up());
    const int starts = stage.link.starts();
    run_command(ctx, "start the worker again");
    IM_CHECK(!requests.gave_up());
    IM_CHECK_GT(stage.link.starts(), starts);
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
  for (const widgets::KeyHelp& help : widgets::focus_keys_help()) {
    EXPECT_NE(said.find(help.keys), std::string::npos) << help.keys << " in " << said;
  }
}

}  // namespace
}  // namespace phasescope::app
