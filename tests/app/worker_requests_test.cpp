#include "app/window/worker_requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/text_view.h"
#include "app/window/host_link.h"
#include "tests/app/made_up_worker.h"

namespace phasescope::app {
namespace {

using Manner = MadeUpWorker::Manner;

class LabTest : public ::testing::Test {
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

TEST_F(LabTest, AnAnswerStaysUntilTheNextOneCame) {
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
TEST_F(LabTest, ALargeAnswerIsReadBesideTheWindow) {
  link_ = MadeUpWorker({.tokens = 4096, .read_later = true});
  auto& text = requests_.of(kText, "rope");
  const auto ask_for = [&](const std::string& words) {
    protocol::TextRequest request{.model = "rope"};
    request.reading.input.text = words;
    requests_.ask(text, request);
  };
  const auto draw_until_there = [&] {
    const auto begin = std::chrono::steady_clock::now();
    while (text.waiting() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
      requests_.begin_frame();
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
TEST_F(LabTest, AnswersWaitForAMapThatIsOnItsWay) {
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
  while (heads().waiting() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
    requests_.begin_frame();
  EXPECT_TRUE(heads().answers_now());
}

// A map of a long text takes minutes, in which all else goes on.
TEST_F(LabTest, AnswersDoNotWaitForAMapForLong) {
  link_ = MadeUpWorker({.read_later = true});
  link_.set_manner("map", Manner::hold);
  requests_.ask(requests_.of(kMap, "rope"), protocol::MapRequest{.model = "rope"});
  ask("a");
  const auto begin = std::chrono::steady_clock::now();
  while (heads().waiting() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
    requests_.begin_frame();
  EXPECT_TRUE(heads().answers_now());
  EXPECT_TRUE(requests_.of(kMap, "rope").waiting());
}

TEST_F(LabTest, TheSameQuestionIsSentOnce) {
  for (int i = 0; i < 3; ++i) ask("a"), requests_.begin_frame();
  EXPECT_EQ(link_.counts().at("heads"), 1);
}

TEST_F(LabTest, ALateAnswerToAnOldQuestionIsDropped) {
  link_.set_manner("heads", Manner::hold);
  ask("a");
  ask("b");
  link_.set_manner("heads", Manner::answer);
  requests_.begin_frame();
  ASSERT_TRUE(heads().answer());
  EXPECT_EQ(heads().answer()->asked.params["input"]["text"], "b");
}

TEST_F(LabTest, AFailureIsKeptAndSentAgainOnlyWhenAsked) {
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

// A slider of Intervene makes a model at each place: of all those no answers may be kept.
TEST_F(LabTest, AnswersOfModelsThatWereClosedLongAgoAreDropped) {
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
TEST_F(LabTest, WhatFailedForAModelIsAskedAgainWithIt) {
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

TEST_F(LabTest, ADeadWorkerIsReplacedAndItsQuestionsAreAskedAgain) {
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

TEST_F(LabTest, AQuestionThatTwoWorkersDiedOnIsNotSentToAThird) {
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

TEST_F(LabTest, AfterThreeDeathsNoWorkerIsStartedUnasked) {
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
TEST_F(LabTest, Risk16_WorkersThatNeverBeginAreGivenUpHoweverSlowlyTheyDie) {
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

TEST_F(LabTest, AQuestionSaysHowManyAreBeforeIt) {
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

TEST_F(LabTest, ATextGoesWithTheQuestionAndIsToldFromAnother) {
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

TEST_F(LabTest, CancelEndsTheQuestion) {
  link_.set_manner("", Manner::hold);
  ask("a");
  requests_.begin_frame();
  EXPECT_EQ(requests_.waiting(), 1);
  requests_.cancel(heads());
  requests_.begin_frame();
  EXPECT_EQ(requests_.waiting(), 0);
  EXPECT_EQ(heads().error().code, "cancelled");
}

}  // namespace
}  // namespace phasescope::app
