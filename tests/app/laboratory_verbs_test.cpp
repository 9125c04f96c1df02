// What train and sweep say of what a worker told them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "app/cli/cli.h"
#include "app/cli/output.h"
#include "app/verbs/verbs.h"
#include "formats/error.h"
#include "protocol/json_form.h"
#include "protocol/messages/bench.h"
#include "protocol/messages/duel.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/sweep.h"
#include "tests/app/fake_run.h"
#include "tests/temporary_folder.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(TrainVerb, AResumeSaysWhatTheJobDoesOtherwise) {
  FakeRun run;
  protocol::JobStatus job;
  job.dir = "/j", job.state = "done";
  run.replies["jobs.show"] = {protocol::to_json_form(job), {}};
  job.message = "its own configuration differs in: train.steps";
  run.replies["jobs.start"] = {protocol::to_json_form(job), {}};
  output_of(run, {"train", "--job", "/j", "--resume"}, all_verbs());
  EXPECT_EQ(run.said, (std::vector<std::string>{"job /j", job.message}));
}

// Two processes of one training, each of which would take itself for the only one.
TEST(TrainVerb, HalfOfALaunchersVariablesAreRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "c.json";
  std::ofstream(file) << R"({"train": {"steps": 5}})";
  for (const char* name : {"RANK", "WORLD_SIZE"}) {
    FakeRun run;
    ::setenv(name, "1", 1);
    EXPECT_THROW(output_of(run, {"train", file}, all_verbs()), formats::Error) << name;
    ::unsetenv(name);
    EXPECT_TRUE(run.requests.empty()) << name;
  }
}

TEST(TrainVerb, AKeyThatStandsTwiceIsRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "c.json";
  std::ofstream(file) << R"({"train": {"steps": 5, "steps": 500}})";
  FakeRun run;
  EXPECT_THROW(output_of(run, {"train", file}, all_verbs()), formats::Error);
  EXPECT_TRUE(run.requests.empty());
}

// Who follows a job ends with the status of its process: 5 where memory was lacking, and not 2.
TEST(TrainVerb, AFailedJobKeepsTheKindOfItsError) {
  const auto code_of = [](const char* state, std::optional<std::string> code) {
    FakeRun run;
    protocol::JobStatus job;
    job.dir = "/j", job.state = state, job.code = std::move(code);
    run.replies["jobs.start"] = run.replies["jobs.show"] = {protocol::to_json_form(job), {}};
    try {
      output_of(run, {"train", "--job", "/j", "--resume"}, all_verbs());
    } catch (const protocol::RequestError& error) {
      return error.info().code;
    }
    return std::string("none");
  };
  EXPECT_EQ(code_of("failed", "out_of_memory"), "out_of_memory");
  EXPECT_EQ(code_of("failed", "internal"), "internal");
  EXPECT_EQ(code_of("failed", std::nullopt), "bad_input");  // of a version that did not say
  EXPECT_EQ(code_of("died", std::nullopt), "worker_died");
}

TEST(TrainVerb, AConfigurationThatIsNoObjectIsNamed) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "c.json";
  std::ofstream(file) << "[1]";
  FakeRun run;
  try {
    output_of(run, {"train", file}, all_verbs());
    ADD_FAILURE();
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.where(), file);
    EXPECT_NE(error.message().find("must be a JSON object"), std::string::npos) << error.message();
  }
  EXPECT_TRUE(run.requests.empty());
}

// What guessing gets is worked out by length: of one that a task does not have it would be read
// past the end of two numbers (addition), or take minutes (s5).
TEST(DataVerb, ALengthThatATaskDoesNotHaveIsRefusedFirst) {
  for (const auto& [task, length] : {std::pair("addition", "3"),
                                     {"addition", "3,4,5"},
                                     {"s5", "100000000"},
                                     {"bucket_sort", "0"}}) {
    FakeRun run;
    try {
      output_of(run, {"data", task, "--length", length}, all_verbs());
      ADD_FAILURE() << task << " " << length;
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.where(), "--length") << task << " " << length;
    }
  }
}

// The forms of docs/results.md; there are 5! permutations to guess from.
TEST(DataVerb, SamplesAndTheCheckOfAFileHaveTheirFields) {
  FakeRun run;
  const auto made = output_of(run, {"data", "s5", "--trials", "2"}, all_verbs()).result;
  EXPECT_EQ(made["task"], "s5");
  EXPECT_DOUBLE_EQ(made["uniform"].get<double>(), 1.0 / 120);
  EXPECT_EQ(made["rows"].size(), 3u);  // the task, and an example each
  EXPECT_EQ(made["rows"].at(0)["kind"], "task");
  EXPECT_EQ(made.size(), 9u);
  const std::string file = PHASESCOPE_TEST_DATA "/tasks/even_pairs.jsonl";
  const auto check = output_of(run, {"data", "even_pairs", "--check", file}, all_verbs()).result;
  EXPECT_EQ(check["differences"], nlohmann::json::array());
  EXPECT_GT(check["examples"], 0);
  EXPECT_EQ(check.size(), 4u);
}

TEST(DataVerb, CountsOfOneAreSingular) {
  const TemporaryFolder folder;
  const std::string one = folder.path() / "one.jsonl";
  FakeRun run;
  const auto said_of_first = [&](bool right) {
    std::ifstream whole(PHASESCOPE_TEST_DATA "/tasks/even_pairs.jsonl");
    std::ofstream part(one);
    for (std::string line; std::getline(whole, line);) {
      auto row = json::parse(line);
      if (row["kind"] == "task") part << line << "\n";
      if (row["kind"] != "example") continue;
      if (!right) row["target"][0] = 1 - row["target"][0].get<int>();
      part << row.dump() << "\n";
      break;
    }
    part.close();
    return output_of(run, {"data", "even_pairs", "--check", one}, all_verbs());
  };
  EXPECT_EQ(said_of_first(true).text, "even_pairs: 1 example, 0 metrics, all equal\n");
  const Output wrong = said_of_first(false);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_TRUE(wrong.text.starts_with("even_pairs: 1 example, 0 metrics, of which 1 differs: "))
      << wrong.text;
}

// One difference has no shape, which the table says in words and JSON by leaving it out.
TEST(DuelVerb, OfOneDifferenceSaysThatItIsTooFew) {
  FakeRun run;
  protocol::DuelResult duel{.a = "rope", .b = "alibi", .n = 1, .texts = 1, .mean = 0.25};
  const auto said = [&] {
    run.replies[protocol::DuelRequest::method] = {protocol::to_json_form(duel), {}};
    return output_of(run, {"duel", "rope", "alibi"}, all_verbs());
  };
  const Output one = said();
  EXPECT_EQ(one.tables.at(0).rows.at(0).at("skewness"), "too few to tell");
  EXPECT_FALSE(one.result.contains("skewness"));
  duel.n = 2, duel.skewness = 0.5;
  EXPECT_EQ(said().tables.at(0).rows.at(0).at("skewness"), 0.5);
}

// A page's section: the numbers, the line that measured them, and nothing where a row has nothing.
TEST(BenchVerb, StepsAreASectionOfThePage) {
  const TemporaryFolder folder;
  const std::string config = folder.path() / "rope.json", page = folder.path() / "page.md";
  std::ofstream(config) << R"({"train": {"steps": 5}})";
  FakeRun run;
  protocol::StepBench bench{.processor = "Some CPU", .threads = 1, .runs = 1};
  protocol::StepBenchRow row{.name = "rope", .dtype = "f32", .length = 64, .windows = 2};
  row.forward_ms = 12.5, row.step_ms = 40.25, row.over_first = 1, row.peak_mb = 99;
  row.rival_ms = row.speedup_over_rival = std::nan("");
  bench.rows = {row};
  run.replies["bench.step"] = {protocol::to_json_form(bench), {}};
  run.replies["worker.info"] = {json{{"version", "1"}, {"torch", "2"}, {"threads", 1}}, {}};
  const auto written = [&] {
    const Output output =
        output_of(run, {"bench", "step", config, "--runs", "1", "--write", page}, all_verbs());
    EXPECT_EQ(output.files.size(), 1u);
    return output.files.empty() ? std::string() : output.files[0].text;
  };
  const std::string first = written();
  EXPECT_NE(first.find("\n## Steps of trainings, Some CPU, 1 thread\n"), std::string::npos)
      << first;
  EXPECT_NE(first.find("| rope | f32 | 64 | 2 | 12.5 | 40.25 |"), std::string::npos) << first;
  EXPECT_NE(first.find("1 thread, medians of 1 interleaved run; the rival"), std::string::npos);
  EXPECT_EQ(first.find("nan"), std::string::npos) << first;
  // Measured again it stands in its own place.
  std::ofstream(page) << first;
  EXPECT_EQ(written(), first);
}

// What is asked of a device, and its columns beside the others.
TEST(BenchVerb, StepsAreTimedOnADevice) {
  const TemporaryFolder folder;
  const std::string config = folder.path() / "rope.json";
  std::ofstream(config) << R"({"train": {"steps": 5}})";
  FakeRun run;
  protocol::StepBench bench{.processor = "Some CPU", .threads = 1, .runs = 1};
  protocol::StepBenchRow row{.name = "rope", .device = "cuda:0", .dtype = "bf16"};
  row.kernel = "cuda-unverified", row.to_device = 7, row.to_host = 2;
  row.step_ms = row.rival_ms = row.speedup_over_rival = std::nan("");
  bench.rows = {row};
  run.replies["bench.step"] = {protocol::to_json_form(bench), {}};
  run.replies["worker.info"] = {json{{"version", "1"}, {"torch", "2"}, {"threads", 1}}, {}};
  const Output output = output_of(run,
                                  {"bench", "step", config, "--device", "cuda", "--backend",
                                   "cuda-unverified", "--passes", "forward"},
                                  all_verbs());
  const json& asked = run.requests.at(0).params;
  EXPECT_EQ(asked["device"], "cuda");
  EXPECT_EQ(asked["backend"], "cuda-unverified");
  EXPECT_EQ(asked["forward_only"], true);
  const std::string page = markdown_of(output.tables.at(0));
  for (const char* heading : {"copies to the device", "copies to the host", "attention by"}) {
    EXPECT_NE(page.find(heading), std::string::npos) << page;
  }
  EXPECT_NE(page.find("| cuda:0 | cuda-unverified | 7 | 2 |"), std::string::npos) << page;
  EXPECT_THROW(output_of(run, {"bench", "step", config, "--passes", "backward"}, all_verbs()),
               formats::Error);
}

// A worker whose one job has come to `state` when it is asked again.
class OneJob : public FakeRun {
 public:
  explicit OneJob(std::string state) : state_(std::move(state)) {}
  protocol::Reply call(const std::string& method, json params) override {
    requests.push_back({method, params});
    protocol::SweepResult sweep;
    sweep.cells = {{.dir = "d", .group = "all", .state = started_ ? state_ : "new"}};
    started_ = started_ || method == "jobs.start";
    return {method == "jobs.start" ? json::object() : protocol::to_json_form(sweep), {}};
  }
  using Run::call;

 private:
  std::string state_;
  bool started_ = false;
};

TEST(SweepVerb, SaysByItsStatusThatSomethingIsNotDone) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "s.json";
  std::ofstream(file) << R"({"base": {"train": {"steps": 1}}, "grid": {"train.seed": [1]}})";
  const auto status = [&](OneJob run, std::vector<std::string> more) {
    std::vector<std::string> words = {"sweep", file, "--job", folder.path() / "jobs"};
    words.insert(words.end(), more.begin(), more.end());
    const int ended = output_of(run, words, all_verbs()).status;
    // The first thing that a worker is asked is whether folder and configurations fit.
    EXPECT_EQ(run.requests.front().method, "jobs.sweep");
    EXPECT_EQ(run.requests.front().params["cells"][0]["config"],
              (json{{"train", {{"steps", 1}, {"seed", 1}}}}));
    return ended;
  };
  EXPECT_EQ(status(OneJob("done"), {}), 0);
  EXPECT_EQ(status(OneJob("failed"), {}), 1);
  EXPECT_EQ(status(OneJob("died"), {}), 1);
  EXPECT_EQ(status(OneJob("died"), {"--table"}), 0);
}

}  // namespace
}  // namespace phasescope::app
