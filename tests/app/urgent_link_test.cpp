#include "app/window/urgent_link.h"

#include <gtest/gtest.h>

namespace phasescope::app {
namespace {

// A worker that does nothing by itself: the test says what ends.
class Stage : public WorkerLink {
 public:
  struct Request {
    protocol::RequestId id;
    std::string method;
    nlohmann::json params;
    protocol::Callbacks callbacks;
    bool cancelled = false;
  };
  void start() override {}
  void restart() override { dead = false; }
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string&) override {
    requests.push_back({++last, method, std::move(params), std::move(callbacks)});
    return last;
  }
  void cancel(protocol::RequestId id) override {
    for (Request& one : requests) one.cancelled = one.cancelled || one.id == id;
  }
  // What was cancelled ends; the rest too when the worker is dead.
  std::size_t drain() override {
    auto now = std::exchange(requests, {});
    for (Request& one : now) {
      if (dead) {
        one.callbacks.on_error({"worker_died", "", "", ""});
      } else if (one.cancelled) {
        one.callbacks.on_error({"cancelled", "", "", ""});
      } else {
        requests.push_back(std::move(one));
      }
    }
    return now.size();
  }
  // The first request ends with an answer.
  void answer() {
    Request first = std::move(requests.front());
    requests.erase(requests.begin());
    first.callbacks.on_result({first.params, {}});
  }
  protocol::WorkerState state() const override {
    return dead ? protocol::WorkerState::dead : protocol::WorkerState::ready;
  }
  std::optional<protocol::DeathNotice> death() const override { return std::nullopt; }
  std::string description() const override { return ""; }
  void set_wake(std::function<void()>) override {}

  std::vector<Request> requests;
  protocol::RequestId last = 0;
  bool dead = false;
};

class UrgentLinkTest : public ::testing::Test {
 protected:
  protocol::RequestId ask(const std::string& method, const std::string& name,
                          const std::string& tag = "") {
    protocol::Callbacks callbacks;
    callbacks.on_result = [this](protocol::Reply reply) {
      told_ += reply.result.get<std::string>();
    };
    callbacks.on_error = [this, name](const protocol::ErrorInfo& error) {
      told_ += name + ":" + error.code;
    };
    const auto id = link_.submit(method, name, std::move(callbacks), tag);
    if (every_ask_is_a_frame_) link_.flush();
    return id;
  }
  // What is done between two frames.
  void turn() { link_.drain(), link_.flush(); }
  // What is with the worker, in its order.
  std::string with_worker() const {
    std::string names;
    for (const Stage::Request& one : stage_->requests) names += one.params.get<std::string>();
    return names;
  }
  // What was answered, until nothing is left.
  std::string answered() {
    while (!stage_->requests.empty()) stage_->answer(), turn();
    return told_;
  }

  Stage* stage_ = new Stage;
  UrgentLink link_{std::unique_ptr<WorkerLink>(stage_)};
  std::string told_;
  bool every_ask_is_a_frame_ = true;
};

TEST_F(UrgentLinkTest, KeepsTheOrderOfWhatIsNotUrgent) {
  for (const char* name : {"a", "b", "c", "d"}) ask("heads", name);
  EXPECT_EQ(with_worker(), "ab");
  EXPECT_EQ(answered(), "abcd");
}

TEST_F(UrgentLinkTest, AnswersTheMapBeforeAllElse) {
  for (const char* name : {"a", "b", "c"}) ask("heads", name);
  ask("map", "M");
  turn();
  EXPECT_EQ(told_, "");  // nobody hears that a question was taken back
  EXPECT_EQ(answered(), "Mabc");
}

TEST_F(UrgentLinkTest, LetsBeWhatIsNotTheSameTwice) {
  ask("model.info", "i"), ask("map", "M");
  EXPECT_EQ(answered(), "iM");
}

// Models that are still to be opened: the one that is under way cannot be stopped.
TEST_F(UrgentLinkTest, WaitsForOneThingAtMostThatCannotBeStopped) {
  ask("model.info", "i"), ask("model.info", "j"), ask("map", "M");
  EXPECT_EQ(with_worker(), "iM");
  EXPECT_EQ(answered(), "iMj");
}

TEST_F(UrgentLinkTest, SendsWhatCannotBeStoppedToAnIdleWorkerAlone) {
  ask("heads", "a"), ask("model.info", "i"), ask("heads", "b");
  EXPECT_EQ(with_worker(), "a");
  stage_->answer(), turn();
  EXPECT_EQ(with_worker(), "ib");
  EXPECT_EQ(answered(), "aib");
}

TEST_F(UrgentLinkTest, OfWhatOneFrameAsksSendsTheUrgentFirst) {
  every_ask_is_a_frame_ = false;
  ask("model.info", "i"), ask("heads", "a"), ask("map", "M");
  EXPECT_EQ(with_worker(), "M");
  link_.flush();
  EXPECT_EQ(answered(), "Mia");
}

TEST_F(UrgentLinkTest, TakesAnAnswerThatWasFirst) {
  ask("heads", "a"), ask("heads", "b");
  ask("map", "M");
  stage_->answer();  // before the worker saw that it was to stop
  turn();
  EXPECT_EQ(answered(), "aMb");
}

TEST_F(UrgentLinkTest, StopsAQuestionSoOftenAndNoMore) {
  ask("heads", "a");
  for (int i = 0; i < UrgentLink::kMostStops; ++i) {
    ask("map", "M");
    turn();
    EXPECT_EQ(with_worker(), "Ma");
    stage_->answer();
  }
  ask("map", "M");
  turn();
  EXPECT_EQ(with_worker(), "aM");
}

// A model that is opened beside seven others is not the last to be measured.
TEST_F(UrgentLinkTest, AnEvaluationIsTheLastOfWhatWaits) {
  for (const char* name : {"a", "b", "c"}) ask("eval", name);
  ask("distance", "d"), ask("shift", "s");
  EXPECT_EQ(with_worker(), "ab");
  EXPECT_EQ(answered(), "abdsc");
}

TEST_F(UrgentLinkTest, CancelsWhatWaitsWhereverItIs) {
  const auto a = ask("heads", "a");
  ask("heads", "b");
  const auto c = ask("heads", "c");
  ask("heads", "d");
  link_.cancel(c);
  turn();
  EXPECT_EQ(std::exchange(told_, ""), "c:cancelled");
  ask("map", "M");
  link_.cancel(a);  // taken back, and not heard of yet
  turn();
  EXPECT_EQ(std::exchange(told_, ""), "a:cancelled");
  EXPECT_EQ(answered(), "Mbd");
}

TEST_F(UrgentLinkTest, ReplacesWhatWaitsUnderTheSameTag) {
  ask("heads", "a"), ask("heads", "b");
  ask("heads", "c", "tag"), ask("heads", "d", "tag");
  turn();
  EXPECT_EQ(std::exchange(told_, ""), "c:cancelled");
  EXPECT_EQ(answered(), "abd");
}

TEST_F(UrgentLinkTest, ADeadWorkerEndsAll) {
  for (const char* name : {"a", "b", "c"}) ask("heads", name);
  stage_->dead = true;
  link_.drain(), turn();
  EXPECT_EQ(told_, "a:worker_diedb:worker_diedc:worker_died");
}

}  // namespace
}  // namespace phasescope::app
