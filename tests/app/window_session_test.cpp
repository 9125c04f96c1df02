#include <gtest/gtest.h>

#include "app/views/extrapolation_view.h"
#include "app/views/text_view.h"
#include "app/window/main_window.h"
#include "formats/error.h"
#include "tests/app/made_up_worker.h"

namespace phasescope::app {
namespace {

TEST(Readings, AreModelsOfTheirOwnBesideTheFirst) {
  MadeUpWorker link;
  SessionHistory edit(default_session());
  WorkerRequests requests(link, link);
  WindowState window;
  ViewContext context{edit, requests, window};
  open_reading(context, "rope", {{"encoding.scaling", "yarn"}, {"encoding.factor", "2"}});
  EXPECT_EQ(edit.session().models.back(), "rope (yarn x2)");
  EXPECT_EQ(selected_model(edit.session()), "rope (yarn x2)");
  // Another one of the same model, not of the reading.
  open_reading(context, "rope (yarn x2)", {{"encoding.base", "40000"}});
  EXPECT_EQ(edit.session().models.back(), "rope (base=40000)");
  EXPECT_EQ(edit.session().models.size(), 4U);
}

TEST(SessionHistory, UndoAndRedoRestoreTheSession) {
  SessionHistory edit(default_session());
  const Session first = edit.session();
  edit.apply("theme", [](Session& s) { s.theme = "dark"; });
  edit.apply("head", [](Session& s) { s.selection.head = 2; });
  const Session last = edit.session();
  EXPECT_EQ(edit.undo_title(), "head");
  EXPECT_TRUE(edit.undo());
  EXPECT_EQ(edit.session().selection.head, first.selection.head);
  EXPECT_EQ(edit.session().theme, "dark");
  EXPECT_TRUE(edit.undo());
  EXPECT_TRUE(edit.session() == first);
  EXPECT_FALSE(edit.undo());
  EXPECT_TRUE(edit.redo());
  EXPECT_TRUE(edit.redo());
  EXPECT_TRUE(edit.session() == last);
  EXPECT_FALSE(edit.redo());
}

TEST(SessionHistory, MergedChangesAreOneStepAndNoChangeIsNone) {
  SessionHistory edit(default_session());
  for (int i = 1; i < 5; ++i) {
    edit.apply(
        "zoom", [&](Session& s) { s.region.row_end = i; }, "zoom");
  }
  const auto revision = edit.revision();
  edit.apply("nothing", [](Session&) {});
  EXPECT_EQ(edit.revision(), revision);
  EXPECT_TRUE(edit.undo());
  EXPECT_EQ(edit.session().region.row_end, 0);
  EXPECT_FALSE(edit.undo());
}

TEST(SessionHistory, ANewChangeForgetsWhatWasUndone) {
  SessionHistory edit(default_session());
  edit.apply("a", [](Session& s) { s.selection.layer = 1; });
  edit.undo();
  edit.apply("b", [](Session& s) { s.selection.layer = 2; });
  EXPECT_FALSE(edit.redo());
}

// A step of undo keeps a whole session: with a copy of a long text in each, memory would run out.
// 19: a model keeps its colour while others are closed and opened, also where the closing is
// undone.
TEST(SessionHistory, AModelKeepsItsColour) {
  Session session = default_session();
  session.models = {"rope", "alibi", "tape"}, session.colors.clear();
  SessionHistory edit(session);
  const auto color = [&](const char* model) { return names_of(edit.session()).color(model); };
  const auto set = [&](std::vector<std::string> models) {
    edit.apply("Models", [&](Session& s) { s.models = models; });
  };
  EXPECT_EQ(color("rope"), 0);
  EXPECT_EQ(color("tape"), 2);
  set({"alibi", "tape"});
  EXPECT_EQ(color("alibi"), 1);
  EXPECT_EQ(color("tape"), 2);
  set({"alibi", "tape", "cape", "tapa"});
  EXPECT_EQ(color("cape"), 0);  // the first that is free
  EXPECT_EQ(color("tapa"), 3);
  EXPECT_EQ(color("tape"), 2);
  edit.undo();
  edit.undo();
  EXPECT_EQ(color("rope"), 0);
  EXPECT_EQ(color("alibi"), 1);
  // A session of a file that knows no colours has them in its models' order.
  EXPECT_EQ(names_of(session).color("tape"), 2);
}

TEST(SessionHistory, StepsOfUndoShareTheText) {
  SessionHistory edit(default_session());
  const std::string* words = &edit.session().text.words.str();
  for (int i = 0; i < 5; ++i) edit.apply("head", [&](Session& s) { s.selection.head = 10 + i; });
  EXPECT_EQ(&edit.session().text.words.str(), words);
  edit.undo();
  EXPECT_EQ(&edit.session().text.words.str(), words);
}

// The same of what views show, where a text is among it.
TEST(SessionHistory, StepsOfUndoShareWhatViewsShow) {
  Session session = default_session();
  session.views.set(TextState{.kept = {{TextInput::kTyped, "words"}}});
  SessionHistory edit(session);
  const auto words = [&] { return &edit.session().views.get<TextState>().kept.at(0).words.str(); };
  const std::string* before = words();
  EXPECT_EQ(words(), before) << "is read once";
  edit.apply("head", [](Session& s) { s.selection.head = 3; });
  EXPECT_EQ(words(), before);
  edit.undo();
  EXPECT_EQ(words(), before);
  edit.apply("search", [](Session& s) {
    auto state = s.views.get<TextState>();
    state.search = "w";
    s.views.set(state);
  });
  EXPECT_EQ(edit.session().views.get<TextState>().search, "w");
  edit.undo();
  EXPECT_EQ(edit.session().views.get<TextState>().search, "");
}

class Commands : public ::testing::Test {
 protected:
  MadeUpWorker link_;
  SessionHistory edit_{default_session()};
  WorkerRequests requests_{link_, link_};
  WindowState window_;
  ViewContext context_{edit_, requests_, window_};
};

TEST_F(Commands, ModelsAreOpenedOnceAndClosed) {
  open_model(context_, "tape");
  open_model(context_, "tape");
  EXPECT_EQ(edit_.session().models, (std::vector<std::string>{"rope", "tapa_norm", "tape"}));
  EXPECT_EQ(selected_model(edit_.session()), "tape");
  close_model(context_, "tape");
  close_model(context_, "rope");
  EXPECT_EQ(selected_model(edit_.session()), "tapa_norm");
  close_model(context_, "tapa_norm");
  EXPECT_EQ(selected_model(edit_.session()), "");
}

// The selected model stays the selected one when another is closed, before it or behind it.
TEST_F(Commands, ClosingAModelSelectsNoOther) {
  open_model(context_, "tape");
  open_model(context_, "alibi");
  select_model(context_, 2);
  for (const char* other : {"rope", "alibi", "tapa_norm"}) {
    close_model(context_, other);
    EXPECT_EQ(selected_model(edit_.session()), "tape") << other;
  }
}

// Trained length n: n, 2n, 4n. A table of 48 rows has no 96th.
TEST(EvalLengths, FollowTheModel) {
  protocol::LoadReport report;
  using Lengths = std::vector<std::int64_t>;
  EXPECT_EQ(eval_lengths(report), Lengths());
  report.model.context = 128, report.encoding = "rope";
  EXPECT_EQ(eval_lengths(report), (Lengths{128, 256, 512}));
  report.model.context = 131072;
  EXPECT_EQ(eval_lengths(report), (Lengths{4096, 8192, 16384}));
  report.encoding = "learned", report.model.context = 48;
  EXPECT_EQ(eval_lengths(report), (Lengths{12, 24, 48}));
  report.model.context = 64;  // tests/worker/eval_requests_test.cpp reads them
  EXPECT_EQ(eval_lengths(report), (Lengths{16, 32, 64}));
  report.model.context = 48;
  report.encoding_options = {{"max_positions", 100}};
  EXPECT_EQ(eval_lengths(report), (Lengths{48, 96}));
}

TEST(Selection, StaysWithinTheModelOnceItsShapeIsKnown) {
  struct Case {
    Selection saved;
    std::int64_t layer, head;
  };
  for (const Case& c : {Case{default_session().selection, 1, 0}, Case{{0, 9, 7, {}, {}}, 1, 0},
                        Case{{0, 0, -1, {}, {}}, 0, -1}, Case{{0, 1, -5, {}, {}}, 1, -1}}) {
    MadeUpWorker link({.layers = 2, .heads = 1});
    Session session = default_session();
    session.selection = c.saved;
    SessionHistory edit(session);
    WorkerRequests requests(link, link);
    WindowState window;
    window.may_ask = true;
    ViewContext context{edit, requests, window};
    fit_selection(context);  // nothing is known yet
    EXPECT_TRUE(edit.session() == session);
    EXPECT_FALSE(context.models_known());
    const auto generation = requests.generation();
    requests.begin_frame();
    EXPECT_TRUE(context.models_known());
    EXPECT_GT(requests.generation(), generation);  // so that views ask
    fit_selection(context);
    EXPECT_EQ(edit.session().selection.layer, c.layer);
    EXPECT_EQ(edit.session().selection.head, c.head);
    EXPECT_FALSE(edit.undo());
  }
}

TEST_F(Commands, ReadingATextShowsAllOfIt) {
  show_region(context_, {10, 20, 0, 20});
  select_pair(context_, 12, 3);
  read_text(context_, "typed", "new words");
  EXPECT_EQ(edit_.session().region.row_end, 0);
  EXPECT_FALSE(edit_.session().selection.query);
  EXPECT_THROW(read_text_file_into(context_, "/no/such/file"), formats::Error);
  EXPECT_EQ(edit_.session().text.words.str(), "new words");
}

TEST_F(Commands, PaletteFindsByPartsOfNames) {
  MainWindow main_window(default_session(), link_, link_);
  const auto& commands = main_window.commands();
  ASSERT_FALSE(matching(commands, "undo").empty());
  EXPECT_EQ(matching(commands, "undo").front()->id, "edit.undo");
  EXPECT_EQ(matching(commands, "dark").front()->id, "look.theme");
  EXPECT_EQ(matching(commands, "shw atten").front()->id, "view.map");
  EXPECT_TRUE(matching(commands, "zzzz").empty());
  EXPECT_EQ(matching(commands, "").size(), commands.size());
}

TEST_F(Commands, LettersGrowAndShrinkWithinTheirLimits) {
  MainWindow main_window(default_session(), link_, link_);
  const auto scale_after = [&](const std::string& id, int times) {
    for (const Command& command : main_window.commands()) {
      for (int i = 0; command.id == id && i < times; ++i) command.run(context_);
    }
    return edit_.session().scale;
  };
  EXPECT_EQ(scale_after("look.larger", 1), 1.25);
  EXPECT_EQ(scale_after("look.larger", 20), 3);
  EXPECT_EQ(scale_after("look.smaller", 20), 0.75);
  EXPECT_EQ(scale_after("look.own_size", 1), 1);
}

// Menus show them as what they are.
TEST_F(Commands, UndoAndRedoCanBeRunWhereTheyDoSomething) {
  MainWindow main_window(default_session(), link_, link_);
  const auto can_run = [&](const std::string& id) {
    const auto& commands = main_window.commands();
    return std::ranges::find(commands, id, &Command::id)->can_run(context_);
  };
  EXPECT_FALSE(can_run("edit.undo"));
  EXPECT_FALSE(can_run("edit.redo"));
  open_model(context_, "tape");
  EXPECT_TRUE(can_run("edit.undo"));
  edit_.undo();
  EXPECT_FALSE(can_run("edit.undo"));
  EXPECT_TRUE(can_run("edit.redo"));
}

// Whoever has no mouse gets to each of them by the palette.
TEST_F(Commands, EachIsFoundByItsTitle) {
  MainWindow main_window(default_session(), link_, link_);
  const auto& commands = main_window.commands();
  for (const Command& command : commands) {
    EXPECT_FALSE(command.title.empty()) << command.id;
    const auto found = matching(commands, command.title);
    EXPECT_TRUE(std::ranges::any_of(found, [&](const Command* one) { return one == &command; }))
        << command.id;
  }
}

// 19.10: every view and command has keys of its own.
TEST_F(Commands, HaveDistinctNamesAndShortcuts) {
  MainWindow main_window(default_session(), link_, link_);
  const auto& commands = main_window.commands();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_NE(commands[i].shortcut, 0) << commands[i].id;
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(commands[i].id, commands[j].id);
      EXPECT_NE(commands[i].shortcut, commands[j].shortcut)
          << commands[i].id << " and " << commands[j].id;
    }
  }
}

}  // namespace
}  // namespace phasescope::app
