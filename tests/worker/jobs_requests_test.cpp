// The requests about jobs, sent to the program itself: a job is a process of that program.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "protocol/client.h"
#include "protocol/messages/jobs.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"

namespace phasescope::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobsResult;
using protocol::JobStatus;

class JobsRequests : public testing::Test {
 protected:
  JobsRequests() : client_(options()) {}
  ~JobsRequests() override {
    for (const fs::path& dir : started_) {
      if (!training::job_is_alive(dir)) continue;
      error_code("jobs.control", {{"dir", dir}, {"action", "cancel"}});
      within([&] { return !training::job_is_alive(dir); });
    }
  }

  json ask(const std::string& method, const json& params) {
    return client_.call(method, params).result;
  }
  JobStatus status(const std::string& method, const json& params) {
    return protocol::from_json_form<JobStatus>(ask(method, params));
  }
  std::vector<JobStatus> listed(const json& params = json::object()) {
    return protocol::from_json_form<JobsResult>(ask("jobs.list", params)).jobs;
  }
  std::string error_code(const std::string& method, const json& params) {
    try {
      client_.call(method, params);
    } catch (const protocol::RequestError& error) {
      EXPECT_FALSE(error.info().message.empty());
      return error.info().code;
    }
    return "";
  }

  JobStatus start(const fs::path& dir, std::int64_t steps, json more = json::object()) {
    started_.push_back(dir);
    more["dir"] = dir;
    more["config"] = to_json(training::small_run(folder_.path(), steps));
    return status("jobs.start", more);
  }
  bool reaches(const fs::path& dir, const std::string& state) {
    return within([&] { return status("jobs.show", {{"dir", dir}}).state == state; });
  }
  static bool within(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  std::string log(const fs::path& dir) { return ask("jobs.log", {{"dir", dir}})["log"]; }

  TemporaryFolder folder_;
  std::vector<fs::path> started_;

 private:
  // The worker finds its jobs below the test's folder.
  protocol::ClientOptions options() const {
    ::setenv("XDG_DATA_HOME", (folder_.path() / "data").c_str(), 1);
    protocol::ClientOptions result;
    result.command.argv = {PHASESCOPE_WORKER_PROGRAM};
    return result;
  }
  protocol::WorkerClient client_;
};

TEST_F(JobsRequests, ATrainingIsStartedListedShownAndRemoved) {
  const fs::path dir = folder_.path() / "elsewhere/j";
  EXPECT_TRUE(listed().empty());
  EXPECT_EQ(start(dir, 12, {{"set", {"train.seed=3"}}}).kind, "train");
  ASSERT_TRUE(reaches(dir, "done")) << log(dir);
  ASSERT_EQ(listed().size(), 1u);
  EXPECT_EQ(listed()[0].step, 12);
  EXPECT_TRUE(listed()[0].curve.empty());
  const JobStatus shown = status("jobs.show", {{"dir", dir}});
  EXPECT_EQ(shown.curve.size(), 12u);
  EXPECT_EQ(shown.config["train"]["seed"], 3);
  EXPECT_NE(log(dir).find("begins at step 0"), std::string::npos);
  EXPECT_EQ(listed({{"root", dir.parent_path()}}).size(), 1u);
  EXPECT_EQ(status("jobs.control", {{"dir", dir}, {"action", "remove"}}).state, "done");
  EXPECT_TRUE(listed().empty());
  EXPECT_FALSE(fs::exists(dir));
}

// The folder of a sweep is found again by names, which do not say how many steps were asked for.
TEST_F(JobsRequests, ASweepIsNotToldAnotherSweepsNumbers) {
  const fs::path dir = folder_.path() / "sweep/one";
  start(dir, 3);
  ASSERT_TRUE(reaches(dir, "done")) << log(dir);
  json config = to_json(training::small_run(folder_.path(), 3));
  const json eval = {
      {"task", "perplexity"}, {"lengths", {16}}, {"corpus", folder_.path() / "text.txt"}};
  const auto told = [&](const json& asked, const json& evaluated) -> std::string {
    const json cell = {{"dir", dir}, {"group", "one"}, {"config", asked}, {"eval", evaluated}};
    try {
      ask("jobs.sweep", {{"cells", {cell}}});
    } catch (const protocol::RequestError& error) {
      return error.info().message;
    }
    return "";
  };
  EXPECT_EQ(told(config, nullptr), "");
  // As a file has it that leaves usual values out.
  config["train"].erase("beta1");
  EXPECT_EQ(told(config, eval), "");
  json evaluated = eval;
  evaluated["models"] = {dir};
  ask("jobs.start", {{"kind", "eval"}, {"dir", dir / "eval"}, {"config", evaluated}});
  ASSERT_TRUE(reaches(dir / "eval", "done")) << log(dir / "eval");
  EXPECT_EQ(told(config, eval), "");
  json other = eval;
  other["lengths"] = {16, 32};
  EXPECT_NE(told(config, other).find("asked otherwise, in: lengths"), std::string::npos);
  config["train"]["steps"] = 4;
  EXPECT_NE(told(config, eval).find("asked otherwise, in: train.steps"), std::string::npos);
  // One that cannot be used is said at once, and not where its turn comes.
  config["train"]["stepz"] = 4;
  EXPECT_NE(told(config, nullptr).find("train.stepz"), std::string::npos);
}

// An eval that cannot be made is said before hours of training, and not behind them.
TEST_F(JobsRequests, ASweepsEvalIsLookedAtBeforeItsTrainings) {
  const auto told = [this](const json& eval) -> std::string {
    json cell = {{"dir", folder_.path() / "sweep/one"}, {"group", "one"}, {"eval", eval}};
    cell["config"] = to_json(training::small_run(folder_.path(), 3));
    try {
      ask("jobs.sweep", {{"cells", {cell}}});
    } catch (const protocol::RequestError& error) {
      return error.info().message + " (" + error.info().where + ")";
    }
    return "";
  };
  EXPECT_EQ(told({{"task", "perplexity"}, {"lengths", {16}}}), "");
  EXPECT_EQ(told({{"task", "passkey"}, {"lengths", {16, 32}}, {"trials", 5}}), "");
  // Models of bytes, whatever is learnt, have no symbols of the task.
  EXPECT_EQ(told({{"task", "copy"}, {"lengths", {16, 32}}, {"trials", 5}}),
            "seq_copy cannot be asked of one: its vocabulary is another (task)");
  EXPECT_NE(told({{"task", "perplexity"}, {"lengthz", {16}}}).find("lengthz"), std::string::npos);
  EXPECT_NE(told({{"task", "kopy"}, {"lengths", {16}}}).find("no such task"), std::string::npos);
  EXPECT_NE(told({{"task", "addition"}, {"lengths", {6, 5000}}}).find("a length of addition"),
            std::string::npos);
}

TEST_F(JobsRequests, ARunningOneIsPausedResumedAndCancelled) {
  const fs::path dir = folder_.path() / "j";
  start(dir, 100'000);
  for (const auto& [action, state] : {std::pair{"pause", "paused"},
                                      {"resume", "running"},
                                      {"cancel", "cancelled"},
                                      {"resume", "running"}}) {
    ask("jobs.control", {{"dir", dir}, {"action", action}});
    EXPECT_TRUE(reaches(dir, state)) << action << ": " << log(dir);
  }
  EXPECT_EQ(error_code("jobs.control", {{"dir", dir}, {"action", "remove"}}), "bad_usage");
  EXPECT_EQ(error_code("jobs.start", {{"dir", dir}, {"config", json::object()}}), "bad_usage");
}

TEST_F(JobsRequests, AnEvalRunsAsAJob) {
  const fs::path trained = folder_.path() / "trained", dir = folder_.path() / "eval";
  start(trained, 3);
  ASSERT_TRUE(reaches(trained, "done")) << log(trained);
  const json config = {{"task", "perplexity"},
                       {"models", {trained}},
                       {"lengths", {16}},
                       {"corpus", folder_.path() / "text.txt"}};
  ask("jobs.start", {{"kind", "eval"}, {"dir", dir}, {"config", config}});
  ASSERT_TRUE(reaches(dir, "done")) << log(dir);
  EXPECT_TRUE(fs::exists(dir / "result.json"));
  EXPECT_EQ(status("jobs.show", {{"dir", dir}}).kind, "eval");
}

TEST_F(JobsRequests, GoByTheirName) {  // 17.A10
  const json config = to_json(training::small_run(folder_.path(), 3));
  const fs::path dir = status("jobs.start", {{"config", config}, {"name", "mine"}}).dir;
  started_.push_back(dir);
  ASSERT_TRUE(reaches(dir, "done")) << log(dir);
  EXPECT_EQ(status("jobs.show", {{"dir", "mine"}}).dir, dir);
  const JobStatus removed = status("jobs.control", {{"dir", "mine"}, {"action", "remove"}});
  EXPECT_EQ(removed.message.find("removed 1 checkpoint, metrics.jsonl"), 0u) << removed.message;
  EXPECT_FALSE(fs::exists(dir));
}

TEST_F(JobsRequests, WhatIsWrongIsSaid) {
  const fs::path nothing = folder_.path() / "nothing";
  EXPECT_EQ(error_code("jobs.show", json::object()), "bad_usage");
  EXPECT_EQ(error_code("jobs.show", {{"dir", nothing}}), "bad_input");
  EXPECT_EQ(error_code("jobs.log", {{"dir", nothing}}), "bad_input");
  EXPECT_EQ(error_code("jobs.list", {{"root", nothing}}), "bad_input");
  EXPECT_EQ(error_code("jobs.control", {{"dir", nothing}, {"action", "stop"}}), "bad_usage");
  EXPECT_EQ(error_code("jobs.control", {{"dir", nothing}, {"action", "cancel"}}), "bad_input");
  EXPECT_EQ(error_code("jobs.control", {{"dir", nothing}, {"action", "remove"}}), "bad_input");
  EXPECT_EQ(error_code("jobs.start", {{"kind", "dance"}}), "bad_usage");
  const json eval = {{"task", "perplexity"}, {"models", {"rope"}}};
  for (const auto& [key, value] :
       {std::pair<const char*, json>{"lengthz", {16}}, {"dtype", "f12"}, {"metric", "bits"}}) {
    json config = eval;
    config[key] = value;
    EXPECT_EQ(error_code("jobs.start", {{"kind", "eval"}, {"dir", nothing}, {"config", config}}),
              "bad_usage")
        << key;
  }
  json config = eval;
  config["device"] = "cuda:99";
  EXPECT_EQ(error_code("jobs.start", {{"kind", "eval"}, {"dir", nothing}, {"config", config}}),
            "device_unavailable");
  // A training's is asked for beside its configuration, an eval's stands among its parameters.
  const json run = to_json(training::small_run(folder_.path(), 1));
  EXPECT_EQ(error_code("jobs.start", {{"dir", nothing}, {"config", run}, {"device", "cuda:99"}}),
            "device_unavailable");
  EXPECT_EQ(
      error_code("jobs.start",
                 {{"kind", "eval"}, {"dir", nothing}, {"config", eval}, {"device", "cuda:99"}}),
      "bad_usage");
  EXPECT_EQ(error_code("jobs.start", {{"dir", nothing}, {"device", "cpu"}}), "bad_usage");
  EXPECT_EQ(error_code("jobs.start", {{"dir", nothing}}), "bad_usage");
  EXPECT_EQ(error_code("jobs.start", {{"dir", nothing}, {"config", {{"trian", 1}}}}), "bad_input");
  EXPECT_EQ(
      error_code("jobs.start", {{"kind", "eval"}, {"dir", nothing}, {"config", {{"task", "x"}}}}),
      "bad_usage");
  EXPECT_EQ(error_code("jobs.start", {{"dir", std::string(5000, 'x')}, {"config", json::object()}}),
            "bad_input");
  const fs::path file = folder_.path() / "text.txt";  // a folder is wanted
  training::small_run(folder_.path(), 1);
  EXPECT_EQ(error_code("jobs.start", {{"dir", file / "j"}, {"config", json::object()}}),
            "bad_input");
  EXPECT_FALSE(fs::exists(nothing));
}

TEST_F(JobsRequests, AFormDescribesAConfigurationAndSaysWhatWouldNotStart) {
  const auto form = [&](const json& config) {
    return protocol::from_json_form<protocol::ConfigForm>(ask("jobs.form", {{"config", config}}));
  };
  const auto field = [](const protocol::ConfigForm& form, const std::string& key) {
    for (const protocol::ConfigField& one : form.fields_of) {
      if (one.key == key) return one;
    }
    return protocol::ConfigField{};
  };
  const auto tapa = form({{"encoding", {{"key", "tapa"}, {"phase_gain", 0.1}}},
                          {"train", {{"steps", 10}, {"batch_tokens", 512}}}});
  EXPECT_EQ(tapa.problem, "");
  EXPECT_EQ(tapa.tokens, 5120);
  EXPECT_GT(tapa.parameters, 256 * 192);
  EXPECT_EQ(field(tapa, "encoding.phase_gain").value, 0.1);
  EXPECT_FALSE(field(tapa, "encoding.phase_gain").help.empty());
  EXPECT_EQ(field(tapa, "train.steps").value, 10);
  EXPECT_GT(field(tapa, "encoding.key").choices.size(), 10u);
  EXPECT_EQ(field(form(nullptr), "encoding.base").fallback, 10000.0);
  EXPECT_NE(form({{"train", {{"steps", 0}}}}).problem.find("train.steps"), std::string::npos);
  EXPECT_NE(form({{"encoding", {{"key", "rop"}}}}).problem.find("rop"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::worker
