// Every view of views.cpp, drawn headless: empty, busy, failed and full.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <tuple>

#include "app/views/acuity_view.h"
#include "app/views/addressing_view.h"
#include "app/views/demand_view.h"
#include "app/views/distance_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "app/views/jobs_view.h"
#include "app/views/map_view.h"
#include "app/views/profile_view.h"
#include "app/views/xray_view.h"
#include "app/window/commands.h"
#include "app/window/main_window.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"
#include "tests/widgets/headless_imgui.h"
#include "widgets/plot_svg.h"
#include "widgets/series_marks.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using Manner = MadeUpWorker::Manner;
using phasescope::testing::HeadlessImGui;

class Views : public ::testing::TestWithParam<std::string> {
 protected:
  // One view floating alone in a small window; vertices of the last of several frames.
  int draw(Session session) {
    if (GetParam() == "intervene" && !session.models.empty()) add_reading(session);
    SessionHistory edit(std::move(session));
    WorkerRequests requests(link_, link_);
    WindowState window;
    window.may_ask = true;
    ViewContext context{edit, requests, window};
    const std::unique_ptr<View> view = view_named(GetParam());
    int vertices = 0;
    for (int frame = 0; frame < 8; ++frame) {
      gui_.begin_frame(0.1F);
      requests.begin_frame();
      if (frame == 3) press_run(*view, context);
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({width_, 500});
      words_ = gui_.words_of([&] { view->draw(context); });
      vertices = gui_.end_frame();
    }
    kernels_ = view->kernels(context);
    saved_ = view->saved(context);
    command_ = view->command_line(context);
    return vertices;
  }

  HeadlessImGui gui_;
  MadeUpWorker link_;
  std::vector<widgets::PlotSpec> figures() const {
    std::vector<widgets::PlotSpec> all;
    for (const Saved& one : saved_) {
      all.insert(all.end(), one.output.figures.begin(), one.output.figures.end());
    }
    return all;
  }
  bool shows(const std::string& said) const { return words_.find(said) != words_.npos; }
  std::vector<Saved> saved_;
  std::string command_, words_;
  WhatRan kernels_;
  float width_ = 700;
};

TEST_P(Views, Empty) {
  Session session = default_session();
  session.models.clear();
  draw(session);
  // Something to do, or to choose from.
  const char* const wanted = GetParam() == "models" ? "tapa_norm"
                             : GetParam() == "jobs" ? "running"
                             : GetParam() == "text" ? "Open a model"
                                                    : "Tick ";
  EXPECT_TRUE(shows(wanted)) << words_;
  // A job is listed whether models are open or not.
  if (GetParam() != "jobs") {
    EXPECT_TRUE(figures().empty());
  }
}

TEST_P(Views, Busy) {
  link_.set_manner("", Manner::hold);
  draw(default_session());
  // Nothing is said of answers that have not come.
  for (const char* const said :
       {"Try again", "Tick", "No jobs", "No check", "None of", "running"}) {
    EXPECT_FALSE(shows(said)) << words_;
  }
  EXPECT_TRUE(figures().empty());
}

TEST_P(Views, Failed) {
  link_.set_manner("", Manner::fail);
  // Models could be opened: what fails is the view's own question.
  if (GetParam() != "models") link_.set_manner("model.info", Manner::answer);
  draw(default_session());
  // The sentence, its place, what to do, and a button.
  for (const char* const said : {"The file is not a model (config.json)",
                                 "choose a folder with a config.json", "[ Try again ]"}) {
    EXPECT_TRUE(shows(said)) << words_;
  }
  EXPECT_FALSE(shows("No jobs")) << words_;
  EXPECT_TRUE(figures().empty());
}

// The reason stands in one view: in all of them it would take the room of what there is to see.
TEST_P(Views, OfAModelThatCannotBeOpenedModelsAloneSaysWhy) {
  link_.set_manner("", Manner::fail);
  draw(default_session());
  if (GetParam() == "jobs") return;  // is about no model
  const bool models = GetParam() == "models";
  EXPECT_EQ(shows("[ Try again ]"), models) << words_;
  EXPECT_EQ(shows("The file is not a model"), models) << words_;
  EXPECT_EQ(shows("rope could not be opened: Models says why"), !models) << words_;
}

TEST_P(Views, Full) {
  Session session = default_session();
  session.views.set(JobsState{"jobs/tapa"});
  session.selection.query = 20, session.selection.key = 3;
  const int full = draw(session);
  for (const char* const said : {"Try again", "Tick ", "No jobs"}) {
    EXPECT_FALSE(shows(said)) << words_;
  }
  session.models.clear(), session.views = {};
  EXPECT_GT(full, draw(session) * 3 / 2) << "more than the tools that are there without models";
}

TEST_P(Views, FullHasFiguresACommandAndHelp) {
  Session session = default_session();
  session.views.set(JobsState{"jobs/tapa"});
  draw(session);
  if (GetParam() != "models") {
    EXPECT_FALSE(figures().empty());
  }
  EXPECT_EQ(command_.rfind("phasescope ", 0), 0U);
  EXPECT_GT(view_named(GetParam())->help_text().size(), 40U);
}

// Pairs of a plot's series that nothing but their colours tells apart; `compared` counts the series
// of plots with several colours. Where there are more than the palette has, colour is an order; a
// line half as thick again is told apart by that.
std::string told_by_color_alone(const widgets::PlotSpec& plot, int& compared) {
  std::set<int> colors;
  std::string pairs;
  const std::vector<widgets::PointShape> shapes = widgets::shapes_of(plot);
  const auto look = [&](std::size_t n) {
    const widgets::Series& series = plot.series[n];
    return std::tuple{series.kind, series.dashed, series.quiet, shapes[n]};
  };
  for (std::size_t n = 0; n < plot.series.size(); ++n) {
    const widgets::Series& series = plot.series[n];
    if (series.x.empty()) continue;
    colors.insert(series.color);
    for (std::size_t m = 0; m < n; ++m) {
      const widgets::Series& other = plot.series[m];
      const auto [thin, thick] = std::minmax(series.width, other.width);
      if (other.color != series.color && !other.x.empty() && look(n) == look(m) &&
          thick < 1.5 * thin) {
        pairs += plot.id + ": " + other.label + ", " + series.label + "\n";
      }
    }
  }
  if (static_cast<int>(colors.size()) > widgets::series_count()) return "";
  if (colors.size() > 1) compared += static_cast<int>(plot.series.size());
  return pairs;
}

TEST_P(Views, NoSeriesIsToldApartByItsColorAlone) {
  Session session = default_session();
  session.models = {"rope", "alibi", "tape", "tapa"};
  session.views.set(JobsState{"jobs/tapa"});
  session.selection.query = 20, session.selection.key = 3;
  draw(session);
  int compared = 0;
  for (const Saved& one : saved_) {
    for (const widgets::PlotSpec& plot : one.output.figures) {
      EXPECT_EQ(told_by_color_alone(plot, compared), "");
    }
    for (const widgets::GridSpec& grid : one.output.grids) {
      for (const widgets::GridCell& cell : grid.cells) {
        if (cell.plot) {
          EXPECT_EQ(told_by_color_alone(*cell.plot, compared), "");
        }
      }
    }
  }
  if (GetParam() == "distance" || GetParam() == "extrapolation" || GetParam() == "shift") {
    EXPECT_GT(compared, 1) << "there is something to compare";
  }
}

// Of little to read. window_program_test.py names the file, and runs what is in it.
TEST_P(Views, WriteTheCommandsThatTheyCopy) {
  Session first_start = default_session();
  first_start.views.set(
      ExtrapolationState{.choices = {.options = {{"lengths", {64}}, {"trials", 2}}}});
  Session typed = first_start;
  typed.text = {
      .name = TextInput::kTyped, .words = "it's \"a\" $TEXT; of a few words", .length = 16};
  typed.views.set(DistanceState{.options = nlohmann::json::object()});
  typed.views.set(HeadsState{.sorted = true});
  typed.views.set(MapState{.of = "score", .pool = "mean"});
  // Few passes over few tokens.
  const auto ask = [&](auto state, const nlohmann::json& params) {
    state.params = params;
    first_start.views.set(state);
    state.heads = "head";
    typed.views.set(state);
  };
  const nlohmann::json few{{"texts", "0:70:35"}, {"length", 64}};
  ask(DemandState(), few), ask(AddressingState(), few), ask(ProfileState(), few);
  ask(XrayState(), {{"texts", "0:70:35"}, {"by", "layer"}});
  ask(AcuityState(),
      {{"texts", "0:70:35"}, {"length", 64}, {"seeds", {1}}, {"bands", {"1:3", "9:17"}}});
  InterveneState intervene;
  intervene.params = few, intervene.reads = "corpus";
  typed.views.set(intervene);
  DemandState of_the_text;
  of_the_text.reads = "text";
  typed.views.set(of_the_text);
  const char* path = std::getenv("PHASESCOPE_COMMANDS_FILE");
  for (const Session& session : {first_start, typed}) {
    draw(session);
    EXPECT_EQ(command_.rfind("phasescope ", 0), 0U);
    EXPECT_EQ(command_.find('\n'), std::string::npos);
    if (path != nullptr) {
      std::ofstream(path, std::ios::app) << GetParam() << "\t" << command_ << "\n";
    }
  }
}

TEST_P(Views, SayWhatRanAttention) {
  Session session = default_session();
  session.models = {"rope", "tapa"};
  session.views.set(JobsState{"jobs/tapa"});
  link_ = MadeUpWorker({.ran = {.implementation = "run by nobody"}});
  width_ = 1400;
  draw(session);
  // Two list and count, and run none.
  EXPECT_EQ(shows("run by nobody"), GetParam() != "models" && GetParam() != "cost") << words_;
  // These have it in a place of their own.
  const std::set<std::string> own{"heads", "map", "jobs", "models", "cost"};
  EXPECT_EQ(kernels_.words, own.contains(GetParam()) ? "" : "run by nobody");
  session.models.clear();
  draw(session);
  EXPECT_EQ(kernels_.words, "");
}

// Where a line has no room for it, a fallback takes another one; what is as it should be does not.
TEST_P(Views, SayInANarrowWindowTooThatSomethingRanPlain) {
  const std::string words = "a reason that is told in so many words";
  const auto told = [&](const protocol::Ran& ran) {
    link_ = MadeUpWorker({.ran = ran});
    width_ = 260;
    draw(default_session());
    return shows(words);
  };
  const bool of_fused = told({.implementation = "fused " + words});
  if (kernels_.words.empty()) return;
  EXPECT_FALSE(of_fused) << words_;
  EXPECT_TRUE(told({.implementation = "plain", .reason = words})) << words_;
}

TEST(WhatRan, IsSaidModelByModelWhereTheyDiffer) {
  const WhatRan none, fused{"fused"}, plain{"plain (why)", true};
  EXPECT_EQ(what_ran(std::vector<ModelRan>{}), none);
  EXPECT_EQ(what_ran({{"a", none}, {"b", none}}), none);
  EXPECT_EQ(what_ran({{"a", fused}, {"b", fused}}), fused);
  EXPECT_EQ(what_ran({{"a", fused}, {"b", none}}), fused);
  EXPECT_EQ(what_ran({{"a", none}, {"b", fused}, {"c", fused}}), fused);
  EXPECT_EQ(what_ran({{"a", fused}, {"a", fused}, {"b", plain}}),
            (WhatRan{"a: fused; b: plain (why)", true}));
}

TEST(WhatRan, WarnsOfWhatRanPlainForWantOfAFusedForm) {
  const auto fell_back = [](std::vector<protocol::Ran> ran) {
    protocol::Provenance made;
    made.set_ran(std::move(ran));
    const WhatRan said = what_ran(made);
    const auto& colors = widgets::palette();
    EXPECT_EQ(&kernel_color(said), said.fell_back ? &colors.warn : &colors.quiet);
    EXPECT_EQ(said.words.empty(), made.ran.empty());
    return said.fell_back;
  };
  const protocol::Ran fused{.implementation = "fused cpu avx3", .dtype = "f32"};
  const protocol::Ran asked_for{.implementation = "plain", .dtype = "f32"};
  protocol::Ran in_place = asked_for, in_double = asked_for;
  in_place.reason = "why";
  in_double.reason = "Double has no fused form", in_double.dtype = "f64";
  EXPECT_FALSE(fell_back({}));
  EXPECT_FALSE(fell_back({fused}));
  EXPECT_FALSE(fell_back({asked_for}));
  EXPECT_FALSE(fell_back({fused, in_double}));  // who computes in float64 knows
  EXPECT_TRUE(fell_back({fused, in_place}));
  EXPECT_TRUE(fell_back({in_double, in_place}));
}

// With the largest letters, or in a narrow column, what has no room beside the control before it
// goes on in a line of its own, and does not run past the edge.
TEST_P(Views, ControlsStayWithinANarrowView) {
  width_ = 760;
  widgets::apply_theme("light", static_cast<float>(kLargestScale));
  Session session = default_session();
  session.views.set(JobsState{"jobs/tapa"});
  draw(session);
  const ImGuiWindow* view = ImGui::FindWindowByName(("###" + GetParam()).c_str());
  ASSERT_NE(view, nullptr);
  bool has_controls = false;
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    const bool controls = std::string(window->Name).find("/controls_") != std::string::npos;
    if (!window->WasActive || window->RootWindow != view || (window != view && !controls)) continue;
    has_controls = has_controls || controls;
    // The pixels between two controls are part of a line that another one has left.
    const float most = window->WorkRect.GetWidth() + ImGui::GetStyle().ItemSpacing.x;
    EXPECT_LE(window->ContentSize.x, most) << window->Name;
  }
  if (GetParam() == "map") {
    EXPECT_TRUE(has_controls) << "no view's controls are looked at";
  }
}

TEST_P(Views, OneTokenModelOfOneHead) {
  link_ = MadeUpWorker({1, 1, 1, 1});
  draw(default_session());
  EXPECT_FALSE(shows("Try again")) << words_;
  // The session opens on L3H1, which this model does not have.
  if (GetParam() == "map") {
    EXPECT_EQ(saved_.at(0).output.result.at("layer"), 0);
    EXPECT_EQ(saved_.at(0).output.result.at("head"), 0);
  }
}

// The text that nobody chose is not sent to a model without a tokenizer, a typed one is.
TEST_P(Views, ModelWithoutATokenizer) {
  link_ = MadeUpWorker({.tokenizer = false});
  Session session = default_session();
  session.views.set(DistanceState{.options = nlohmann::json::object()});
  draw(session);
  if (GetParam() != "models" && GetParam() != "jobs") {
    EXPECT_FALSE(figures().empty());
  }
  session.text.name = "typed";
  draw(session);
  for (const char* reads : {"text", "heads", "map", "patterns", "distance", "shift"}) {
    if (GetParam() == reads) {
      EXPECT_TRUE(figures().empty());
    }
  }
}

// As a model without a head answers, or one that sees both ways.
TEST_P(Views, ModelWithoutLosses) {
  link_ = MadeUpWorker({.losses = false});
  Session session = default_session();
  session.views.set(JobsState{"jobs/tapa"});
  draw(session);
  EXPECT_FALSE(shows("Try again")) << words_;
  if (GetParam() != "models") {
    EXPECT_FALSE(figures().empty());
  }
  for (const widgets::PlotSpec& figure : figures()) {
    EXPECT_NE(widgets::svg_of(figure).find("</svg>"), std::string::npos) << figure.id;
  }
}

// A model beside another one that has more layers: what both have not is not asked for, and neither
// is what was answered for another head shown.
TEST(MapOfTwoModels, AHeadThatOneHasNotIsShownOfTheOther) {
  HeadlessImGui gui;
  MadeUpWorker link({.layers = 4, .shallow = "tapa_norm"});
  Session session = default_session();
  session.views.set(MapState{.show = "difference"});
  session.selection = {0, 0, 2, {}, {}};
  SessionHistory edit(session);
  WorkerRequests requests(link, link);
  WindowState window;
  window.may_ask = true;
  ViewContext context{edit, requests, window};
  const std::unique_ptr<View> view = view_named("map");
  const auto draw = [&] {
    for (int frame = 0; frame < 6; ++frame) {
      gui.begin_frame(0.1F);
      requests.begin_frame();
      view->draw(context);
      gui.end_frame();
    }
    return view->saved(context).size();
  };
  EXPECT_EQ(draw(), 3U);  // A, B and their difference
  EXPECT_EQ(head_obstacle(context, 1), "");
  const auto* before = requests.of(kMap, "tapa_norm").answer();
  ASSERT_NE(before, nullptr);
  select_head(context, 0, 3, 2);
  EXPECT_EQ(draw(), 1U);
  EXPECT_EQ(requests.of(kMap, "tapa_norm").answer(), before);  // not asked again
  EXPECT_EQ(head_obstacle(context, 0), "");
  EXPECT_EQ(
      head_obstacle(context, 1),
      "tapa_norm has 1 layer of 4 heads and rope has 4 layers of 4 heads: L3H2 is not in both, "
      "so that only one is shown");
}

INSTANTIATE_TEST_SUITE_P(All, Views, ::testing::ValuesIn(ids_of_views()),
                         [](const auto& info) { return info.param; });

TEST(MainWindowTest, FirstFrameAsksNothing) {
  HeadlessImGui gui;
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  gui.begin_frame();
  main_window.draw();
  gui.end_frame();
  EXPECT_EQ(link.starts(), 0);
  EXPECT_TRUE(link.counts().empty()) << nlohmann::json(link.counts());
  main_window.start_asking();
  for (int i = 0; i < 8; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  EXPECT_EQ(link.starts(), 1);
  EXPECT_GT(link.counts().at("heads"), 0);
  EXPECT_EQ(link.counts().count("theory"), 0U);  // its tab is behind another one
}

// Of more tabs than have room.
TEST(MainWindowTest, AViewThatComesForwardHasItsTabInSight) {
  HeadlessImGui gui({1000, 700});
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  const auto frames = [&] {
    for (int i = 0; i < 60; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  };
  frames();
  for (const char* view : {"xray", "heads", "query"}) {
    main_window.window().focus_view = view;
    frames();
    const View& shown = *main_window.view(view);
    const ImGuiWindow* window = ImGui::FindWindowByName(shown.window_name().c_str());
    ASSERT_TRUE(window && window->DockNode && window->DockNode->TabBar);
    ImGuiTabBar* bar = window->DockNode->TabBar;
    const ImGuiTabItem* tab = ImGui::TabBarFindTabByID(bar, window->TabId);
    ASSERT_NE(tab, nullptr);
    const float left = tab->Offset - bar->ScrollingAnim;
    EXPECT_GE(left, -1) << view;
    EXPECT_LE(left + tab->Width, bar->BarRect.GetWidth() + 1) << view;
  }
}

TEST(MainWindowTest, ASmallerWindowShrinksAllViewsAlike) {
  HeadlessImGui gui;
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  const auto frames = [&] {
    for (int i = 0; i < 20; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  };
  const auto width = [](const char* name) { return ImGui::FindWindowByName(name)->Size.x; };
  frames();
  const float heads = width("Heads###heads"), map = width("Attention map###map");
  ImGui::GetIO().DisplaySize = {800, 500};
  frames();
  EXPECT_NEAR(width("Heads###heads"), heads / 2, 12);
  EXPECT_NEAR(width("Attention map###map"), map / 2, 12);
  ImGui::GetIO().DisplaySize = {1600, 1000};
  frames();
  EXPECT_NEAR(width("Heads###heads"), heads, 12);
}

// A session that was saved in a large window and is opened in a small one: no view is squeezed, and
// the tabs in front are those that were.
TEST(MainWindowTest, ASessionOpensAsItWasInAnotherSize) {
  const auto window = [](const char* name) { return ImGui::FindWindowByName(name); };
  const auto frames = [](HeadlessImGui& gui, MainWindow& main_window) {
    main_window.start_asking();
    for (int i = 0; i < 30; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  };
  MadeUpWorker link;
  Session saved;
  float heads = 0, map = 0;
  {
    HeadlessImGui gui;
    MainWindow main_window(default_session(), link, link);
    frames(gui, main_window);
    heads = window("Heads###heads")->Size.x, map = window("Attention map###map")->Size.x;
    saved = main_window.session_to_save();
  }
  HeadlessImGui gui;
  ImGui::GetIO().DisplaySize = {800, 500};
  MainWindow again(saved, link, link);
  frames(gui, again);
  EXPECT_NEAR(window("Heads###heads")->Size.x, heads / 2, 12);
  EXPECT_NEAR(window("Attention map###map")->Size.x, map / 2, 12);
  for (const char* name : {"Heads###heads", "Attention map###map"}) {
    EXPECT_EQ(window(name)->DockNode->VisibleWindow, window(name)) << name;
  }
}

// Numbers, what runs attention and where are those of every question about a model.
TEST(MainWindowTest, AsksForWhatIsComputedInTheChosenNumbers) {
  HeadlessImGui gui;
  MadeUpWorker link;
  Session session = default_session();
  session.computing = {.dtype = "bf16", .backend = "plain", .device = "cuda:1"};
  MainWindow main_window(std::move(session), link, link);
  main_window.start_asking();
  for (int i = 0; i < 60; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  for (const char* method : {"heads", "map", "text.read", "distance", "eval"}) {
    const nlohmann::json& params = link.last_params(method);
    EXPECT_EQ(params.value("dtype", ""), "bf16") << method;
    EXPECT_EQ(params.value("backend", ""), "plain") << method;
    EXPECT_EQ(params.value("device", ""), "cuda:1") << method;
  }
  EXPECT_EQ(link.last_params("model.info").value("dtype", ""), "bf16");
}

// Whatever kills it: no frame is drawn while nothing happens, and none has to be for that.
TEST(MainWindowTest, TellsOfAnotherLayoutAtOnce) {
  HeadlessImGui gui;
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  const auto frames = [&](int count) {
    for (int i = 0; i < count; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  };
  frames(400);  // what was changed before the first one waits five seconds
  ImGui::GetIO().WantSaveIniSettings = false;
  frames(10);
  EXPECT_FALSE(ImGui::GetIO().WantSaveIniSettings) << "nothing has changed";
  ImGui::MarkIniSettingsDirty();  // as the line between two views does when it is dragged
  frames(3);                      // that follow an event
  EXPECT_TRUE(ImGui::GetIO().WantSaveIniSettings);
}

TEST(MainWindowTest, SettlesAndKeepsItsLayout) {
  HeadlessImGui gui;
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  for (int i = 0; i < 60; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  EXPECT_TRUE(main_window.settled());
  for (const char* id : {"models", "text", "heads", "map", "extrapolation", "distance"}) {
    EXPECT_TRUE(main_window.view(id)->visible()) << id;
  }
  EXPECT_NE(main_window.session_to_save().layout.find("[Docking]"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::app
