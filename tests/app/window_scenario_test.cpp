// The first five minutes of a user, driven by Dear ImGui's test engine without a display.
#include "tests/app/window_scenario.h"

#include <gtest/gtest.h>

#include <chrono>

#include "app/views/extrapolation_view.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "app/views/jobs_view.h"
#include "app/views/kept_tables.h"
#include "app/views/map_view.h"
#include "app/views/models_view.h"
#include "app/views/text_view.h"
#include "app/views/theory_view.h"
#include "app/window/main_window.h"
#include "tests/app/made_up_worker.h"

namespace phasescope::app {
namespace {

struct Stage {
  MadeUpWorker link;
  MainWindow main_window{default_session(), link, link};
  const Session& session() { return main_window.edit().session(); }
};

Stage& stage_of(ImGuiTestContext* ctx) { return stage_in<Stage>(ctx); }

template <class Condition>
bool wait_for(ImGuiTestContext* ctx, Condition holds) {
  return holds_within(ctx, std::chrono::seconds(2), holds);
}

void play(ScenarioStep step) { play_scenario<Stage>(step, std::chrono::seconds(60)); }

TEST(Scenario, OpenAModel) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ctx->ItemClick("//###models/models/tape/##open");
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{3});
    IM_CHECK(stage.session().models.back() == "tape");
    ctx->Yield(3);
    IM_CHECK(stage.main_window.requests().of(kHeads, "tape").answer() != nullptr);
    ctx->ItemClick("//###models/models/tape/##open");
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{2});
  });
}

TEST(Scenario, ModelsAreSearchedAndSorted) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto top_of = [&](const char* model) {
      const std::string box = std::string("//###models/models/") + model + "/##open";
      return ctx->ItemInfo(box.c_str(), ImGuiTestOpFlags_NoError).RectFull.Min.y;
    };
    IM_CHECK(top_of("none") < top_of("alibi"));  // as the worker lists them
    ctx->ItemClick("//###models/**/model");
    ctx->Yield(2);
    IM_CHECK(top_of("alibi") < top_of("none"));
    ctx->ItemClick("//###models/**/model");
    ctx->Yield(2);
    IM_CHECK(top_of("tape") < top_of("alibi"));
    ctx->ItemInputValue("//###models/##search", "tap");
    ctx->Yield(2);
    IM_CHECK(ctx->ItemExists("//###models/models/tape/##open"));
    IM_CHECK(!ctx->ItemExists("//###models/models/rope/##open"));
    IM_CHECK_STR_EQ(stage.session().views.get<ModelsState>().search.c_str(), "tap");
  });
}

TEST(Scenario, ReadAModelWithAnotherScaling) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ctx->ItemClick("//###models/Open reading");
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{3});
    IM_CHECK(stage.session().models.back() == "rope (yarn x2)");
    const auto& heads = stage.main_window.requests().of(kHeads, "rope (yarn x2)");
    IM_CHECK(wait_for(ctx, [&] { return heads.answer() != nullptr; }));
    ctx->ItemClick("//###models/Open reading");  // it is open already
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{3});
  });
}

// The form of the task's fields takes what the command line takes, and refuses the rest.
TEST(Scenario, ChooseWhatAnEvaluationReads) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto choices = [&] { return stage.session().views.get<ExtrapolationState>().choices; };
    ctx->ItemClick("//###extrapolation/###options");
    ctx->ItemInputValue("//$FOCUSED/###trials", "4");
    IM_CHECK_EQ(choices().options.value("trials", 0), 4);
    ctx->ItemInputValue("//$FOCUSED/###trials", "many");
    IM_CHECK_EQ(choices().options.value("trials", 0), 4);
    ctx->ItemInputValue("//$FOCUSED/###lengths", "0");
    IM_CHECK(!choices().options.contains("lengths"));
    ctx->ItemInputValue("//$FOCUSED/###lengths", "64,128");
    ctx->ItemClick("//$FOCUSED/###corpus");
    ctx->ItemInputValue("//$FOCUSED/###path of corpus", "some texts");
    IM_CHECK(choices().options["lengths"] == nlohmann::json({64, 128}));
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
    const auto& asked = stage.main_window.requests().of(kEval, "rope").asked().params;
    IM_CHECK_EQ(asked.value("trials", 0), 4);
    IM_CHECK_STR_EQ(asked.value("corpus", "").c_str(), "some texts");
    IM_CHECK_STR_EQ(asked.value("lengths", nlohmann::json()).dump().c_str(), "[64,128]");
    ctx->ItemClick("//###extrapolation/###options");
    ctx->ItemInputValue("//$FOCUSED/###trials", "");  // as the command line has it by default
    IM_CHECK(!choices().options.contains("trials"));
    ctx->ItemClick("//$FOCUSED/Reset");
    IM_CHECK_EQ(choices().options.value("trials", 0), 16);
    IM_CHECK(!choices().options.contains("lengths"));
  });
}

// 17.B15: of another task the form has neither perplexity's measure nor its texts.
TEST(Scenario, TheFormHasTheOptionsOfTheTaskAlone) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto has = [&](const char* field) {
      const std::string item = std::string("//$FOCUSED/###") + field;
      return ctx->ItemInfo(item.c_str(), ImGuiTestOpFlags_NoError).ID != 0;
    };
    ctx->ItemClick("//###extrapolation/###options");
    for (const char* field : {"trials", "lengths", "window", "metric", "corpus"}) {
      IM_CHECK(has(field));
    }
    ctx->KeyPress(ImGuiKey_Escape);
    stage.main_window.context().set_state(
        "Another task",
        ExtrapolationState{.choices = {.task = "later", .options = nlohmann::json::object()}});
    ctx->Yield(3);
    ctx->ItemClick("//###extrapolation/###options");
    for (const char* field : {"trials", "lengths"}) IM_CHECK(has(field));
    for (const char* field : {"window", "metric", "corpus"}) IM_CHECK(!has(field));
  });
}

TEST(Scenario, PickAHead) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const ImGuiTestItemInfo grid = ctx->ItemInfo("//###heads/**/##heads");
    IM_CHECK(grid.ID != 0);
    // The thumbnail in the last row and column.
    ctx->MouseMoveToPos({grid.RectFull.Max.x - 30, grid.RectFull.Max.y - 45});
    ctx->MouseClick();
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().selection.layer, 3);
    IM_CHECK_EQ(stage.session().selection.head, 3);
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_LeftArrow);
    IM_CHECK_EQ(stage.session().selection.head, 2);
  });
}

// The right button asks what can be done to a head, in the grid as on its map.
TEST(Scenario, AHeadIsTakenOutWhereItIsSeen) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const ImGuiTestItemInfo grid = ctx->ItemInfo("//###heads/**/##heads");
    IM_CHECK(grid.ID != 0);
    ctx->MouseMoveToPos({grid.RectFull.Min.x + 8, grid.RectFull.Min.y + 8});
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().selection.layer, 0);
    IM_CHECK_EQ(stage.session().selection.head, 0);
    ctx->MenuClick("//$FOCUSED/Intervene on L0H0/ablate");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(selected_model(stage.session()).c_str(), "rope (head_ablations=L0H0:zero)");
    const ImGuiWindow* map = ctx->GetWindowByRef("//###map");
    ctx->MouseMoveToPos({map->Pos.x + map->Size.x * 0.4F, map->Pos.y + map->Size.y * 0.45F});
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(2);
    ctx->MenuClick("//$FOCUSED/Intervene on L0H0/cap the sink at 0.1");
    ctx->Yield(2);
    const std::string both = selected_model(stage.session());
    IM_CHECK(both.find("head_sink_caps=L0H0:0.1") != both.npos);
    IM_CHECK(both.find("head_ablations=L0H0:zero") != both.npos);
  });
}

TEST(Scenario, SortHeadsByATitleOfTheTable) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto state = [&] { return stage.session().views.get<HeadsState>(); };
    const ImGuiTestItemInfo title = ctx->ItemInfo("//###heads/**/sink");
    IM_CHECK(title.ID != 0);
    ctx->ItemClick("//###heads/**/sink");
    ctx->Yield(2);
    IM_CHECK(state().sorted);
    IM_CHECK_STR_EQ(state().metric.c_str(), "sink");
    ctx->ItemClick("//###heads/**/sink");  // 19: the pictures follow to the smallest first
    ctx->Yield(2);
    IM_CHECK(state().sorted && state().ascending);
    ctx->ItemInputValue("//###heads/**/##search", "h3");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(state().search.c_str(), "h3");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
  });
}

TEST(Scenario, ThePointerOverAHeadLightsItUpElsewhere) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const ImGuiTestItemInfo grid = ctx->ItemInfo("//###heads/**/##heads");
    ctx->MouseMoveToPos({grid.RectFull.Min.x + 8, grid.RectFull.Min.y + 8});
    ctx->Yield(2);
    const widgets::Hover& hover = stage.main_window.window().hover();
    IM_CHECK(hover.layer == 0 && hover.head == 0 && hover.model.has_value());
    const ImGuiWindow* text = ctx->GetWindowByRef("//###text");
    ctx->MouseMoveToPos({text->Pos.x + 40, text->Pos.y + text->Size.y - 8});
    ctx->Yield(2);
    IM_CHECK(!stage.main_window.window().hover().layer);
  });
}

// Another menu would change axes outside of undo and of what is saved.
TEST(Scenario, AFigureHasTheMenuOfTheWindow) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const ImGuiWindow* view = ctx->GetWindowByRef("//###extrapolation");
    ctx->MouseMoveToPos({view->Pos.x + view->Size.x * 0.5F, view->Pos.y + view->Size.y * 0.45F});
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(2);
    IM_CHECK(!ctx->ItemExists("//$FOCUSED/X-Axis"));
    ctx->ItemClick("//$FOCUSED/Save these figures...");
    ctx->Yield(3);
    IM_CHECK(stage.main_window.window().to_export != nullptr);
  });
}

// In a small window they fold into a menu, and the help stands beside it.
TEST(Scenario, TheToolsOfEveryViewAreInReachInASmallWindow) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ImGui::GetIO().DisplaySize = {1000, 700};
    ctx->Yield(20);
    for (const std::string& id : stage.main_window.view_ids()) {
      stage.main_window.window().focus_view = id;
      ctx->Yield(4);
      const std::string window = "//###" + id;
      const ImGuiWindow* view = ctx->GetWindowByRef(window.c_str());
      const auto in_sight = [&](const char* item) {
        const ImGuiTestItemInfo info =
            ctx->ItemInfo((window + "/" + item).c_str(), ImGuiTestOpFlags_NoError);
        return info.ID != 0 && view->InnerClipRect.Contains(info.RectFull);
      };
      IM_CHECK_SILENT(in_sight("?"));
      const bool tools = in_sight("...") || in_sight("Command");
      if (!tools || !in_sight("?")) ctx->LogError("%s", id.c_str());
      IM_CHECK(tools);
    }
  });
}

TEST(Scenario, SavingAsksWhere) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ctx->ItemClick("//###distance/Save");
    ctx->Yield(3);
    IM_CHECK(stage.main_window.window().to_export != nullptr);
    IM_CHECK(ctx->GetWindowByRef("//Save figures")->Active);
    ctx->ItemClick("//Save figures/csv");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(stage.session().views.get<FigureForm>().format.c_str(), "csv");
    ctx->ItemClick("//Save figures/Cancel");
    ctx->Yield(2);
    IM_CHECK(stage.main_window.window().to_export == nullptr);
  });
}

TEST(Scenario, ZoomTheMapFromAllToSinglePairsAndBack) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ImGuiWindow* window = ctx->GetWindowByRef("//###map");
    IM_CHECK(window != nullptr);
    ctx->MouseMoveToPos(
        {window->Pos.x + window->Size.x * 0.4F, window->Pos.y + window->Size.y * 0.45F});
    const auto span = [&] {
      return stage.session().region.row_end - stage.session().region.row_begin;
    };
    ctx->MouseWheelY(1);  // one step, however far it is turned
    IM_CHECK(wait_for(ctx, [&] { return span() > 0; }));
    const auto wide = span();
    IM_CHECK(wide < 256);
    for (int turn = 0; turn < 10; ++turn) ctx->MouseWheelY(1);
    IM_CHECK(wait_for(ctx, [&] { return span() < wide; }));
    IM_CHECK(span() <= 128);  // no map has fewer cells
    // The worker was asked for the region only, and gave each pair a cell of its own.
    IM_CHECK(wait_for(ctx, [&] {
      const auto* map = stage.main_window.requests().of(kMap, "rope").answer();
      return map && map->result.row_end - map->result.row_begin == span();
    }));
    const auto* map = stage.main_window.requests().of(kMap, "rope").answer();
    IM_CHECK_EQ(map->result.height, map->result.row_end - map->result.row_begin);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_0);
    IM_CHECK_EQ(span(), 0);
    // The same without the wheel.
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_Equal);
    IM_CHECK_EQ(span(), 128);
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_Minus);
    IM_CHECK_EQ(span(), 0);
  });
}

TEST(Scenario, BothCurvesStandBesideASingleMap) {
  play([](ImGuiTestContext* ctx) {
    ctx->ItemClick("//###models/models/tapa_norm/##open");  // leaves one model
    const auto* map = &stage_of(ctx).main_window.requests().of(kMap, "rope");
    IM_CHECK(wait_for(ctx, [&] { return map->answer() != nullptr; }));
    ctx->Yield(2);
    IM_CHECK(ctx->ItemInfo("//###map/by_key/##plot", ImGuiTestOpFlags_NoError).ID != 0);
    const ImGuiTestItemInfo right =
        ctx->ItemInfo("//###map/by_query/##plot", ImGuiTestOpFlags_NoError);
    IM_CHECK(right.ID != 0);
    const ImGuiWindow* window = ctx->GetWindowByRef("//###map");
    IM_CHECK(right.RectFull.Max.x <= window->Pos.x + window->Size.x);
  });
}

TEST(Scenario, PaletteIsClosedByEscapeAndByAClickElsewhere) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const ImGuiWindow* text = ctx->GetWindowByRef("//###text");
    for (const bool by_key : {true, false}) {
      ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
      ctx->Yield(3);
      IM_CHECK(stage.main_window.window().palette_open);
      if (by_key) {
        ctx->KeyPress(ImGuiKey_Escape);
      } else {
        ctx->MouseMoveToPos({text->Pos.x + 40, text->Pos.y + text->Size.y - 20});
        ctx->MouseClick();
      }
      ctx->Yield(3);
      IM_CHECK(!stage.main_window.window().palette_open);
    }
  });
}

TEST(Scenario, ArrowsWalkThePaletteAndScrollIt) {
  play([](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
    ctx->KeyPress(ImGuiKey_DownArrow, 30);
    ctx->Yield(2);
    IM_CHECK(ImGui::GetIO().WantTextInput);  // one can go on typing
    float y = 0;
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      if (std::string(window->Name).find("/found_") != std::string::npos) y = window->Scroll.y;
    }
    IM_CHECK_GT(y, 0);  // scrolled
  });
}

TEST(Scenario, EscapeClosesDialogs) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_O);
    ctx->Yield(3);
    IM_CHECK(stage.main_window.window().open_dialog == "model");
    // A path can be typed at once.
    IM_CHECK(wait_for(ctx, [] { return ImGui::GetIO().WantTextInput; }));
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
    IM_CHECK(stage.main_window.window().open_dialog.empty());
    ctx->KeyPress(ImGuiKey_F1);
    ctx->Yield(3);
    IM_CHECK(ctx->GetWindowByRef("//Keyboard shortcuts")->Active);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(3);
    IM_CHECK(!ctx->GetWindowByRef("//Keyboard shortcuts")->Active);
  });
}

TEST(Scenario, PaletteSwitchesTheThemeAndUndoTakesItBack) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
    ctx->Yield(3);
    ctx->KeyChars("light and dark");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(2);
    IM_CHECK(stage.session().theme == "dark");
    IM_CHECK(widgets::is_dark());
    IM_CHECK(!stage.main_window.window().palette_open);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(2);
    IM_CHECK(stage.session().theme == "light");
    IM_CHECK(!widgets::is_dark());
  });
}

TEST(Scenario, PaletteBringsAHiddenViewForward) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    IM_CHECK(!stage.main_window.view("theory")->visible());
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_K);
    ctx->Yield(3);
    ctx->KeyChars("show theory");
    ctx->KeyPress(ImGuiKey_Enter);
    IM_CHECK(wait_for(ctx, [&] { return stage.main_window.view("theory")->visible(); }));
    IM_CHECK(wait_for(
        ctx, [&] { return stage.main_window.requests().of(kTheory, "rope").answer() != nullptr; }));
  });
}

TEST(Scenario, AWorkerThatIsKilledIsNamedAndReplaced) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto picture = stage.main_window.requests().of(kHeads, "rope").answer()->serial;
    stage.link.set_manner("map", MadeUpWorker::Manner::hold);
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_RightArrow);
    ctx->Yield(2);
    IM_CHECK(stage.main_window.requests().of(kMap, "rope").waiting());
    stage.link.die("killed by SIGKILL");
    ctx->Yield(3);
    IM_CHECK_EQ(stage.link.starts(), 2);
    IM_CHECK(stage.main_window.requests().death_notice().find("SIGKILL") != std::string::npos);
    IM_CHECK_EQ(stage.main_window.requests().of(kHeads, "rope").answer()->serial, picture);
    stage.link.set_manner("map", MadeUpWorker::Manner::answer);
    IM_CHECK(wait_for(ctx, [&] {
      const auto* map = stage.main_window.requests().of(kMap, "rope").answer();
      return map && map->result.head == 2;
    }));
    ctx->ItemClick("//##banner/Dismiss");
    ctx->Yield();
    IM_CHECK(stage.main_window.requests().death_notice().empty());
  });
}

TEST(Scenario, ATrainingIsStartedFromTheForm) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    stage.main_window.window().focus_view = "jobs";
    IM_CHECK(wait_for(ctx, [&] { return stage.main_window.view("jobs")->visible(); }));
    ctx->ItemClick("//###jobs/Evaluate");
    IM_CHECK(wait_for(ctx, [&] { return !stage.session().views.get<JobsState>().dir.empty(); }));
    IM_CHECK_EQ(stage.link.counts().at("jobs.start"), 1);
    IM_CHECK(wait_for(ctx, [&] {
      return stage.main_window.requests().of(kJob, "jobs/tapa").answer() != nullptr;
    }));
  });
}

// A job that runs cannot be removed; one that has ended is, after a question.
TEST(Scenario, AJobIsRemovedAfterAQuestion) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    stage.main_window.edit().apply("job", [](Session& s) { s.views.set(JobsState{"jobs/tapa"}); });
    stage.main_window.window().focus_view = "jobs";
    const auto shown = [&] {
      return stage.main_window.view("jobs")->visible() &&
             stage.main_window.requests().of(kJob, "jobs/tapa").answer();
    };
    IM_CHECK(wait_for(ctx, shown));
    ctx->Yield(2);
    const auto flags = ctx->ItemInfo("//###jobs/**/Remove...").ItemFlags;
    IM_CHECK((flags & ImGuiItemFlags_Disabled) != 0);
    stage.link.end_jobs();
    IM_CHECK(holds_within(ctx, std::chrono::seconds(5), [&] {
      return stage.main_window.requests().of(kJob, "jobs/tapa").answer()->result.state == "done";
    }));
    ctx->Yield(2);
    ctx->ItemClick("//###jobs/**/Remove...");
    ctx->ItemClick("//$FOCUSED/Keep it");
    IM_CHECK(!stage.link.counts().contains("jobs.control"));
    ctx->ItemClick("//###jobs/**/Remove...");
    ctx->ItemClick("//$FOCUSED/Delete");
    ctx->Yield(2);
    IM_CHECK_EQ(stage.link.last_params("jobs.control"),
                nlohmann::json({{"dir", "jobs/tapa"}, {"action", "remove"}}));
    IM_CHECK(stage.session().views.get<JobsState>().dir.empty());
  });
}

// What the window computes is compared with a reference where there is one.
TEST(Scenario, AModelIsCheckedAgainstAReference) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    ctx->ItemClick("//###models/Check against a reference");
    ctx->ItemInputValue("//###models/##reference", "/references/rope.safetensors");
    ctx->ItemClick("//###models/Check");
    const auto& check = stage.main_window.requests().of(kReferenceCheck, "rope");
    IM_CHECK(wait_for(ctx, [&] { return check.answer() != nullptr; }));
    IM_CHECK_EQ(stage.link.last_params("check")["reference"],
                nlohmann::json("/references/rope.safetensors"));
    IM_CHECK(ctx->ItemExists("//###models/**/tolerance"));
  });
}

// The form begins with a shipped configuration, says what would not start, and starts the rest.
TEST(Scenario, AConfigurationIsChangedInItsFormAndTrained) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto run = [&] { return stage.session().views.get<JobsState>().run; };
    stage.main_window.window().focus_view = "jobs";
    IM_CHECK(wait_for(ctx, [&] { return stage.main_window.view("jobs")->visible(); }));
    ctx->ItemClick("//###jobs/New training...");
    IM_CHECK(wait_for(
        ctx, [&] { return stage.main_window.requests().of(kJobForm).answer() != nullptr; }));
    IM_CHECK_EQ(run()["encoding"]["key"], nlohmann::json("tapa"));
    ctx->ItemInputValue("//###jobs/**/steps", "7");
    IM_CHECK_EQ(run()["train"]["steps"], nlohmann::json(7));
    IM_CHECK(
        wait_for(ctx, [&] { return stage.main_window.requests().of(kJobForm).answers_now(); }));
    ctx->Yield(2);
    IM_CHECK((ctx->ItemInfo("//###jobs/Train").ItemFlags & ImGuiItemFlags_Disabled) != 0);
    ctx->ItemInputValue("//###jobs/**/steps", "0");  // below its range: nothing changes
    IM_CHECK_EQ(run()["train"]["steps"], nlohmann::json(7));
    ctx->ItemInputValue("//###jobs/**/steps", "30");
    IM_CHECK(
        wait_for(ctx, [&] { return stage.main_window.requests().of(kJobForm).answers_now(); }));
    ctx->Yield(2);
    ctx->ItemClick("//###jobs/Train");
    IM_CHECK(wait_for(ctx, [&] { return stage.link.counts().contains("jobs.start"); }));
    const auto& sent = stage.link.last_params("jobs.start");
    IM_CHECK_EQ(sent["config"]["train"]["steps"], nlohmann::json(30));
    IM_CHECK_EQ(sent["name"], nlohmann::json("tapa"));
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(2);
  });
}

// What is typed is in the session before it is read, so that no end of the window loses it.
TEST(Scenario, WhatIsBeingTypedIsInTheSession) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    const auto draft = [&] { return stage.session().views.get<TextState>().draft.str(); };
    ctx->ItemClick("//###text/Edit");
    ctx->Yield(3);
    ctx->KeyChars("half a sentence");
    ctx->Yield(2);
    IM_CHECK(draft().find("half a sentence") != std::string::npos);
    ctx->ItemClick("//###text/Back");
    ctx->Yield(2);
    IM_CHECK(draft().empty());
  });
}

// So is the order of a table, and what is searched for in it, in views without a choice for that.
TEST(Scenario, TablesStandAsTheSessionHasThem) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    stage.main_window.window().focus_view = "theory";
    IM_CHECK(wait_for(ctx, [&] { return ctx->ItemExists("//###theory/**/value"); }));
    const auto kept = [&] { return stage.session().views.get<TablesState>().tables["theory"]; };
    ctx->ItemClick("//###theory/**/value");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(kept().column.c_str(), "value");
    ctx->ItemInputValue("//###theory/**/##search", "rope");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(kept().search.c_str(), "rope");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(2);
    IM_CHECK(kept() == KeptArrangement{});
    IM_CHECK(!stage.main_window.edit().undo_title().starts_with("Arrange"));
  });
}

// A head is taken out, which is a second model; a further change stays one reading; all is undone.
TEST(Scenario, AHeadIsTakenOutAndPutBack) {
  play([](ImGuiTestContext* ctx) {
    Stage& stage = stage_of(ctx);
    stage.main_window.window().focus_view = "intervene";
    IM_CHECK(wait_for(ctx, [&] { return stage.main_window.view("intervene")->visible(); }));
    ctx->ItemClick("//###intervene/Apply to L3H1");
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{3});
    IM_CHECK_STR_EQ(selected_model(stage.session()).c_str(), "rope (head_ablations=L3H1:zero)");
    IM_CHECK(wait_for(ctx, [&] {
      const auto& question =
          stage.main_window.requests().of(kIntervene, selected_model(stage.session()));
      return question.answer() != nullptr;
    }));
    const auto& asked = stage.link.last_params("ablate");
    IM_CHECK_EQ(asked["model"], nlohmann::json("rope"));
    IM_CHECK_EQ(asked["set"], nlohmann::json({"encoding.head_ablations=L3H1:zero"}));
    ctx->ItemClick("//###intervene/**/x");
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{2});
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{3});
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(2);
    IM_CHECK_EQ(stage.session().models.size(), std::size_t{2});
  });
}

}  // namespace
}  // namespace phasescope::app
