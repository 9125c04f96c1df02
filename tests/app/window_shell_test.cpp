// The window around its views: what is opened in it, dialogs and lines that stay in reach at every
// size of window and letters, and what views keep of what was chosen in them.
#include <gtest/gtest.h>
#include <imgui_internal.h>
#include <implot.h>
#include <implot_internal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/views/cost_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "app/views/jobs_view.h"
#include "app/views/output_tables.h"
#include "app/window/export_dialog.h"
#include "app/window/main_window.h"
#include "app/window/opening.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "tests/app/made_up_worker.h"
#include "tests/app/one_view.h"
#include "tests/app/window_scenario.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

// ---- opening --------------------------------------------------------------------------------

// No worker can be told a name of Latin-1: it would read, or say that it is missing, another one.
TEST(OpeningByAnyWay, AModelOfANameThatIsNoTextIsRefusedInOneSentence) {
  const fs::path folder =
      fs::temp_directory_path() / ("phasescope_shell_" + std::to_string(getpid()));
  const fs::path model = folder / "caf\xe9";
  fs::create_directories(model);
  MadeUpWorker link;
  SessionHistory edit(default_session());
  WorkerRequests requests(link, link);
  WindowState window;
  ViewContext context{edit, requests, window};
  const Session before = edit.session();
  const auto refused = [&](const char* how, std::size_t times) {
    EXPECT_EQ(edit.session(), before) << how;
    ASSERT_EQ(window.said.size(), times) << how;
    EXPECT_TRUE(window.said.back().error) << how;
    EXPECT_NE(window.said.back().text.find("caf\\xe9"), std::string::npos)
        << how << ": " << window.said.back().text;
  };
  open_any(context, model.string());
  refused("dropped", 1);
  window.said.clear(), window.notices.clear();
  Session other = default_session();
  other.models.push_back(model.string());
  save_session(formats::real_file_system(), folder / "of_before.phasescope", other);
  WindowState again;  // what was just said is not said twice
  ViewContext second{edit, requests, again};
  open_any(second, (folder / "of_before.phasescope").string());
  EXPECT_EQ(edit.session(), before);
  ASSERT_EQ(again.said.size(), 1U);
  EXPECT_NE(again.said[0].text.find("caf\\xe9"), std::string::npos) << again.said[0].text;
  EXPECT_THROW(open_model(context, model.string()), formats::Error);  // recent ones, the palette
  EXPECT_EQ(edit.session(), before);
  fs::remove_all(folder);
}

// ---- dialogs and lines ----------------------------------------------------------------------

struct ThreeTimes {
  static Session session() {
    Session session = default_session();
    session.scale = kLargestScale;
    return session;
  }
  MadeUpWorker link;
  MainWindow main_window{session(), link, link};
};

template <class Stage>
void play_shell(ScenarioStep step) {
  play_scenario<Stage>(step, std::chrono::seconds(60));
}

bool is_in_sight(const ImRect& place) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  return place.Min.x >= 0 && place.Min.y >= 0 && place.Max.x <= size.x && place.Max.y <= size.y &&
         place.GetWidth() > 0;
}

// At 1600 x 1000 with the largest letters the window has room for 33 by 20 of them.
TEST(Dialogs, StayInReachWithTheLargestLetters) {
  play_shell<ThreeTimes>([](ImGuiTestContext* ctx) {
    auto& window = stage_in<ThreeTimes>(ctx).main_window.window();
    ctx->Yield(30);
    const auto shows = [&](const char* item) {
      ctx->Yield(8);
      const ImGuiTestItemInfo info = ctx->ItemInfo(item, ImGuiTestOpFlags_NoError);
      if (info.ID == 0 || !is_in_sight(info.RectFull)) ctx->LogError("%s is out of reach", item);
      IM_CHECK_NO_RET(info.ID != 0 && is_in_sight(info.RectFull));
      ctx->KeyPress(ImGuiKey_Escape);
      ctx->Yield(4);
    };
    window.open_dialog = "model";
    shows("//###open/Cancel");
    window.sessions_open = true;
    shows("//Sessions/Cancel");
    auto request = std::make_shared<ExportRequest>();
    request->title = "a view";
    request->figures.push_back({widgets::PlotSpec{.id = "loss"}, "", "", nlohmann::json::array()});
    window.to_export = request;
    shows("//Save figures/Cancel");
    window.messages_open = true;
    ctx->Yield(8);
    IM_CHECK(is_in_sight(ctx->GetWindowByRef("//Messages")->Rect()));
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(4);
    window.palette_open = true;
    ctx->Yield(8);
    const auto& popups = ImGui::GetCurrentContext()->OpenPopupStack;
    IM_CHECK(!popups.empty() && popups.back().Window != nullptr);
    IM_CHECK(is_in_sight(popups.back().Window->Rect()));
  });
}

TEST(MenuBar, IsWholeWithTheLargestLettersInASmallWindow) {
  play_shell<ThreeTimes>([](ImGuiTestContext* ctx) {
    ImGui::GetIO().DisplaySize = {1000, 700};
    ctx->Yield(10);
    const ImGuiTestItemInfo last = ctx->ItemInfo("//##MainMenuBar/**/Commands");
    IM_CHECK(last.ID != 0);
    IM_CHECK(is_in_sight(last.RectFull));
  });
}

// However long the sentence is, it is read whole and its button is in reach.
TEST(TheLineAboveTheViews, IsBrokenWhereItHasNoRoom) {
  play_shell<ThreeTimes>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<ThreeTimes>(ctx);
    ctx->Yield(10);
    const auto dies = [&](const std::string& how) {
      stage.link.die(how);
      ctx->Yield(6);
      const ImGuiTestItemInfo button = ctx->ItemInfo("//##banner/Dismiss");
      IM_CHECK_RETV(button.ID != 0 && is_in_sight(button.RectFull), 0.0F);
      return button.Window->Size.y;
    };
    const float one = dies("killed");
    const float more = dies("killed by SIGKILL while it read the text, the third time in a minute");
    IM_CHECK_GT(more, one);
    // The views begin below it.
    const ImGuiWindow* heads = ctx->GetWindowByRef("//###heads");
    const ImGuiWindow* line = ctx->GetWindowByRef("//##banner");
    IM_CHECK_GE(heads->DockNode->Pos.y, line->Rect().Max.y - 1);
    ctx->ItemClick("//##banner/Dismiss");
    ctx->Yield(2);
    IM_CHECK(stage.main_window.requests().death_notice().empty());
  });
}

TEST(Dialogs, SayWholeWhatWentWrong) {
  play_shell<ThreeTimes>([](ImGuiTestContext* ctx) {
    stage_in<ThreeTimes>(ctx).main_window.window().open_dialog = "text";
    ctx->Yield(8);
    ctx->ItemInputValue("//###open/##path",
                        "/a/folder/of/many/words/which/is/not/there/and/has/no/text.txt");
    ctx->Yield(4);
    const ImGuiWindow* dialog = ctx->GetWindowByRef("//###open");
    IM_CHECK(dialog != nullptr && dialog->Active);
    IM_CHECK_LE(dialog->ContentSize.x, dialog->InnerRect.GetWidth());
    IM_CHECK(is_in_sight(ctx->ItemInfo("//###open/Cancel").RectFull));
  });
}

// A sentence is read whole where the window is small or its letters are large.
TEST(NoticesInASmallWindow, AreBrokenWithinTheirPlace) {
  for (const auto& [size, scale] :
       {std::pair{ImVec2{1000, 700}, 1.0}, std::pair{ImVec2{1600, 1000}, kLargestScale}}) {
    testing::HeadlessImGui gui(size);
    MadeUpWorker link;
    Session session = default_session();
    session.scale = scale;
    MainWindow main_window(session, link, link);
    main_window.window().say(
        "/home/someone/models/rope: this file is not a model, since it has no config.json beside "
        "it",
        true);
    for (int i = 0; i < 8; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
    const ImGuiWindow* notice = ImGui::FindWindowByName("##notice0");
    ASSERT_NE(notice, nullptr);
    EXPECT_EQ(notice->ScrollMax.x, 0) << size.x;
    EXPECT_EQ(notice->ScrollMax.y, 0) << size.x;
    EXPECT_TRUE(is_in_sight(notice->Rect())) << size.x;
  }
}

// ---- saving ---------------------------------------------------------------------------------

// Nothing is written over without a word, and the place is the whole one.
TEST(SavingAFigure, SaysWhereAndWhatIsThere) {
  const fs::path folder =
      fs::temp_directory_path() / ("phasescope_save_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "loss.csv.json") << "of someone else";
  testing::HeadlessImGui gui;
  MadeUpWorker link;
  SessionHistory edit(default_session());
  WorkerRequests requests(link, link);
  WindowState window;
  ViewContext context{edit, requests, window};
  ExportDialog dialog;
  auto request = std::make_shared<ExportRequest>();
  request->title = "a view";
  request->figures.push_back({widgets::PlotSpec{.id = "loss"}, "", "", nlohmann::json::array()});
  window.to_export = request;
  const auto words = [&] {
    std::string said;
    for (int frame = 0; frame < 4; ++frame) {
      gui.begin_frame();
      said = gui.words_of([&] { dialog.draw(context); });
      gui.end_frame();
    }
    return said;
  };
  FigureForm form{.format = "csv", .folder = folder.string()};
  context.set_state("", form);
  EXPECT_NE(words().find("Replace"), std::string::npos) << words();
  form.format = "svg";
  context.set_state("", form);
  EXPECT_EQ(words().find("Replace"), std::string::npos) << words();
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  form.folder = "figures";
  context.set_state("", form);
  EXPECT_NE(words().find((folder / "figures" / "loss.svg").string()), std::string::npos) << words();
  fs::current_path(before);
  if (const char* home = std::getenv("HOME")) {
    EXPECT_EQ(whole_folder("~/figures"), (fs::path(home) / "figures").lexically_normal());
  }
  EXPECT_EQ(whole_folder("/a/../b"), "/b");
  fs::remove_all(folder);
}

// ---- toolbars -------------------------------------------------------------------------------

struct Held {
  Held() { link.set_manner("", MadeUpWorker::Manner::hold); }
  MadeUpWorker link;
  MainWindow main_window{default_session(), link, link};
};

// A tool that one aims at stays where it is while an answer comes.
TEST(Toolbars, DoNotMoveWhenAnAnswerComes) {
  play_shell<Held>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<Held>(ctx);
    using Manner = MadeUpWorker::Manner;
    stage.link.set_manner("model.info", Manner::answer);
    ctx->Yield(10);
    for (const char* id : {"extrapolation", "jobs", "cost", "pair"}) {
      stage.main_window.window().focus_view = id;
      ctx->Yield(20);
      std::this_thread::sleep_for(std::chrono::milliseconds(250));  // until bars are drawn
      ctx->Yield(2);
      const std::string help = "//###" + std::string(id) + "/?";
      const float before = ctx->ItemInfo(help.c_str()).RectFull.Min.y;
      stage.link.set_manner("", Manner::answer);
      ctx->Yield(20);
      const float after = ctx->ItemInfo(help.c_str()).RectFull.Min.y;
      if (before != after) ctx->LogError("%s", id);
      IM_CHECK_EQ(before, after);
      stage.link.set_manner("", Manner::hold);
    }
  });
}

// "Entropy" became "Entropy (nats)" among longer metrics, and what stands behind it moved.
TEST(Toolbars, ChoicesOfHeadsStayWhereTheyAre) {
  play_shell<Held>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<Held>(ctx);
    using Manner = MadeUpWorker::Manner;
    stage.link.set_manner("model.info", Manner::answer);
    stage.main_window.window().focus_view = "heads";
    ctx->Yield(20);
    const auto places = [&] {
      std::vector<float> all;
      for (const char* item : {"Sort", "Pictures", "Table", "Scatter", "##source"}) {
        const ImVec2 at = ctx->ItemInfo((std::string("//###heads/") + item).c_str()).RectFull.Min;
        all.insert(all.end(), {at.x, at.y});
      }
      return all;
    };
    const auto answered = [&] {
      const std::string& model = stage.main_window.edit().session().models.front();
      return stage.main_window.requests().of(kHeads, model).answer() != nullptr;
    };
    IM_CHECK(!answered());
    const std::vector<float> before = places();
    stage.link.set_manner("", Manner::answer);
    ctx->Yield(20);
    IM_CHECK(answered());
    IM_CHECK(places() == before);
  });
}

// ---- views ----------------------------------------------------------------------------------

class ShellOfOne : public OneView {
 protected:
  ShellOfOne() : OneView(6) {}
  std::string words() { return words_in({900, 600}); }
};

// A view that waits is never empty without a word; asked again every second, it says so once.
TEST_F(ShellOfOne, JobsSayThatTheyAreLookedFor) {
  link_.set_manner("jobs.list", MadeUpWorker::Manner::hold);
  open("jobs");
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_NE(words().find("jobs: "), std::string::npos) << words();
  link_.set_manner("jobs.list", MadeUpWorker::Manner::answer);
  draw();
  EXPECT_NE(words().find("rope"), std::string::npos) << words();
  link_.set_manner("jobs.list", MadeUpWorker::Manner::hold);
  requests_.ask_again(requests_.of(kJobs), protocol::JobsRequest{});
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_EQ(words().find("jobs: "), std::string::npos) << words();
}

// A made-up worker whose answers are changed before they come.
struct EditedWorker : MadeUpWorker {
  std::function<void(const std::string& method, const std::string& model, nlohmann::json& result)>
      edit;
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override {
    callbacks.on_result = [this, method, model = model_of(params),
                           pass = std::move(callbacks.on_result)](protocol::Reply reply) {
      edit(method, model, reply.result);
      pass(std::move(reply));
    };
    return MadeUpWorker::submit(method, std::move(params), std::move(callbacks), tag);
  }
};

// One view before such a worker, of the size that it has in a window of 1000 x 700.
template <class ViewType>
struct EditedScene {
  testing::HeadlessImGui gui;
  EditedWorker link;
  SessionHistory edit{default_session()};
  WorkerRequests requests{link, link};
  WindowState window;
  ViewContext context{edit, requests, window};
  ViewType view;
  ImVec2 size{440, 280};

  // What the view writes in the last of some frames.
  std::string words() {
    window.may_ask = true;
    std::string said;
    for (int frame = 0; frame < 8; ++frame) {
      gui.begin_frame(0.1F);
      requests.begin_frame();
      ImGui::SetNextWindowSize(size);
      said = gui.words_of([&] { view.draw(context); });
      gui.end_frame();
    }
    return said;
  }
};

// Models that were trained at different lengths are read at different ones.
TEST(LengthsOfAnEvaluation, RunUpwardsWhicheverModelHasThem) {
  EditedScene<ExtrapolationView> scene;
  scene.size = {1000, 500};  // room for all columns
  scene.link.edit = [](const std::string& method, const std::string& model,
                       nlohmann::json& result) {
    if (method != "eval") return;
    const std::vector<int> lengths =
        model == "rope" ? std::vector{128, 512, 2048} : std::vector{64, 256, 1024};
    for (std::size_t n = 0; n < lengths.size(); ++n) result["rows"][n]["length"] = lengths[n];
  };
  const std::string said = scene.words();
  std::size_t place = said.find("by length");
  for (const char* length : {"64", "128", "256", "512", "1024", "2048"}) {
    ASSERT_NE(place, said.npos) << "before " << length << "\n" << said;
    place = said.find(length, place);
  }
  EXPECT_NE(place, said.npos) << said;
}

// Bars of seven models leave room for what is there already: they share a line.
TEST(WaitingModels, ShareALineWhereTheyAreMany) {
  const auto lines = [](const std::vector<std::string>& models) {
    EditedScene<ExtrapolationView> scene;
    scene.link.edit = [](const std::string&, const std::string&, nlohmann::json&) {};
    scene.link.set_manner("eval", MadeUpWorker::Manner::hold);
    scene.edit.apply("open", [&](Session& s) { s.models = models; });
    scene.words();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    const std::string said = scene.words();
    EXPECT_EQ(said.find("and 6 more") != said.npos, models.size() == 7) << said;
    int count = 0;
    for (auto at = said.find("Cancel"); at != said.npos; at = said.find("Cancel", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(lines({"rope", "tapa_norm"}), 2);
  EXPECT_EQ(lines({"rope", "tapa_norm", "tapa", "alibi", "none", "tape", "cape_kerple"}), 1);
}

// The command may have a text of megabytes in it: it is made where someone looks at it alone.
struct CountedCommands : CostView {
  mutable int made = 0;
  std::string command_line(const ViewContext& context) const override {
    ++made;
    return CostView::command_line(context);
  }
};

TEST(CopiedCommands, AreMadeWhereTheyAreLookedAt) {
  EditedScene<CountedCommands> scene;
  scene.size = {1000, 500};  // where there is less room the command is in a menu
  scene.link.edit = [](const std::string&, const std::string&, nlohmann::json&) {};
  EXPECT_NE(scene.words().find("Command"), std::string::npos);
  EXPECT_EQ(scene.view.made, 0);
  EXPECT_FALSE(scene.view.command_line(scene.context).empty());
}

// What views keep of a model goes when the model is closed.
TEST(PicturesOfModels, AreDroppedWithThem) {
  Session session = default_session();
  std::map<std::string, int> pictures{{session.models[0], 1}, {session.models[1], 2}, {"gone", 3}};
  keep_open(session, pictures);
  EXPECT_EQ(pictures.size(), 2U);
  EXPECT_FALSE(pictures.contains("gone"));
}

// Of an evaluation its result is saved, and not the curve of a training that it has not.
TEST(ResultOfAnEval, IsSavedAsItsVerbShowsIt) {
  EditedScene<JobsView> scene;
  std::string state = "running";
  scene.link.edit = [&](const std::string& method, const std::string&, nlohmann::json& result) {
    if (method != "jobs.show") return;
    result["kind"] = "eval", result["state"] = state, result["curve"] = nlohmann::json::array();
    if (state == "done") {
      result["result"] = made_up_reply("eval", {{"models", {"rope"}}}, {}).result;
    }
  };
  scene.context.set_state("show", JobsState{"jobs/tapa"});
  scene.words();
  EXPECT_TRUE(scene.view.saved(scene.context).empty());
  state = "done";
  scene.requests.ask_again(scene.requests.of(kJob, "jobs/tapa"),
                           protocol::JobRequest{.dir = "jobs/tapa"});
  scene.words();
  const auto saved = scene.view.saved(scene.context);
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].command, "phasescope jobs show jobs/tapa");
  ASSERT_FALSE(saved[0].output.figures.empty());
  for (const widgets::PlotSpec& figure : saved[0].output.figures) {
    EXPECT_FALSE(figure.id.starts_with("job")) << figure.id;
  }
}

// As two families have them, whose parts are called otherwise.
TEST(CostOfManyParts, NamesEveryRow) {
  constexpr int kParts = 20;
  EditedScene<CostView> scene;
  scene.link.edit = [](const std::string& method, const std::string&, nlohmann::json& result) {
    if (method != "cost") return;
    nlohmann::json part = result["parts"].at(1), parts = nlohmann::json::array();
    for (int n = 0; n < kParts; ++n) {
      part["name"] = "part " + std::to_string(n), part["macs"] = 1e6 * (n + 1);
      parts.push_back(part);
    }
    result["parts"] = parts;
  };
  scene.words();
  int most = 0;
  ImPool<ImPlotPlot>& plots = ImPlot::GetCurrentContext()->Plots;
  for (int n = 0; n < plots.GetBufSize(); ++n) {
    most = std::max(most, plots.GetByIndex(n)->YAxis(0).Ticker.TickCount());
  }
  EXPECT_EQ(most, kParts);
}

// Words on the screen; a condition of a search may have the key that files have.
TEST(TablesOfQuestions, HaveWordsForTheirKeys) {
  const Table table{
      .columns = {"true_distance", "share"},
      .rows = {{{"true_distance", 3}, {"share", 0.5}}, {{"true_distance", 9}, {"share", 0.25}}},
      .headings = {{"share", "share (of 1)"}}};
  const widgets::TableSpec spec = spec_of(table);
  EXPECT_EQ(spec.columns[0].title, "true distance");
  EXPECT_EQ(spec.columns[1].title, "share (of 1)");
  EXPECT_EQ(widgets::rows_in_order(spec, {.search = "true_distance>5"}), std::vector<int>{1});
  EXPECT_EQ(widgets::rows_in_order(spec, {.search = "share<0.4"}), std::vector<int>{1});
}

// ---- what is kept ---------------------------------------------------------------------------

// Whatever ends the window, what was typed or chosen in a view is in its session's file.
TEST(StatesOfViews, ComeBackAsTheyWereChosen) {
  Session session = default_session();
  JobsState jobs;
  jobs.file = "half/a/pa", jobs.first = "step-50", jobs.second = "step-100";
  InterveneState intervene;
  intervene.limits = {{"window", 48}, {"sink", 0.25}};
  session.views.set(jobs), session.views.set(intervene);
  const auto again = protocol::from_json_form<Session>(protocol::to_json_form(session));
  EXPECT_EQ(again.views.get<JobsState>().file, jobs.file);
  EXPECT_EQ(again.views.get<JobsState>().second, jobs.second);
  EXPECT_EQ(again.views.get<InterveneState>().limits, intervene.limits);
}

struct WithJobs {
  static Session session() {
    Session session = default_session();
    session.views.set(JobsState{"jobs/tapa"});
    return session;
  }
  MadeUpWorker link;
  MainWindow main_window{session(), link, link};
  const Session& now() { return main_window.edit().session(); }
};

TEST(StatesOfViews, HaveWhatIsTypedBeforeItIsEntered) {
  play_shell<WithJobs>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<WithJobs>(ctx);
    stage.main_window.window().focus_view = "jobs";
    ctx->Yield(20);
    ctx->ItemClick("//###jobs/New training...");
    ctx->Yield(4);
    ctx->ItemClick("//###jobs/##file");
    ctx->KeyChars("half/a/pa");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(stage.now().views.get<JobsState>().file.c_str(), "half/a/pa");
    stage.main_window.window().focus_view = "intervene";
    ctx->Yield(10);
    InterveneState state = stage.now().views.get<InterveneState>();
    state.how = "window";
    stage.main_window.context().set_state("how", state);
    ctx->Yield(4);
    ctx->ItemInputValue("//###intervene/###limit", 48.0F);
    ctx->Yield(4);
    IM_CHECK_EQ(stage.now().views.get<InterveneState>().limits.at("window"), 48.0);
  });
}

// So has the form of a training: what a killed window left in a line is entered when it opens
// again, and what its field does not take stays there with the reason.
TEST(StatesOfViews, HaveWhatIsTypedIntoATraining) {
  play_shell<WithJobs>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<WithJobs>(ctx);
    stage.main_window.window().focus_view = "jobs";
    ctx->Yield(20);
    ctx->ItemClick("//###jobs/New training...");
    ctx->Yield(10);
    const auto jobs = [&] { return stage.now().views.get<JobsState>(); };
    ctx->ItemClick("//###jobs/**/steps");
    ctx->KeyCharsReplace("12");
    ctx->Yield(2);
    IM_CHECK_STR_EQ(jobs().typed["train.steps"].c_str(), "12");
    IM_CHECK(jobs().run.value("train", nlohmann::json::object()).value("steps", 0) != 12);
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(4);
    IM_CHECK(jobs().typed.empty());
    IM_CHECK_EQ(jobs().run["train"].value("steps", 0), 12);
  });
}

// The buttons of a job and of its checkpoints, where the view is narrow.
TEST(ButtonsOfAJob, AreInReachInASmallWindow) {
  play_shell<WithJobs>([](ImGuiTestContext* ctx) {
    auto& stage = stage_in<WithJobs>(ctx);
    ImGui::GetIO().DisplaySize = {1000, 700};
    stage.main_window.window().focus_view = "jobs";
    ctx->Yield(30);
    for (const char* button : {"Pause", "Remove...", "Open the model", "Open both"}) {
      const ImGuiTestItemInfo info =
          ctx->ItemInfo(("//###jobs/**/" + std::string(button)).c_str(), ImGuiTestOpFlags_NoError);
      if (info.ID == 0) ctx->LogError("%s is not there", button);
      IM_CHECK(info.ID != 0);
      IM_CHECK_LE(info.RectFull.Max.x, info.Window->InnerClipRect.Max.x + 1);
    }
  });
}

}  // namespace
}  // namespace phasescope::app
