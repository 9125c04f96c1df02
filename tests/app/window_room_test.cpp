// What has room in a window of a given size, what stands first where there is little, and what a
// stray click must not do.
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/figures/cost_figures.h"
#include "app/figures/job_figures.h"
#include "app/views/extrapolation_view.h"
#include "app/views/field_form.h"
#include "app/views/jobs_view.h"
#include "app/views/models_view.h"
#include "app/views/plot_grid.h"
#include "app/views/view.h"
#include "app/window/main_window.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"
#include "tests/app/window_scenario.h"

namespace phasescope::app {
namespace {

using RoomManner = MadeUpWorker::Manner;

Session session_of(const std::vector<std::string>& models) {
  Session session = default_session();
  session.models = models;
  session.selection.query = 20;  // the guesses of this token are shown
  session.views.set(JobsState{"jobs/tapa"});
  give_colors(session);
  return session;
}

struct SevenModels {
  MadeUpWorker link;
  MainWindow main_window{
      session_of({"rope", "tapa_norm", "tapa", "alibi", "none", "tape", "cape_kerple"}), link,
      link};
};

struct FourModels {
  MadeUpWorker link;
  MainWindow main_window{session_of({"rope", "tapa_norm", "tapa", "alibi"}), link, link};
};

template <class Stage>
void play_room(ScenarioStep step) {
  play_scenario<Stage>(step, std::chrono::seconds(60));
}

// ---- the text ------------------------------------------------------------------------------

TEST(Room, TextStandsFirstWhereItHasLittle) {
  play_room<SevenModels>([](ImGuiTestContext* ctx) {
    ImGui::GetIO().DisplaySize = {1000, 700};
    ctx->Yield(30);
    const ImGuiWindow* view = ctx->GetWindowByRef("//###text");
    const ImGuiTestItemInfo strip = ctx->ItemInfo("//###text/**/##tokens");
    IM_CHECK(strip.ID != 0);
    // Three lines of it, of letters a third higher than wide.
    const float three = 3 * 1.45F * ImGui::GetFontSize();
    IM_CHECK_LE(strip.RectFull.Min.y + three, view->InnerClipRect.Max.y);
  });
}

// Where there is room the losses stand above their text, as ever.
TEST(Room, LossesStandAboveTheTextWhereBothHaveIt) {
  play_room<FourModels>([](ImGuiTestContext* ctx) {
    ctx->Yield(30);
    const ImGuiTestItemInfo strip = ctx->ItemInfo("//###text/**/##tokens");
    IM_CHECK(strip.ID != 0);
    // A line of losses and one of colours before it, and five lines of it in sight.
    const ImRect place = strip.Window->InnerClipRect;
    IM_CHECK_GE(strip.RectFull.Min.y, place.Min.y + 2 * ImGui::GetFontSize());
    IM_CHECK_LE(strip.RectFull.Min.y + 5 * ImGui::GetFontSize(), place.Max.y);
  });
}

// A model's guesses have the width of a word and of a whole number, however many models there are.
TEST(Room, NumbersOfGuessesAreWhole) {
  play_room<FourModels>([](ImGuiTestContext* ctx) {
    ctx->Yield(30);
    ImGuiWindow* view = ctx->GetWindowByRef("//###text");
    const ImGuiTable* guesses = ImGui::TableFindByID(view->GetID("guesses"));
    IM_CHECK(guesses != nullptr);
    const float needed = ImGui::CalcTextSize("words 100.0 %").x;
    for (int column = 0; column < guesses->ColumnsCount; ++column) {
      IM_CHECK_GE(guesses->Columns[column].WidthGiven, needed);
    }
  });
}

// ---- large letters ---------------------------------------------------------------------------

// The highest child of a view that is drawn and has this name or, where `other`, any other one.
const ImGuiWindow* child_of(const ImGuiWindow* view, const std::string& name, bool other = false) {
  const ImGuiWindow* highest = nullptr;
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    if (window->ParentWindow != view || !window->Active) continue;
    const bool named = std::string(window->Name).find("/" + name + "_") != std::string::npos;
    if (named != other && (!highest || window->Pos.y < highest->Pos.y)) highest = window;
  }
  return highest;
}

// 24: with letters three times as large a window of 1000 x 700 holds 19 by 13 of them. Half of each
// view is left to its figure, and all controls are reached: they are scrolled, and keys go from
// them to the figure as in one window.
TEST(Room, AFigureHasHalfOfItsViewWithTheLargestLetters) {
  phasescope::testing::HeadlessImGui gui({1000, 700});
  MadeUpWorker link;
  Session session = session_of({"rope", "tapa_norm"});
  session.scale = kLargestScale;
  MainWindow main_window(session, link, link);
  main_window.start_asking();
  int scrolled = 0;
  for (const std::string id : {"heads", "arcs", "distance", "map"}) {
    for (int frame = 0; frame < 12; ++frame) {
      if (frame == 1) main_window.window().focus_view = id;
      gui.begin_frame(), main_window.draw(), gui.end_frame();
    }
    const ImGuiWindow* view = ImGui::FindWindowByName(("###" + id).c_str());
    ASSERT_TRUE(view && view->Active) << id;
    EXPECT_GE(view->Rect().GetWidth(), 900) << id << ": no other view stands beside it";
    const ImRect place = view->InnerRect;
    if (const ImGuiWindow* controls = child_of(view, "controls")) {
      ++scrolled;
      EXPECT_LE(controls->Rect().Max.y, place.Min.y + place.GetHeight() / 2) << id;
      EXPECT_TRUE(controls->ChildFlags & ImGuiChildFlags_NavFlattened) << id;
      EXPECT_GT(controls->ScrollMax.y, 0) << id;
    }
    if (const ImGuiWindow* figure = child_of(view, "controls", true)) {
      EXPECT_LE(figure->Pos.y, place.Min.y + place.GetHeight() / 2) << id;
    }
  }
  EXPECT_GE(scrolled, 1);
}

// Sixteen lines of the largest letters are higher than this window: the figure takes what there is
// of it, and nothing has to be scrolled for its axis. One that is far too low is scrolled.
TEST(Room, AFigureIsSeenWholeWithTheLargestLetters) {
  phasescope::testing::HeadlessImGui gui({900, 700});
  widgets::apply_theme("light", static_cast<float>(kLargestScale));
  widgets::PlotSpec plot{.id = "loss", .title = "loss"};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {0, 1}});
  PlotGrid grid;
  const auto scrolled_in = [&](float height) {
    float scrolled = 0;
    for (int frame = 0; frame < 4; ++frame) {
      gui.frame([&] {
        ImGui::SetNextWindowSize({880, height});
        ImGui::Begin("view", nullptr, ImGuiWindowFlags_NoTitleBar);
        EXPECT_LT(height, 16 * ImGui::GetFontSize());
        grid.draw({plot}, 1, {});
        scrolled = ImGui::GetScrollMaxY();
        ImGui::End();
      });
    }
    return scrolled;
  };
  EXPECT_EQ(scrolled_in(560), 0);
  EXPECT_GT(scrolled_in(200), 0);
}

// A common display holds 46 by 26 of the largest letters: two columns, each as high as the window.
TEST(Room, LargeLettersHaveTwoColumnsOnACommonDisplay) {
  phasescope::testing::HeadlessImGui gui({1920, 1080});
  MadeUpWorker link;
  Session session = session_of({"rope", "tapa_norm"});
  session.scale = kLargestScale;
  MainWindow main_window(session, link, link);
  for (int frame = 0; frame < 8; ++frame) gui.begin_frame(), main_window.draw(), gui.end_frame();
  std::vector<const ImGuiWindow*> columns;
  for (const char* id : {"###heads", "###map"}) {
    const ImGuiWindow* view = ImGui::FindWindowByName(id);
    ASSERT_TRUE(view && view->Active && !view->Hidden) << id;
    EXPECT_GT(view->Rect().GetHeight(), 0.8F * 1080) << id;
    EXPECT_NEAR(view->Rect().GetWidth(), 960, 10) << id;
    columns.push_back(view);
  }
  EXPECT_LE(columns[0]->Rect().Max.x, columns[1]->Pos.x);
}

// The window of the test below, by the places that its views stand in.
struct Lettered {
  phasescope::testing::HeadlessImGui gui{{1920, 1080}};
  MadeUpWorker link;
  MainWindow main_window{session_of({"rope", "tapa_norm"}), link, link};

  void frames(int count) {
    for (int n = 0; n < count; ++n) gui.begin_frame(), main_window.draw(), gui.end_frame();
  }
  // With letters so much larger than usual.
  void grow(double scale) {
    main_window.edit().apply("letters", [&](Session& s) { s.scale = scale; });
    frames(30);
  }
  static ImGuiID place(const std::string& id) {
    const ImGuiWindow* window = ImGui::FindWindowByName(("###" + id).c_str());
    return window ? window->DockId : 0;
  }
  std::size_t places() const {
    std::set<ImGuiID> all;
    for (const std::string& id : main_window.view_ids()) all.insert(place(id));
    return all.size();
  }
};

// 24: six places, two of the largest letters, and six again; what is looked at stays in front.
TEST(Room, TheLayoutFollowsTheLetters) {
  Lettered stage;
  stage.frames(30);
  EXPECT_EQ(stage.places(), 6u);
  stage.main_window.window().focus_view = "theory";
  stage.frames(6);
  for (const auto& [scale, places] : {std::pair{kLargestScale, 2u}, {1.25, 6u}, {3.0, 2u}}) {
    stage.grow(scale);
    EXPECT_EQ(stage.places(), places) << scale;
    EXPECT_TRUE(stage.main_window.view("theory")->visible()) << scale;
    EXPECT_FALSE(stage.main_window.animated()) << "no view is brought forward for ever";
  }
}

// So does that of a session which was kept with other letters.
TEST(Room, TheLayoutOfASessionFollowsTheLetters) {
  Session kept;
  {
    Lettered stage;
    stage.frames(30);
    kept = stage.main_window.session_to_save();
  }
  kept.scale = kLargestScale;
  phasescope::testing::HeadlessImGui gui({1920, 1080});
  MadeUpWorker link;
  MainWindow main_window(kept, link, link);
  for (int n = 0; n < 30; ++n) gui.begin_frame(), main_window.draw(), gui.end_frame();
  std::set<ImGuiID> places;
  for (const std::string& id : main_window.view_ids()) places.insert(Lettered::place(id));
  EXPECT_EQ(places.size(), 2u);
}

// What somebody has put elsewhere stays there.
TEST(Room, ALayoutOfOnesOwnStaysAsItIs) {
  Lettered stage;
  stage.frames(30);
  const ImGuiID beside_the_map = Lettered::place("map");
  ImGui::DockBuilderDockWindow(stage.main_window.view("theory")->window_name().c_str(),
                               beside_the_map);
  stage.frames(6);
  ASSERT_EQ(Lettered::place("theory"), beside_the_map);
  stage.grow(kLargestScale);
  EXPECT_EQ(stage.places(), 6u);
  EXPECT_EQ(Lettered::place("theory"), Lettered::place("map"));
  stage.main_window.window().reset_layout = true;
  stage.frames(30);
  EXPECT_EQ(stage.places(), 2u);
}

// At the usual size nothing is scrolled away in a small window.
TEST(Room, ControlsStandInTheirViewWithTheUsualLetters) {
  phasescope::testing::HeadlessImGui gui({1000, 700});
  MadeUpWorker link;
  MainWindow main_window(session_of({"rope", "tapa_norm"}), link, link);
  main_window.start_asking();
  for (int frame = 0; frame < 20; ++frame) gui.begin_frame(), main_window.draw(), gui.end_frame();
  for (const char* id : {"###heads", "###map"}) {
    const ImGuiWindow* view = ImGui::FindWindowByName(id);
    ASSERT_TRUE(view && view->Active) << id;
    EXPECT_LT(view->Rect().GetWidth(), 700) << "others stand beside it";
    EXPECT_EQ(child_of(view, "controls"), nullptr) << id;
  }
}

// ---- tabs ----------------------------------------------------------------------------------

TEST(Room, AllTabsHaveItAt1600) {
  play_room<FourModels>([](ImGuiTestContext* ctx) {
    ctx->Yield(30);
    for (const char* name : {"//###heads", "//###extrapolation", "//###map", "//###distance"}) {
      const ImGuiWindow* window = ctx->GetWindowByRef(name);
      IM_CHECK(window && window->DockNode && window->DockNode->TabBar);
      const ImGuiTabBar* bar = window->DockNode->TabBar;
      if (bar->WidthAllTabsIdeal > bar->BarRect.GetWidth()) ctx->LogError("%s", name);
      IM_CHECK_LE(bar->WidthAllTabsIdeal, bar->BarRect.GetWidth());
    }
  });
}

// Neither on a tab's right end nor at the end of the line of tabs, twice in a row.
TEST(Room, NoClickOnALineOfTabsClosesAView) {
  play_room<FourModels>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<FourModels>(ctx);
    const auto& closed = stage.main_window.edit().session().closed_views;
    ctx->Yield(30);
    const ImGuiWindow* heads = ctx->GetWindowByRef("//###heads");
    ImGuiTabBar* bar = heads->DockNode->TabBar;
    const ImRect line = bar->BarRect;
    std::vector<float> ends{line.Max.x + 12};
    for (const ImGuiTabItem& tab : bar->Tabs) {
      ends.push_back(line.Min.x + tab.Offset + tab.Width - 12);
    }
    for (const float end : ends) {
      for (int click = 0; click < 2; ++click) {
        ctx->MouseMoveToPos({end, line.GetCenter().y});
        ctx->MouseClick();
        ctx->Yield(3);
        IM_CHECK(closed.empty());
      }
    }
  });
}

TEST(Room, TheMenuOfATabClosesItsView) {
  play_room<FourModels>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<FourModels>(ctx);
    ctx->Yield(30);
    const ImGuiWindow* theory = ctx->GetWindowByRef("//###theory");
    const ImGuiTabBar* bar = theory->DockNode->TabBar;
    const ImGuiTabItem* tab = ImGui::TabBarFindTabByID(theory->DockNode->TabBar, theory->TabId);
    IM_CHECK(tab != nullptr);
    ctx->MouseMoveToPos(
        {bar->BarRect.Min.x + tab->Offset + tab->Width / 2, bar->BarRect.GetCenter().y});
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(3);
    ctx->ItemClick("//$FOCUSED/Close Theory");
    ctx->Yield(3);
    IM_CHECK(stage.main_window.edit().session().closed_views == std::vector<std::string>{"theory"});
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z);
    ctx->Yield(3);
    IM_CHECK(stage.main_window.edit().session().closed_views.empty());
  });
}

// ---- jobs ----------------------------------------------------------------------------------

TEST(Room, ACurveOfAJobCanBeRead) {
  play_room<FourModels>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<FourModels>(ctx);
    ImGui::GetIO().DisplaySize = {1000, 700};
    stage.main_window.window().focus_view = "jobs";
    IM_CHECK(holds_within(ctx, std::chrono::seconds(2), [&] {
      return stage.main_window.requests().of(kJob, "jobs/tapa").answer() != nullptr;
    }));
    ctx->Yield(30);
    ctx->ScrollToBottom("//###jobs");
    ctx->Yield(3);
    const ImGuiWindow* curves = nullptr;
    for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
      if (window->Active && std::string(window->Name).find("/Curves_") != std::string::npos) {
        curves = window;
      }
    }
    IM_CHECK(curves != nullptr);
    // What of it is seen: the line with the choice, and the curve.
    IM_CHECK_GE(curves->InnerClipRect.GetHeight(), 12 * ImGui::GetFontSize());
  });
}

class RoomOfOne : public OneView {
 protected:
  RoomOfOne() : OneView(6) {}
  std::string words() { return words_in({900, 600}); }
  // Two frames, as a table and its parts have their sizes in the second one.
  template <class Draw>
  void in_a_window(float width, Draw draw) {
    for (int frame = 0; frame < 2; ++frame) {
      gui_.begin_frame();
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({width, 500});
      ImGui::Begin("window");
      draw();
      ImGui::End();
      gui_.end_frame();
    }
  }
};

// ---- what is cut off -----------------------------------------------------------------------

// "rope L3H1: q k by channel, query 255, key 254" ended as "key 2" beside a narrow map.
TEST_F(RoomOfOne, ATitleThatIsTooLongGoesOnInAFurtherLine) {
  PlotGrid grid;
  widgets::PlotSpec plot{.id = "products",
                         .title = "rope L3H1: q k by channel, query 255, key 254"};
  plot.series.push_back({.label = "a", .x = {0, 1}, .y = {0, 1}});
  float line = 0;
  const auto top_of_figure = [&](float width) {
    float top = 0;
    in_a_window(width, [&] {
      grid.draw({plot}, 1, {}, [&](const widgets::PlotSpec&, const widgets::PlotDraw&) {
        top = ImGui::GetCursorPosY(), line = ImGui::GetTextLineHeight();
      });
    });
    return top;
  };
  const float one_line = top_of_figure(900);
  const float two_lines = top_of_figure(250);
  EXPECT_NEAR(two_lines - one_line, line, 1);
}

// "up to 256 tokens: 11.3 MB" ended in half a letter at twice the size.
TEST_F(RoomOfOne, ALineThatIsTooLongEndsInsideItsPlace) {
  float right = 0, edge = 0;
  const auto draw_line_in = [&](float width) {
    in_a_window(width, [&] {
      edge = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
      draw_cut_line("wheel: zoom   drag: move   double click: all", {0, 0, 0, 1});
      right = ImGui::GetItemRectMax().x;
    });
  };
  draw_line_in(160);
  EXPECT_NEAR(right, edge, 1);
  draw_line_in(900);
  EXPECT_LT(right, edge / 2) << "no longer than it is where it has room";
}

// At twice the size in a window of 1000 x 700 the arrow of the metric's choice was out of sight.
TEST_F(RoomOfOne, AChoiceIsNoWiderThanItsPlace) {
  std::string chosen = "attention to earlier copies of the token";
  float right = 0, edge = 0;
  const auto draw_choice_in = [&](float width) {
    in_a_window(width, [&] {
      edge = ImGui::GetCursorScreenPos().x + ImGui::GetContentRegionAvail().x;
      draw_choice("##choice", chosen, {chosen, "entropy"});
      right = ImGui::GetItemRectMax().x;
    });
  };
  draw_choice_in(160);
  EXPECT_LE(right, edge + 0.5F);
  draw_choice_in(900);
  EXPECT_LT(right, edge / 2);
}

TEST_F(RoomOfOne, JobsHaveOneUnitAColumn) {
  Session session = default_session();
  session.views.set(JobsState{"jobs/tapa"});
  open("jobs", session);
  const std::string said = words();
  for (const char* title : {"done (%)", "left (min)", "loss (bits a token)"}) {
    EXPECT_NE(said.find(title), said.npos) << said;
  }
  // Of 120 of 200 steps, of 42 s, and of the last of the made-up losses, which are nats.
  const double nats = 2 + 3 * std::exp(-116 / 30.0);
  for (const std::string& number :
       {std::string("60"), std::string("0.7"), widgets::short_number(nats / std::log(2.0))}) {
    EXPECT_NE(said.find(number), said.npos) << number << "\n" << said;
  }
  EXPECT_EQ(said.find("nats"), said.npos) << said;
  EXPECT_EQ(saved_.at(0).output.figures.at(0).y.label, kLossOfJobs);
}

// ---- models --------------------------------------------------------------------------------

// Under its row, and not below all that can be opened.
TEST_F(RoomOfOne, WhyAModelCannotBeOpenedStandsUnderItsName) {
  link_.set_manner("model.info", RoomManner::fail);
  open("models");
  const std::string said = words();
  const std::size_t why = said.find("The file is not a model");
  ASSERT_NE(why, said.npos) << said;
  EXPECT_LT(why, said.find("cape_kerple")) << said;  // which is listed after rope
}

// A job's model is not called as a bundled one is, also where that is not open.
TEST(Names, OfFilesAreNotThoseOfBundledModels) {
  Session session = default_session();
  session.models = {"/home/me/out/rope", "/home/me/out/mine"};
  EXPECT_EQ(short_name(session, session.models[0]), "out/rope");
  EXPECT_EQ(short_name(session, session.models[1]), "mine");
  EXPECT_EQ(short_name(session, "rope"), "rope");
}

// ---- forms ---------------------------------------------------------------------------------

struct FormOfTitles {
  std::int64_t far_end = 8, rounds = 1;
  std::optional<bool> sorted;
  template <class V>
  void fields(V& v) {
    v("far_end", far_end, protocol::About{.help = "where it ends", .unit = "tokens"});
    v("rounds", rounds, protocol::About{.help = "how often", .title = "times over"});
    v("sorted", sorted, protocol::About{.help = "largest first"});
  }
};

TEST(Forms, NameAFieldByItsTitleAndUnit) {
  phasescope::testing::HeadlessImGui gui;
  FieldForm form;
  nlohmann::json chosen = nlohmann::json::object();
  std::string said;
  for (int frame = 0; frame < 2; ++frame) {
    gui.frame([&] {
      FormOfTitles now, defaults;
      said = gui.words_of([&] {
        form.draw(chosen, protocol::detail::bound_fields(now),
                  protocol::detail::bound_fields(defaults));
      });
    });
  }
  for (const char* words : {"Far end (tokens)", "times over", "automatic"}) {
    EXPECT_NE(said.find(words), said.npos) << said;
  }
  for (const char* words : {"far_end", "rounds", "by itself"}) {
    EXPECT_EQ(said.find(words), said.npos) << said;
  }
  EXPECT_TRUE(chosen.empty()) << chosen;
}

// ---- figures -------------------------------------------------------------------------------

TEST(CostFigure, NoPartReadsLikeAnAttentionHead) {
  protocol::CostResult result{.model = "rope", .encoding = "rope"};
  result.parts = {{.name = "MLP", .macs = 2}, {.name = "head", .macs = 1}};
  const auto plot = cost_figure({result}, ModelNames({"rope"}));
  ASSERT_EQ(plot.y.ticks.size(), 2U);
  EXPECT_EQ(plot.y.ticks[1].label, "output layer (LM head)");
  EXPECT_EQ(plot.series.at(0).names.at(1), "rope, output layer (LM head)");
}

// A worker that answers questions about all models together alone, once it is told to.
struct TogetherAlone : MadeUpWorker {
  bool alone = false;
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override {
    const bool one = method == "eval" && params.value("models", nlohmann::json()).size() < 2;
    if (alone && one) callbacks = {[](protocol::Reply) {}, [](const protocol::ErrorInfo&) {}, {}};
    return MadeUpWorker::submit(method, std::move(params), std::move(callbacks), tag);
  }
};

// 19: rows of one corpus and differences of another are never in one result; the bar says which
// texts are shown.
TEST(ExtrapolationOf, TwoCorporaIsNotMixed) {
  phasescope::testing::HeadlessImGui gui;
  TogetherAlone link;
  Session session = default_session();
  session.views.set(ExtrapolationState{.figure = "paired difference"});
  SessionHistory edit(session);
  WorkerRequests requests(link, link);
  WindowState window;
  window.may_ask = true;
  ViewContext context{edit, requests, window};
  ExtrapolationView view;
  std::string said;
  const auto draw = [&] {
    for (int frame = 0; frame < 6; ++frame) {
      gui.begin_frame(0.1F);
      requests.begin_frame();
      ImGui::SetNextWindowSize({900, 600});
      said = gui.words_of([&] { view.draw(context); });
      gui.end_frame();
    }
    return view.saved(context).at(0);
  };
  EXPECT_EQ(draw().output.figures.back().id, "eval_difference_perplexity");
  EXPECT_NE(said.find("perplexity of the bundled validation texts"), said.npos) << said;
  link.alone = true;
  context.set_state("texts", ExtrapolationState{.figure = "paired difference",
                                                .choices = {.options = {{"corpus", "others"}}}});
  const Saved old = draw();
  ASSERT_TRUE(requests.of(kEvalTogether).answers_now());
  EXPECT_TRUE(old.output.result.at("differences").empty());
  EXPECT_EQ(old.command.find("others"), old.command.npos) << old.command;
  EXPECT_NE(said.find("perplexity of the bundled validation texts"), said.npos) << said;
  link.alone = false;
  context.set_state("texts", ExtrapolationState{.figure = "paired difference",
                                                .choices = {.options = {{"corpus", "more"}}}});
  const Saved now = draw();
  EXPECT_FALSE(now.output.result.at("differences").empty());
  EXPECT_NE(said.find("perplexity of the texts of more"), said.npos) << said;
}

}  // namespace
}  // namespace phasescope::app
