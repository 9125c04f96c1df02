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
      if (dead)
        one.callbacks.on_error({"worker_died", "", "", ""});
      else if (one.cancelled)
        one.callbacks.on_error({"cancelled", "", "", ""});
      else
        requests.push_back(std::move(one));
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
    return link_.submit(method, name, std::move(callbacks), tag);
  }
  // What is with the worker, in its order.
  std::string with_worker() const {
    std::string names;
    for (const Stage::Request& one : stage_->requests) names += one.params.get<std::string>();
    return names;
  }
  // What was answered, until nothing is left.
  std::string answered() {
    while (!stage_->requests.empty()) stage_->answer(), link_.drain();
    return told_;
  }

  Stage* stage_ = new Stage;
  UrgentLink link_{std::unique_ptr<WorkerLink>(stage_)};
  std::string told_;
};

TEST_F(UrgentLinkTest, KeepsTheOrderOfWhatIsNotUrgent) {
  for (const char* name : {"a", "b", "c", "d"}) ask("heads", name);
  EXPECT_EQ(with_worker(), "ab");
  EXPECT_EQ(answered(), "abcd");
}

TEST_F(UrgentLinkTest, AnswersTheMapBeforeAllElse) {
  for (const char* name : {"a", "b", "c"}) ask("heads", name);
  ask("map", "M");
  link_.drain();
  EXPECT_EQ(told_, "");  // nobody hears that a question was taken back
  EXPECT_EQ(answered(), "Mabc");
}

TEST_F(UrgentLinkTest, LetsBeWhatIsNotTheSameTwice) {
  ask("model.info", "i"), ask("jobs.start", "j"), ask("map", "M");
  EXPECT_EQ(answered(), "ijM");
}

TEST_F(UrgentLinkTest, TakesAnAnswerThatWasFirst) {
  ask("heads", "a"), ask("heads", "b");
  ask("map", "M");
  stage_->answer();  // before the worker saw that it was to stop
  link_.drain();
  EXPECT_EQ(answered(), "aMb");
}

TEST_F(UrgentLinkTest, StopsAQuestionSoOftenAndNoMore) {
  ask("heads", "a");
  for (int i = 0; i < UrgentLink::kMostStops; ++i) {
    ask("map", "M");
    link_.drain();
    EXPECT_EQ(with_worker(), "Ma");
    stage_->answer();
  }
  ask("map", "M");
  link_.drain();
  EXPECT_EQ(with_worker(), "aM");
}

TEST_F(UrgentLinkTest, CancelsWhatWaitsWhereverItIs) {
  const auto a = ask("heads", "a");
  ask("heads", "b");
  const auto c = ask("heads", "c");
  ask("heads", "d");
  link_.cancel(c);
  link_.drain();
  EXPECT_EQ(std::exchange(told_, ""), "c:cancelled");
  ask("map", "M");
  link_.cancel(a);  // taken back, and not heard of yet
  link_.drain();
  EXPECT_EQ(std::exchange(told_, ""), "a:cancelled");
  EXPECT_EQ(answered(), "Mbd");
}

TEST_F(UrgentLinkTest, ReplacesWhatWaitsUnderTheSameTag) {
  ask("heads", "a"), ask("heads", "b");
  ask("heads", "c", "tag"), ask("heads", "d", "tag");
  link_.drain();
  EXPECT_EQ(std::exchange(told_, ""), "c:cancelled");
  EXPECT_EQ(answered(), "abd");
}

TEST_F(UrgentLinkTest, ADeadWorkerEndsAll) {
  for (const char* name : {"a", "b", "c"}) ask("heads", name);
  stage_->dead = true;
  link_.drain(), link_.drain();
  EXPECT_EQ(told_, "a:worker_diedb:worker_diedc:worker_died");
}

}  // namespace
}  // namespace phasescope::app
