// What the window reads and writes as files: figures in every form, sessions by name, what is
// dropped on it; and what it says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/text_view.h"
#include "app/window/export_dialog.h"
#include "app/window/file_dialog.h"
#include "app/window/main_window.h"
#include "app/window/opening.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "formats/tensors/npy.h"
#include "formats/text_input.h"
#include "tests/app/made_up_worker.h"
#include "tests/widgets/headless_imgui.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using formats::real_file_system;

class WindowFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("phasescope_files_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  fs::path folder_;
  MadeUpWorker link_;
  SessionHistory edit_{default_session()};
  WorkerRequests requests_{link_, link_};
  WindowState window_;
  ViewContext context_{edit_, requests_, window_};
};

FigureToSave curves() {
  widgets::PlotSpec plot{.id = "loss", .title = "Loss"};
  plot.series.push_back(
      {"a", widgets::SeriesKind::line, {1, 2}, {0.5, 0.25}, {0.4, NAN}, {0.6, 1}});
  plot.series.push_back({"b", widgets::SeriesKind::line, {3}, {8}, {}, {}});
  return {plot, "rope", "phasescope text rope", nlohmann::json::array()};
}

std::string bytes_of(const fs::path& path) { return real_file_system().read(path); }

// numpy's header, then the numbers as they lie in memory.
std::vector<double> doubles_of(const std::string& npy) {
  std::vector<double> values((npy.size() - 128) / sizeof(double));
  std::memcpy(values.data(), npy.data() + 128, values.size() * sizeof(double));
  return values;
}

TEST_F(WindowFiles, AFigureIsWrittenInEveryForm) {
  const FigureToSave figure = curves();
  FigureForm form;
  form.format = "svg";
  EXPECT_NE(figure_bytes(figure, form).find("width=\"720\""), std::string::npos);
  form.width = 360, form.theme = "dark";
  const std::string dark = figure_bytes(figure, form);
  EXPECT_NE(dark.find("width=\"360\""), std::string::npos);
  EXPECT_EQ(dark.find("\"#ffffff\" fill-opacity"), std::string::npos) << "the page is dark";
  form.format = "csv";
  EXPECT_EQ(figure_bytes(figure, form).substr(0, 20), "series,x,y,low,high\n");
  form.format = "json";
  const auto data = nlohmann::json::parse(figure_bytes(figure, form));
  EXPECT_EQ(data["provenance"]["command"], figure.command);
  form.format = "gif";
  EXPECT_THROW(figure_bytes(figure, form), formats::Error);
}

TEST_F(WindowFiles, AnArrayHoldsThePointsOfAllCurves) {
  FigureForm form;
  form.format = "npy";
  const fs::path path = folder_ / "deep/er/loss.npy";
  write_figure(real_file_system(), path, curves(), form, {});
  const std::string npy = bytes_of(path);
  EXPECT_NE(npy.find("'descr': '<f8', 'fortran_order': False, 'shape': (3, 5)"), std::string::npos);
  const std::vector<double> values = doubles_of(npy);
  ASSERT_EQ(values.size(), 15U);
  EXPECT_EQ((std::vector<double>(values.begin(), values.begin() + 5)),
            (std::vector<double>{0, 1, 0.5, 0.4, 0.6}));
  EXPECT_TRUE(std::isnan(values[8]));  // no lower end
  EXPECT_EQ(values[10], 1);            // the second curve
  EXPECT_EQ(values[12], 8);
  EXPECT_TRUE(std::isnan(values[13]));
}

TEST_F(WindowFiles, PngHasAsManyPixelsAsItsDotsSay) {
  if (!can_convert_svg()) GTEST_SKIP() << "librsvg is not there";
  FigureForm form;
  form.format = "png", form.width = 400, form.dpi = 144;
  const std::string png = figure_bytes(curves(), form);
  // The width stands big-endian behind the signature, the length and the name of the first chunk.
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(png[i]); };
  EXPECT_EQ(byte(16) << 24 | byte(17) << 16 | byte(18) << 8 | byte(19), 400 * 144 / 96);
}

TEST_F(WindowFiles, NamesTellFiguresOfSeveralModelsApart) {
  FigureForm form;
  EXPECT_EQ(file_name_of(curves(), form), "rope__loss.svg");
  FigureToSave named = curves();
  std::get<widgets::PlotSpec>(named.figure).id = "map_rope_L1";
  EXPECT_EQ(file_name_of(named, form), "map_rope_L1.svg");
}

// The file beside a figure opens what drew it.
TEST_F(WindowFiles, AFiguresSidecarHoldsItsSession) {
  select_head(context_, 1, 2, 3);
  read_text(context_, TextInput::kTyped, "words of \xC3\xA4 text");
  const fs::path path = folder_ / "loss.csv";
  FigureForm form;
  form.format = "csv";
  write_figure(real_file_system(), path, curves(), form, session_for_figure(edit_.session()));
  const std::string sidecar = path.string() + ".json";
  EXPECT_EQ(nlohmann::json::parse(bytes_of(sidecar))["command"], "phasescope text rope");
  const Session drew = edit_.session();
  edit_.apply("other", [](Session& s) { s = default_session(); });
  EXPECT_EQ(kind_of(sidecar), Openable::session);
  // The figure itself stands for it.
  for (const std::string& dropped : {sidecar, path.string()}) {
    open_any(context_, dropped);
    EXPECT_TRUE(edit_.session() == drew) << dropped;
    edit_.undo();
    EXPECT_TRUE(edit_.session() == default_session());
  }
}

TEST_F(WindowFiles, WhatIsDroppedIsOpenedAsWhatItIs) {
  EXPECT_EQ(kind_of(folder_), Openable::model);
  EXPECT_EQ(kind_of("a/model.safetensors"), Openable::model);
  const std::string text = write("words.txt", "to every thing"),
                    json = write("words.json", "{\"a\": 1}"), broken = write("broken.json", "{");
  EXPECT_EQ(kind_of(text), Openable::text);
  EXPECT_EQ(kind_of(json), Openable::text);
  EXPECT_EQ(kind_of(broken), Openable::text);
  EXPECT_TRUE(fs::exists(broken)) << "it stays where it is";
  open_any(context_, text);
  EXPECT_EQ(edit_.session().text.words.str(), "to every thing");
  open_any(context_, folder_.string());
  EXPECT_EQ(edit_.session().models.back(), folder_.string());
  EXPECT_EQ(edit_.session().recent.front(), folder_.string());
  open_any(context_, "/no/such/file.txt");
  ASSERT_EQ(window_.notices.size(), 1U);
  EXPECT_TRUE(window_.notices[0].error);
  // A command's figure has no session, and is no text either.
  open_any(context_, write("figure.svg", "<svg/>"));
  EXPECT_EQ(edit_.session().text.words.str(), "to every thing");
  ASSERT_EQ(window_.notices.size(), 2U);
  EXPECT_NE(window_.notices[1].text.find("figure without a session"), std::string::npos);
}

TEST_F(WindowFiles, SessionsAreKeptByName) {
  EXPECT_TRUE(session_names(folder_ / "none").empty());
  select_head(context_, 0, 1, 1);
  save_session(real_file_system(), place_of_session(folder_, "b"), edit_.session());
  save_session(real_file_system(), place_of_session(folder_, "a paper"), edit_.session());
  // One of before, whose ending every other .json has.
  save_session(real_file_system(), folder_ / "old.json", edit_.session());
  EXPECT_EQ(session_names(folder_), (std::vector<std::string>{"a paper", "b", "old"}));
  EXPECT_EQ(place_of_session(folder_, "old"), folder_ / "old.json");
  EXPECT_EQ(place_of_session(folder_, "b"), folder_ / "b.phasescope");
  EXPECT_EQ(kind_of(folder_ / "b.phasescope"), Openable::session);
  edit_.apply("layout", [](Session& s) { s.layout = "mine", s.selection.layer = 3; });
  open_session(context_, place_of_session(folder_, "a paper"));
  EXPECT_EQ(edit_.session().selection.layer, 1);
  EXPECT_EQ(edit_.session().layout, "mine") << "the window stays as it is";
  for (const char* name : {"", ".hidden", "a/b"}) {
    EXPECT_THROW(place_of_session(folder_, name), formats::Error);
  }
}

// --- what is said -------------------------------------------------------------------------------

TEST(Notices, AreSaidOnceAndLeave) {
  WindowState window;
  for (int frame = 0; frame < 10; ++frame) window.say("it failed", true);
  window.say("saved");
  window.say("saved");
  EXPECT_EQ(window.notices.size(), 2U);
  EXPECT_LE(window.seconds_to_next_change(), WindowState::Notice::kSeconds);
  EXPECT_GT(window.seconds_to_next_change(), 0);
  for (auto& notice : window.notices) notice.born -= std::chrono::seconds(10);
  window.drop_old_notices(false);
  ASSERT_EQ(window.notices.size(), 1U);  // an error stays longer
  EXPECT_EQ(window.notices[0].text, "it failed");
  window.notices[0].born -= std::chrono::seconds(60);
  window.drop_old_notices(true);  // under the pointer it stays
  EXPECT_EQ(window.notices.size(), 1U);
  window.notices[0].born -= std::chrono::seconds(60);
  window.drop_old_notices(false);
  EXPECT_TRUE(window.notices.empty());
  EXPECT_TRUE(std::isinf(window.seconds_to_next_change()));
  EXPECT_EQ(window.said.size(), 3U);
}

// A copied command with a typed text in it leaves the window in sight.
TEST(Notices, AreShortWhateverIsSaid) {
  WindowState window;
  std::string words;
  for (int i = 0; i < 500; ++i) words += "\u00e9";  // of two bytes
  for (const std::string& said : {"Copied: " + words, "Copied it: " + words}) {
    window.say(said);
    const std::string& shown = window.notices.back().text;
    EXPECT_LT(shown.size(), 400U);
    EXPECT_EQ(formats::first_invalid_utf8(shown), shown.size()) << "no half of a letter";
    EXPECT_EQ(window.said.back().text, said);
  }
}

// An idle window asks for no frame, whatever stands in it.
TEST(AnIdleWindow, WantsNoFrames) {
  testing::HeadlessImGui gui;
  MadeUpWorker link;
  link.set_manner("heads", MadeUpWorker::Manner::fail);
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  for (int i = 0; i < 60; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  EXPECT_TRUE(main_window.settled());
  EXPECT_FALSE(main_window.animated());
  EXPECT_TRUE(std::isinf(main_window.next_frame_in()));
  main_window.window().say("an error", true);
  EXPECT_GT(main_window.next_frame_in(), 1) << "until it leaves";
  link.set_manner("heads", MadeUpWorker::Manner::hold);
  main_window.edit().apply("read more", [](Session& s) { s.text.length = 32; });
  for (int i = 0; i < 5; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  EXPECT_LT(main_window.next_frame_in(), 0.2) << "a bar moves";
}

// 19: a place without room for the titles of its tabs lists them, and one that has room does not;
// neither changes from frame to frame.
TEST(Tabs, AreListedWhereTheirTitlesHaveNoRoom) {
  for (const auto& [width, listed] : {std::pair{1600.0F, false}, std::pair{700.0F, true}}) {
    testing::HeadlessImGui gui({width, 1000});
    MadeUpWorker link;
    MainWindow main_window(default_session(), link, link);
    const auto lists = [](const char* window) {
      const ImGuiDockNode* node = ImGui::FindWindowByName(window)->DockNode;
      return node->TabBar->Tabs.Size > 1 && node->HasWindowMenuButton;
    };
    for (int i = 0; i < 30; ++i) {
      gui.begin_frame(), main_window.draw(), gui.end_frame();
      if (i < 10) continue;
      EXPECT_FALSE(lists("Extrapolation###extrapolation")) << width << " frame " << i;
      EXPECT_EQ(lists("Heads###heads"), listed) << width << " frame " << i;
    }
  }
}

// --- keys ---------------------------------------------------------------------------------------

// All four events of a chord come between two frames, as over a slow line or from a macro.
TEST(Keys, OfAFastChordAreNotLost) {
  testing::HeadlessImGui gui;
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  const auto frames = [&] {
    for (int i = 0; i < 8; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  };
  frames();
  ImGuiIO& io = ImGui::GetIO();
  for (const char* expected : {"dark", "light", "dark"}) {
    io.AddKeyEvent(ImGuiMod_Ctrl, true), io.AddKeyEvent(ImGuiKey_T, true);
    io.AddKeyEvent(ImGuiKey_T, false), io.AddKeyEvent(ImGuiMod_Ctrl, false);
    frames();
    EXPECT_EQ(main_window.edit().session().theme, expected);
  }
}

// The right Alt writes letters on many keyboards: those are no shortcuts while a text is typed.
TEST(Keys, OfALetterThatIsTypedAreNoShortcut) {
  testing::HeadlessImGui gui;
  MadeUpWorker link;
  Session session = default_session();
  MainWindow main_window(session, link, link);
  const auto frames = [&] {
    for (int i = 0; i < 8; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
  };
  const auto press = [&] {
    ImGuiIO& io = ImGui::GetIO();
    io.AddKeyEvent(ImGuiMod_Alt, true), io.AddKeyEvent(ImGuiKey_S, true);
    io.AddKeyEvent(ImGuiKey_S, false), io.AddKeyEvent(ImGuiMod_Alt, false);
    frames();
  };
  const auto shown = [&] { return main_window.edit().session().views.get<MapState>().of; };
  frames();
  main_window.window().palette_open = true;  // which has the focus of the keyboard
  frames();
  ASSERT_TRUE(ImGui::GetIO().WantTextInput);
  press();
  EXPECT_EQ(shown(), "weight");
  ImGui::GetIO().AddKeyEvent(ImGuiKey_Escape, true);
  ImGui::GetIO().AddKeyEvent(ImGuiKey_Escape, false);
  frames();
  ASSERT_FALSE(ImGui::GetIO().WantTextInput);
  press();
  EXPECT_EQ(shown(), "score");
}

// Looked at every second only while there is something to see.
TEST(AnIdleWindow, LooksSeldomForJobsWhereNoneRuns) {
  class Worker : public MadeUpWorker {
   public:
    protocol::RequestId submit(const std::string& method, nlohmann::json params,
                               protocol::Callbacks callbacks, const std::string& tag) override {
      if (method == "jobs.list") {
        callbacks.on_result = [this, take = callbacks.on_result](protocol::Reply reply) {
          for (auto& job : reply.result["jobs"]) job["state"] = state;
          take(std::move(reply));
        };
      }
      return MadeUpWorker::submit(method, std::move(params), std::move(callbacks), tag);
    }
    std::string state = "done";
  };
  for (const std::string state : {"done", "running"}) {
    testing::HeadlessImGui gui;
    Worker link;
    link.state = state;
    link.set_manner("heads", MadeUpWorker::Manner::fail);
    MainWindow main_window(default_session(), link, link);
    main_window.start_asking();
    show_view(main_window.context(), "jobs");
    for (int i = 0; i < 60; ++i) gui.begin_frame(), main_window.draw(), gui.end_frame();
    ASSERT_TRUE(main_window.settled());
    EXPECT_EQ(main_window.seconds_between_polls(), state == "running" ? 1 : 60) << state;
  }
}

// --- models of another machine --------------------------------------------------------------------

TEST(OpeningAModel, IsDoneAmongTheFoldersOfTheWorkersMachine) {
  testing::HeadlessImGui gui;
  MadeUpWorker link;
  MainWindow main_window(default_session(), link, link);
  main_window.start_asking();
  main_window.window().remote = "far";
  const auto draw = [&] {
    for (int i = 0; i < 6; ++i) gui.begin_frame(0.1F), main_window.draw(), gui.end_frame();
  };
  draw(), draw(), draw();  // the views have come forward, which would close a dialog
  main_window.window().open_dialog = "model";
  draw();
  EXPECT_EQ(link.counts().at("worker.folder"), 1);
  EXPECT_EQ(link.last_params("worker.folder"), nlohmann::json::object()) << "where it stands";
  const auto* answer = main_window.requests().of(kFolder).answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result.path, "/far");
}

// --- the file dialog ------------------------------------------------------------------------------

// A name of Latin-1 is listed with its escape and read as it is; as a model it is refused, since
// the worker is asked in UTF-8.
TEST_F(WindowFiles, Row38_NamesOfBytesAreListedAndTexts) {
  const std::string file = write("caf\xe9.txt", "words of Latin-1's friends");
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  testing::HeadlessImGui gui;
  FileDialog dialog;
  const auto frames = [&](int count) {
    for (int i = 0; i < count; ++i) gui.begin_frame(), dialog.draw(context_), gui.end_frame();
  };
  const auto press = [&](ImGuiKey key) {
    ImGui::GetIO().AddKeyEvent(key, true), frames(2);
    ImGui::GetIO().AddKeyEvent(key, false), frames(3);
  };
  for (const char* what : {"model", "text"}) {
    window_.open_dialog = what;
    frames(5);
    press(ImGuiKey_Tab), press(ImGuiKey_DownArrow);  // "..", and the file below it
    press(ImGuiKey_Enter);
    const bool refused = window_.open_dialog == "model";
    EXPECT_EQ(refused, what == std::string("model"));
    if (refused) press(ImGuiKey_Escape);
    EXPECT_EQ(window_.open_dialog, "") << what;
  }
  fs::current_path(before);
  EXPECT_EQ(edit_.session().text.words, "words of Latin-1's friends");
  EXPECT_EQ(edit_.session().text.name, file);
}

// Without the mouse: from the path to the entries, into a folder by Enter, to a file in it and by
// Enter its text; the space bar alone selects a folder and stays.
TEST_F(WindowFiles, FoldersAreEnteredByTheKeyboard) {
  write("inner/deep.txt", "words in a folder");
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  testing::HeadlessImGui gui;
  FileDialog dialog;
  const auto frames = [&](int count) {
    for (int i = 0; i < count; ++i) {
      gui.begin_frame();
      dialog.draw(context_);
      gui.end_frame();
    }
  };
  const auto press = [&](ImGuiKey key) {
    ImGui::GetIO().AddKeyEvent(key, true);
    frames(2);
    ImGui::GetIO().AddKeyEvent(key, false);
    frames(3);
  };
  window_.open_dialog = "text";
  frames(5);
  press(ImGuiKey_Tab), press(ImGuiKey_DownArrow);  // ".." and "inner/"
  press(ImGuiKey_Space);
  press(ImGuiKey_DownArrow);  // nothing below it: the buttons
  EXPECT_EQ(window_.open_dialog, "text");
  press(ImGuiKey_UpArrow);
  press(ImGuiKey_Enter);
  EXPECT_EQ(window_.open_dialog, "text");
  press(ImGuiKey_DownArrow);  // from ".." to the file
  press(ImGuiKey_Enter);
  fs::current_path(before);
  EXPECT_EQ(window_.open_dialog, "");
  EXPECT_EQ(edit_.session().text.words, "words in a folder");
  EXPECT_EQ(fs::path(edit_.session().text.name).filename(), "deep.txt");
}

// --- one hover and one selection ------------------------------------------------------------------

TEST(Hovering, IsForgottenWhereThePointerIsNowhere) {
  WindowState window;
  widgets::Hover hover;
  hover.layer = 2, hover.head = 1;
  window.point_at(hover);
  EXPECT_TRUE(window.hover().empty());  // until the next frame
  window.begin_hover();
  EXPECT_TRUE(window.hover() == hover);
  window.begin_hover();
  EXPECT_TRUE(window.hover().empty());
}

TEST_F(WindowFiles, AClickInAFigureSelectsWhatItsAxesAreOf) {
  widgets::Hover marks;
  marks.distance = 17, marks.layer = 2;
  select_marks(context_, marks);
  const Selection& at = edit_.session().selection;
  EXPECT_EQ(at.distance, 17);
  EXPECT_EQ(at.layer, 2);
  EXPECT_EQ(at.head, default_session().selection.head);
  EXPECT_EQ(marks_of(at).distance, 17);
  EXPECT_EQ(marks_of(at).head, at.head);
  edit_.undo();
  EXPECT_FALSE(edit_.session().selection.distance);
}

// --- the palette ----------------------------------------------------------------------------------

TEST_F(WindowFiles, ThePaletteFindsModelsHeadsAndTokens) {
  const auto titles = [&](const std::string& words) {
    std::vector<std::string> list;
    const std::vector<Command> about = commands_about(context_, words, {"tape", "/a/b"});
    for (const Command* command : matching(about, words)) list.push_back(command->title);
    return list;
  };
  EXPECT_EQ(titles("tape").front(), "Open tape");
  EXPECT_EQ(titles("select tapa").front(), "Select tapa_norm");
  EXPECT_EQ(titles("L2H3").front(), "Select head L2H3");
  EXPECT_EQ(titles("token 12").front(), "Select token 12");
  EXPECT_TRUE(titles("L2 entropy").empty());
  requests_.ask(requests_.of(kInfo, selected_model(edit_.session())),
                protocol::InfoRequest{.model = selected_model(edit_.session())});
  requests_.begin_frame();
  ASSERT_TRUE(context_.info(selected_model(edit_.session())));
  EXPECT_TRUE(titles("L2H99").empty()) << "the selected model has no such head";
  const std::int64_t heads = context_.info(selected_model(edit_.session()))->model.heads;
  std::vector<std::string> of_layer;
  for (std::int64_t head = 0; head < heads; ++head) {
    of_layer.push_back("Select head L2H" + std::to_string(head));
  }
  EXPECT_EQ(titles("L2H"), of_layer);
  EXPECT_TRUE(titles("L99H").empty());
  for (const Command& command : commands_about(context_, "l1h2", {})) {
    if (command.id.starts_with("head.select")) command.run(context_);
  }
  EXPECT_EQ(edit_.session().selection.layer, 1);
  EXPECT_EQ(edit_.session().selection.head, 2);
  const auto openable = openable_models(edit_.session());
  EXPECT_EQ(std::ranges::count(openable, "rope"), 0) << "it is open";
  EXPECT_EQ(std::ranges::count(openable, "tape"), 1);
}

TEST_F(WindowFiles, ThePaletteFindsWordsOfTheText) {
  edit_.apply("Type", [](Session& s) {
    s.text = {.name = TextInput::kTyped, .words = "one undo two undo "};
  });
  window_.may_ask = true;
  ask_for_tokens(context_);
  requests_.begin_frame();
  const auto found = [&](const std::string& words) {
    std::vector<Command> list = window_commands();
    TextView().add_found(context_, words, list);
    return list;
  };
  const std::vector<Command> all = found("undo");
  const auto match = matching(all, "undo");
  ASSERT_GE(match.size(), 3U);
  EXPECT_EQ(match[0]->title, "Undo") << "a command stands before the text";
  // "Select the next model" has its letters, one by one.
  const std::vector<Command> scattered = found("two");
  EXPECT_TRUE(matching(scattered, "two")[0]->title.ends_with("\"two\""));
  const auto token = std::ranges::find(match, "token.select.4", &Command::id);
  ASSERT_NE(token, match.end());
  EXPECT_EQ((*token)->title, "Select token 4: \"undo\"");
  EXPECT_NE((*token)->help.find("one"), std::string::npos) << "with what is around it";
  (*token)->run(context_);
  EXPECT_EQ(edit_.session().selection.query, 4);
  EXPECT_EQ(found("no such words").size(), window_commands().size());
  EXPECT_EQ(found("").size(), window_commands().size());
}

}  // namespace
}  // namespace phasescope::app
