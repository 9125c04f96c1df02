#include "app/window/worker_requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/text_view.h"
#include "app/window/host_link.h"
#include "tests/app/made_up_worker.h"

namespace phasescope::app {
namespace {

using Manner = MadeUpWorker::Manner;

class WorkerRequestsTest : public ::testing::Test {
 protected:
  MadeUpWorker link_;
  WorkerRequests requests_{link_, link_};
  QuestionOf<protocol::HeadsResult>& heads() { return requests_.of(kHeads, "rope"); }
  void ask(const std::string& text) {
    protocol::HeadsRequest request{.model = "rope"};
    request.reading.input.text = text;
    requests_.ask(heads(), request);
  }
};

TEST_F(WorkerRequestsTest, AnAnswerStaysUntilTheNextOneCame) {
  ask("a");
  EXPECT_TRUE(heads().waiting());
  requests_.begin_frame();
  ASSERT_TRUE(heads().answer());
  const auto first = heads().answer()->serial;
  link_.set_manner("heads", Manner::hold);
  ask("b");
  requests_.begin_frame();
  EXPECT_TRUE(heads().waiting());
  EXPECT_EQ(heads().answer()->serial, first);
  link_.set_manner("heads", Manner::answer);
  requests_.begin_frame();
  EXPECT_FALSE(heads().waiting());
  EXPECT_NE(heads().answer()->serial, first);
}

// Reading what a text of thousands of tokens gives takes longer than a frame may.
TEST_F(WorkerRequestsTest, ALargeAnswerIsReadBesideTheWindow) {
  link_ = MadeUpWorker({.tokens = 4096, .read_later = true});
  auto& text = requests_.of(kText, "rope");
  const auto ask_for = [&](const std::string& words) {
    protocol::TextRequest request{.model = "rope"};
    request.reading.input.text = words;
    requests_.ask(text, request);
  };
  const auto draw_until_there = [&] {
    const auto begin = std::chrono::steady_clock::now();
    while (text.waiting() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
      requests_.begin_frame();
    }
    return text.answer();
  };
  ask_for("a");
  ASSERT_TRUE(draw_until_there());
  EXPECT_EQ(text.answer()->result.tokens.size(), 4096U);
  EXPECT_TRUE(text.answers_now());
  // One that is not asked any more by the time it is read is not taken.
  ask_for("b");
  requests_.begin_frame();  // it has come, and is being read
  ask_for("c");
  ASSERT_TRUE(draw_until_there());
  EXPECT_EQ(text.answer()->result.tokens.at(0).text, "c");
  EXPECT_TRUE(text.answers_now());
  EXPECT_EQ(text.ends(), 2U);
}

// Somebody who clicked on a head looks at its map: what else comes meanwhile waits for it.
TEST_F(WorkerRequestsTest, AnswersWaitForAMapThatIsOnItsWay) {
  link_ = MadeUpWorker({.read_later = true});
  auto& map = requests_.of(kMap, "rope");
  link_.set_manner("map", Manner::hold);
  requests_.ask(map, protocol::MapRequest{.model = "rope"});
  ask("a");
  for (int frame = 0; frame < 3; ++frame) requests_.begin_frame();
  EXPECT_FALSE(heads().answer());
  link_.set_manner("map", Manner::answer);
  requests_.begin_frame();
  EXPECT_TRUE(map.answers_now());
  EXPECT_FALSE(heads().answer());  // the frame of the map is its own
  const auto begin = std::chrono::steady_clock::now();
  while (heads().waiting() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    requests_.begin_frame();
  }
  EXPECT_TRUE(heads().answers_now());
}

// A map of a long text takes minutes, in which all else goes on.
TEST_F(WorkerRequestsTest, AnswersDoNotWaitForAMapForLong) {
  link_ = MadeUpWorker({.read_later = true});
  link_.set_manner("map", Manner::hold);
  requests_.ask(requests_.of(kMap, "rope"), protocol::MapRequest{.model = "rope"});
  ask("a");
  const auto begin = std::chrono::steady_clock::now();
  while (heads().waiting() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    requests_.begin_frame();
  }
  EXPECT_TRUE(heads().answers_now());
  EXPECT_TRUE(requests_.of(kMap, "rope").waiting());
}

TEST_F(WorkerRequestsTest, TheSameQuestionIsSentOnce) {
  for (int i = 0; i < 3; ++i) ask("a"), requests_.begin_frame();
  EXPECT_EQ(link_.counts().at("heads"), 1);
}

TEST_F(WorkerRequestsTest, ALateAnswerToAnOldQuestionIsDropped) {
  link_.set_manner("heads", Manner::hold);
  ask("a");
  ask("b");
  link_.set_manner("heads", Manner::answer);
  requests_.begin_frame();
  ASSERT_TRUE(heads().answer());
  EXPECT_EQ(heads().answer()->asked.params["input"]["text"], "b");
}

TEST_F(WorkerRequestsTest, AFailureIsKeptAndSentAgainOnlyWhenAsked) {
  link_.set_manner("", Manner::fail);
  ask("a");
  requests_.begin_frame();
  EXPECT_TRUE(heads().failed());
  EXPECT_NE(heads().busy().text.find("config.json"), std::string::npos);
  ask("a");
  EXPECT_EQ(link_.counts().at("heads"), 1);
  requests_.retry(heads());
  ask("a");
  EXPECT_EQ(link_.counts().at("heads"), 2);
}

// What was asked of a model that is closed by now holds up no other answer; opened again, it is
// asked anew.
TEST_F(WorkerRequestsTest, QuestionsOfAClosedModelEnd) {
  link_.set_manner("heads", Manner::hold);
  requests_.keep_answers_of({"rope"});
  ask("a");
  EXPECT_EQ(requests_.waiting(), 1u);
  requests_.keep_answers_of({});
  EXPECT_EQ(requests_.waiting(), 0u);
  EXPECT_FALSE(heads().failed());
  requests_.keep_answers_of({"rope"});
  ask("a");
  EXPECT_EQ(link_.counts().at("heads"), 2);
}

// A slider of Intervene makes a model at each place: of all those no answers may be kept.
TEST_F(WorkerRequestsTest, AnswersOfModelsThatWereClosedLongAgoAreDropped) {
  const auto name_of = [](int place) { return "rope (base=" + std::to_string(place) + ")"; };
  const auto about = [&](int place) -> auto& { return requests_.of(kHeads, name_of(place)); };
  constexpr int kPlaces = 20;
  for (int place = 0; place < kPlaces; ++place) {
    requests_.keep_answers_of({"rope", name_of(place)});
    requests_.ask(about(place), protocol::HeadsRequest{.model = name_of(place)});
    requests_.ask(heads(), protocol::HeadsRequest{.model = "rope"});
    requests_.begin_frame();
    ASSERT_TRUE(about(place).answer());
  }
  int kept = 0;
  for (int place = 0; place < kPlaces; ++place) kept += about(place).answer() != nullptr;
  EXPECT_EQ(kept, 9) << "the open one, and eight to go back to";
  EXPECT_TRUE(about(kPlaces - 2).answer());
  EXPECT_TRUE(heads().answer());
  // One that is opened again is asked about anew.
  requests_.keep_answers_of({"rope", name_of(0)});
  requests_.ask(about(0), protocol::HeadsRequest{.model = name_of(0)});
  requests_.begin_frame();
  EXPECT_TRUE(about(0).answer());
}

// 19.11: another host is chosen in the window: its worker is asked all that is shown, and what the
// one before was asked ends without an answer.
TEST(Hosts, AnotherWorkerIsAskedAllAnew) {
  std::map<std::string, MadeUpWorker*> workers;
  HostLink link("", [&](const std::string& host) {
    auto worker = std::make_unique<MadeUpWorker>();
    if (host.empty()) worker->set_manner("heads", Manner::hold);
    workers[host] = worker.get();
    return worker;
  });
  WorkerRequests requests(link, link);
  auto& heads = requests.of(kHeads, "rope");
  auto& info = requests.of(kInfo, "rope");
  const auto ask = [&] {
    requests.ask(info, protocol::InfoRequest{.model = "rope"});
    requests.ask(heads, protocol::HeadsRequest{.model = "rope"});
    requests.begin_frame();
  };
  ask();
  EXPECT_TRUE(info.answers_now());
  EXPECT_TRUE(heads.waiting());
  const auto generation = requests.generation();
  link.go_to("far");
  requests.begin_anew();
  EXPECT_FALSE(heads.waiting());
  EXPECT_GT(requests.generation(), generation) << "so that views ask";
  ASSERT_TRUE(workers.contains("far"));
  EXPECT_EQ(workers["far"]->starts(), 1);
  ask();
  EXPECT_EQ(workers["far"]->counts().at("model.info"), 1);
  EXPECT_TRUE(heads.answers_now());
}

// A model that could be opened at last is asked about by all views again.
TEST_F(WorkerRequestsTest, WhatFailedForAModelIsAskedAgainWithIt) {
  link_.set_manner("", Manner::fail);
  auto& info = requests_.of(kInfo, "rope");
  requests_.ask(info, protocol::InfoRequest{.model = "rope"});
  ask("a");
  requests_.begin_frame();
  ASSERT_TRUE(info.failed() && heads().failed());
  const auto generation = requests_.generation();
  link_.set_manner("", Manner::answer);
  requests_.retry(info);
  EXPECT_FALSE(info.failed() || heads().failed());
  EXPECT_GT(requests_.generation(), generation) << "so that views ask";
  ask("a");
  requests_.begin_frame();
  EXPECT_TRUE(heads().answer());
}

TEST_F(WorkerRequestsTest, ADeadWorkerIsReplacedAndItsQuestionsAreAskedAgain) {
  ask("a");
  requests_.begin_frame();
  const auto picture = heads().answer()->serial;
  link_.set_manner("heads", Manner::hold);
  ask("b");
  requests_.begin_frame();
  link_.die("killed by SIGKILL");
  requests_.begin_frame();
  EXPECT_NE(requests_.death_notice().find("SIGKILL"), std::string::npos);
  EXPECT_EQ(link_.starts(), 2);
  EXPECT_EQ(heads().answer()->serial, picture);  // the last picture stays
  link_.set_manner("heads", Manner::answer);
  ask("b");
  requests_.begin_frame();
  EXPECT_GT(heads().answer()->serial, picture);
}

TEST_F(WorkerRequestsTest, AQuestionThatTwoWorkersDiedOnIsNotSentToAThird) {
  link_.set_manner("heads", Manner::hold);
  for (int death = 0; death < 2; ++death) {
    ask("a");
    requests_.begin_frame();
    link_.die("killed by SIGSEGV");
    requests_.begin_frame();
  }
  EXPECT_TRUE(heads().failed());
  ask("a");
  EXPECT_EQ(link_.counts().at("heads"), 2);
}

TEST_F(WorkerRequestsTest, AfterThreeDeathsNoWorkerIsStartedUnasked) {
  link_.set_manner("", Manner::hold);
  for (int death = 0; death < 3; ++death) {
    ask(std::string(1, static_cast<char>('a' + death)));
    requests_.begin_frame();
    link_.die("killed by SIGKILL");
    requests_.begin_frame();
  }
  EXPECT_TRUE(requests_.gave_up());
  EXPECT_EQ(link_.starts(), 3);
  requests_.start_again();
  EXPECT_EQ(link_.starts(), 4);
  EXPECT_FALSE(requests_.gave_up());
}

// A worker that is too slow to begin is killed again and again, further apart than deaths are
// remembered: it is not started for ever.
TEST_F(WorkerRequestsTest, Risk16_WorkersThatNeverBeginAreGivenUpHoweverSlowlyTheyDie) {
  link_.set_manner("", Manner::hold);
  requests_.remember_deaths_for(std::chrono::milliseconds(-1));  // each is forgotten at once
  for (int death = 0; death < 4; ++death) {                      // of workers that had begun
    ask(std::string(1, static_cast<char>('a' + death)));
    requests_.begin_frame();
    link_.die("killed by SIGKILL");
    requests_.begin_frame();
    ASSERT_FALSE(requests_.gave_up()) << death;
  }
  link_.begin_slowly();
  const int before = link_.starts();
  link_.die("no hello came within 120 s");
  for (int death = 0; death < 6 && !requests_.gave_up(); ++death) {
    requests_.begin_frame();
    link_.die("no hello came within 120 s");
  }
  EXPECT_TRUE(requests_.gave_up());
  EXPECT_LE(link_.starts(), before + 4);
  EXPECT_FALSE(requests_.death_notice().empty());
}

TEST_F(WorkerRequestsTest, AQuestionSaysHowManyAreBeforeIt) {
  link_.set_manner("", Manner::hold);
  ask("a");
  requests_.ask(requests_.of(kMap, "rope"), protocol::MapRequest{.model = "rope"});
  EXPECT_EQ(requests_.busy(heads()).text, "measuring the heads");
  EXPECT_EQ(requests_.busy(requests_.of(kMap, "rope")).text, "waits for 1 before it,");
  link_.set_manner("heads", Manner::answer);
  requests_.begin_frame();
  EXPECT_EQ(requests_.busy(requests_.of(kMap, "rope")).text,
            "reading texts");  // as its worker says
}

TEST_F(WorkerRequestsTest, ATextGoesWithTheQuestionAndIsToldFromAnother) {
  const SharedText one("in the beginning"), same(one), other("in the end");
  const auto read = [&](const SharedText& text) {
    protocol::TextRequest request{.model = "rope"};
    request.reading.input.name = TextInput::kTyped;
    requests_.ask(requests_.of(kText, "rope"), request, text);
    requests_.begin_frame();
    return requests_.of(kText, "rope").answer()->result.tokens.at(7).text;
  };
  EXPECT_EQ(read(one), "b");
  EXPECT_EQ(read(same), "b");
  EXPECT_EQ(link_.counts().at("text.read"), 1);
  EXPECT_EQ(read(other), "e");
  EXPECT_EQ(link_.counts().at("text.read"), 2);
}

TEST_F(WorkerRequestsTest, CancelEndsTheQuestion) {
  link_.set_manner("", Manner::hold);
  ask("a");
  requests_.begin_frame();
  EXPECT_EQ(requests_.waiting(), 1);
  requests_.cancel(heads());
  requests_.begin_frame();
  EXPECT_EQ(requests_.waiting(), 0);
  EXPECT_EQ(heads().error().code, "cancelled");
}

// A worker's own process, whose device faults: frames go on, and what it was asked is answered by
// the next one, which has read the model again.
TEST(WorkerOfTheWindow, Row22_AFaultOfTheDeviceFreezesNoFrameAndTheModelIsThereAgain) {
  if (!std::filesystem::exists(protocol::local_worker().argv[0])) {
    GTEST_SKIP() << "built without the worker";
  }
  ::setenv("PHASESCOPE_TEST_HANDLERS", "1", 1);
  const auto link = link_to(protocol::local_worker());
  WorkerRequests requests(*link, *link);
  auto& heads = requests.of(kHeads, "rope");
  // As a view does it: the same question in every frame. Ends when it is answered, or too late.
  const auto frames_until_answer = [&](const std::string& prompt) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    protocol::HeadsRequest request{.model = "rope"};
    request.reading.input.prompt = prompt;
    for (int frame = 0; std::chrono::steady_clock::now() < limit; ++frame) {
      requests.begin_frame();
      requests.ask(heads, request);
      if (heads.answers_now()) return frame;
      requests.end_frame();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return 0;
  };
  ASSERT_GT(frames_until_answer("to every thing there is a season"), 0);
  EXPECT_EQ(requests.death_notice(), "");
  const auto values = [&] {
    return protocol::to_json_form(heads.answer()->result.rows.at(0).values);
  };
  const auto before = values();
  std::string code;
  protocol::Callbacks callbacks;
  callbacks.on_error = [&code](const protocol::ErrorInfo& error) { code = error.code; };
  link->submit("worker.crash", {{"how", "fatal"}}, callbacks, "");
  link->flush();
  // It is asked behind that, so that the worker dies with it; a start takes many frames.
  EXPECT_GT(frames_until_answer("and a time to every purpose"), 10);
  EXPECT_EQ(code, "worker_died");
  EXPECT_NE(requests.death_notice().find("illegal memory access"), std::string::npos)
      << requests.death_notice();
  ASSERT_GT(frames_until_answer("to every thing there is a season"), 0);
  EXPECT_EQ(values(), before);
  ::unsetenv("PHASESCOPE_TEST_HANDLERS");
}

}  // namespace
}  // namespace phasescope::app
