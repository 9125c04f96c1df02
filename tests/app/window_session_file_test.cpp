// The session's file: what it holds, and that nothing of it is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>

#include "app/views/distance_view.h"
#include "app/views/extrapolation_view.h"
#include "app/views/heads_view.h"
#include "app/views/jobs_view.h"
#include "app/views/map_view.h"
#include "app/views/patterns_view.h"
#include "app/views/shift_view.h"
#include "app/views/theory_view.h"
#include "app/window/session_file.h"
#include "formats/faulty_file_system.h"
#include "tests/temporary_folder.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using formats::real_file_system;

class SessionFile : public ::testing::Test {
 protected:
  void write(const std::string& text) { folder_.file("session.json", text); }
  Session loaded() {
    const LoadedSession loaded = load_session(real_file_system(), path_);
    EXPECT_EQ(loaded.warning, "");
    EXPECT_FALSE(loaded.occupied);
    return loaded.session;
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_ / "session.json";
};

Session full_session() {
  Session session = default_session();
  session.models = {"rope", "/a/b c", "tapa"};
  session.text = {TextInput::kTyped, "with \"quotes\"\nand lines \u00e4", 128};
  session.selection = {1, 3, 2, 17, 5};
  session.region = {0, 64, 0, 0};
  MapState map;
  map.of = "score", map.look.scale = "log", map.look.high = 0.5;
  session.views.set(map);
  session.views.set(ShiftState{.shown = 3, .options = {{"by", {7}}}});
  session.theme = "dark";
  session.recent = {"/a/b c"};
  session.closed_views = {"jobs"};
  session.layout = "[Docking][Data]\n";
  return session;
}

TEST_F(SessionFile, RoundTrip) {
  save_session(real_file_system(), path_, full_session());
  EXPECT_TRUE(loaded() == full_session());
}

// 17.A9: bytes of another coding, in a text and in the name of a folder.
TEST_F(SessionFile, Row38_BytesThatAreNoUtf8ComeBackAsTheyWere) {
  Session session = full_session();
  session.text = {"/texts/caf\xE9.txt", "na\xEFve caf\xE9\xFF", 0};
  session.models = {"/mod\xE8les/rope"};
  save_session(real_file_system(), path_, session);
  EXPECT_TRUE(loaded() == session);
}

TEST_F(SessionFile, MissingIsNoFault) { EXPECT_TRUE(loaded() == default_session()); }

// Version 2 wrote its default, float32, as if it were chosen; the default is "auto" now.
TEST_F(SessionFile, ADefaultOfTheVersionBeforeIsNoChoice) {
  write(R"({"version": 2, "computing": {"dtype": "f32", "device": "cuda:1"}})");
  EXPECT_EQ(loaded().computing.dtype, Computing{}.dtype);
  EXPECT_EQ(loaded().computing.device, "cuda:1");
  write(R"({"version": 2, "computing": {"dtype": "bf16"}})");
  EXPECT_EQ(loaded().computing.dtype, "bf16");
  write(R"({"version": 3, "computing": {"dtype": "f32"}})");
  EXPECT_EQ(loaded().computing.dtype, "f32");
}

// 17.B14: what version 1 of the format wrote still opens, each view as it was.
TEST_F(SessionFile, OfTheVersionBefore) {
  fs::copy(fs::path(PHASESCOPE_TEST_DATA) / "window/session_1.json", path_);
  const Session session = loaded();
  EXPECT_EQ(session.version, 3);
  EXPECT_EQ(session.models, (std::vector<std::string>{"rope", "/srv/runs/a/checkpoint-1000"}));
  EXPECT_EQ(session.text.words.str(), "In the beginning");
  EXPECT_TRUE(session.selection == (Selection{1, 2, -1, 7, {}}));
  EXPECT_TRUE(session.region == (Region{3, 12, 0, 9}));
  EXPECT_EQ(session.views.get<HeadsState>().metric, "sink");
  EXPECT_EQ(session.views.get<HeadsState>().search, "sink>=0.25");
  EXPECT_EQ(session.views.get<MapState>().of, "score");
  EXPECT_EQ(session.views.get<MapState>().show, "both");
  EXPECT_EQ(session.views.get<PatternsState>().figure, "drift with depth");
  EXPECT_EQ(session.views.get<MapState>().look.scale, MapLook{}.scale);
  EXPECT_EQ(session.views.get<DistanceState>().layer, 1);
  EXPECT_EQ(session.views.get<DistanceState>().options, nlohmann::json::object());  // its own text
  EXPECT_EQ(session.views.get<ShiftState>().options, (nlohmann::json{{"by", {2, 5}}}));
  EXPECT_EQ(session.views.get<ShiftState>().shown, 5);
  EXPECT_EQ(session.views.get<TheoryState>().check, "tape.shift rope");
  EXPECT_EQ(session.views.get<ExtrapolationState>().choices.options.value("trials", 0), 64);
  EXPECT_EQ(session.views.get<JobsState>().dir, "jobs/tapa");
  EXPECT_EQ(session.closed_views, std::vector<std::string>{"theory"});
  save_session(real_file_system(), path_, session);
  EXPECT_TRUE(loaded() == session);
}

// Of a view that this program does not have.
TEST_F(SessionFile, StatesOfOtherViewsAreKept) {
  write(R"({"version": 2, "views": {"later": {"a": 1}, "shift": {"shown": "three"}}})");
  const Session session = loaded();
  EXPECT_EQ(session.views.get<ShiftState>().shown, 3);  // it cannot be read
  save_session(real_file_system(), path_, session);
  EXPECT_NE(real_file_system().read(path_).find("\"later\""), std::string::npos);
}

TEST_F(SessionFile, Row30_CorruptOrNewerIsKeptAsBadAndDefaultsAreUsed) {
  for (const char* text :
       {"", "{", "[1, 2]", "{\"version\": 1, \"models\": 3}", "{\"version\": 99}",
        "{\"version\": 1, \"map\": {\"row_end\": -4}}", "{\"version\": 1, \"heads\": 3}",
        "{\"version\": 2, \"views\": [1]}", "{\"version\": 2, \"region\": {\"row_end\": -4}}"}) {
    write(text);
    fs::remove(path_.string() + ".bad");
    const LoadedSession loaded = load_session(real_file_system(), path_);
    EXPECT_NE(loaded.warning, "") << text;
    EXPECT_TRUE(loaded.session == default_session()) << text;
    EXPECT_TRUE(fs::exists(path_.string() + ".bad")) << text;
    EXPECT_FALSE(fs::exists(path_)) << text;
    EXPECT_FALSE(loaded.occupied) << text;
  }
}

// 17.A9: a second one does not take the place of the first.
TEST_F(SessionFile, Row30_EveryUnreadableOneIsKept_Risk17) {
  for (const char* text : {"first", "second", "third"}) {
    write(text);
    load_session(real_file_system(), path_);
  }
  EXPECT_EQ(real_file_system().read(path_.string() + ".bad"), "first");
  EXPECT_EQ(real_file_system().read(path_.string() + ".bad2"), "second");
  EXPECT_EQ(real_file_system().read(path_.string() + ".bad3"), "third");
}

// 17.A9: what can neither be read nor moved stays, and nothing is written over it.
TEST_F(SessionFile, Row30_WhatCannotBeMovedIsNotWrittenOver) {
  write("{");
  formats::FaultyFileSystem disk(folder_.path());
  disk.fail_from(1, EROFS);
  const LoadedSession loaded = load_session(disk, path_);
  EXPECT_TRUE(loaded.occupied);
  EXPECT_NE(loaded.warning.find("will not be saved"), std::string::npos) << loaded.warning;
  EXPECT_EQ(real_file_system().read(path_), "{");
}

// Two windows of one user keep one file: the last to write has it, and it is never a mixture.
TEST_F(SessionFile, Row30_TwoWindowsLeaveOneWholeSession) {
  Session other = default_session();
  other.models.assign(2000, "/a/long/path/of/a/model");
  const auto write_often = [&](const Session& session) {
    for (int i = 0; i < 50; ++i) save_session(real_file_system(), path_, session);
  };
  const pid_t second = fork();
  if (second == 0) {
    write_often(other);
    _exit(0);
  }
  write_often(full_session());
  int status = -1;
  waitpid(second, &status, 0);
  EXPECT_EQ(status, 0);
  const Session kept = loaded();
  EXPECT_TRUE(kept == other || kept == full_session());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "litter";
}

using Clock = SessionSaver::Clock;
using std::chrono::milliseconds;

// 17.A9: a moment after the last change, and soon after the first where changes do not end.
TEST_F(SessionFile, IsWrittenAfterEveryChange) {
  SessionSaver saver(real_file_system(), path_);
  const auto start = Clock::now();
  EXPECT_FALSE(saver.due(start + std::chrono::hours(1)));  // nothing has changed
  EXPECT_TRUE(std::isinf(saver.due_in(start)));
  saver.changed(start);
  EXPECT_FALSE(saver.due(start + milliseconds(100)));
  EXPECT_NEAR(saver.due_in(start + milliseconds(100)), 0.05, 1e-9);
  EXPECT_TRUE(saver.due(start + milliseconds(200)));
  EXPECT_EQ(saver.due_in(start + milliseconds(200)), 0);
  for (int i = 1; i < 12; ++i) saver.changed(start + milliseconds(50 * i));
  EXPECT_FALSE(saver.due(start + milliseconds(590)));
  EXPECT_TRUE(saver.due(start + milliseconds(610)));
  saver.write_aside(full_session());
  EXPECT_EQ(saver.write_now(full_session()), "");  // after the other one
  EXPECT_FALSE(saver.due(start + std::chrono::hours(1)));
  EXPECT_TRUE(loaded() == full_session());
}

// 17.A9: a full disk is told of, and the session before stays.
TEST_F(SessionFile, WhatCannotBeWrittenLeavesTheOneBefore) {
  save_session(real_file_system(), path_, full_session());
  formats::FaultyFileSystem disk(folder_.path());
  disk.fail_from(1, ENOSPC);
  SessionSaver saver(disk, path_);
  EXPECT_NE(saver.write_now(default_session()).find("was not saved"), std::string::npos);
  saver.write_aside(default_session());
  std::string trouble;
  for (int i = 0; i < 1000 && trouble.empty(); ++i) {
    usleep(5000);
    trouble = saver.trouble();
  }
  EXPECT_NE(trouble.find("was not saved"), std::string::npos);
  EXPECT_EQ(saver.trouble(), "");
  EXPECT_TRUE(loaded() == full_session());
}

TEST(LastingNames, AreBundledOnesAndAbsolutePaths) {
  EXPECT_EQ(lasting_name("rope"), "rope");
  EXPECT_EQ(lasting_name("rope (yarn x2)"), "rope (yarn x2)");
  EXPECT_EQ(lasting_name("/no/such/model"), "/no/such/model");
  const fs::path before = fs::current_path();
  fs::current_path(assets_folder() / "models");
  const std::string rope = (assets_folder() / "models/rope").lexically_normal().string();
  EXPECT_EQ(lasting_name("./rope"), rope);
  EXPECT_EQ(lasting_name("./rope/"), rope);
  EXPECT_EQ(lasting_name("../models/rope (yarn x2)"), rope + " (yarn x2)");
  fs::current_path(before);
}

}  // namespace
}  // namespace phasescope::app
