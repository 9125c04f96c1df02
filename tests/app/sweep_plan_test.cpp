// The file of a sweep, and the jobs it stands for.
#include "app/verbs/sweep_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "formats/error.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class SweepFile : public testing::Test {
 protected:
  SweepFile() {
    folder_ = fs::temp_directory_path() / ("sweep_plan_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "base.json") << R"({"train": {"steps": 9, "seed": 7}})";
  }
  ~SweepFile() override { fs::remove_all(folder_); }

  SweepPlan plan_of(const json& sweep) const {
    std::ofstream(folder_ / "sweep.json") << sweep;
    return sweep_plan(folder_ / "sweep.json");
  }

  fs::path folder_;
};

TEST_F(SweepFile, LaysItsGridOverSeveralRuns) {
  const json runs = {{{"name", "short"}, {"base", "base.json"}, {"set", {{"train.steps", 3}}}},
                     {{"name", "a task"}, {"base", {{"task", {{"name", "copy"}}}}}}};
  const SweepPlan plan = plan_of(
      {{"runs", runs}, {"set", {{"train.threads", 1}}}, {"grid", {{"train.seed", {4, 5}}}}});
  ASSERT_EQ(plan.jobs.size(), 4u);
  EXPECT_EQ(plan.jobs[0].name, "short_train.seed-4");
  EXPECT_EQ(plan.jobs[1].name, "a-task_train.seed-4");
  EXPECT_EQ(plan.jobs[1].group, "a task");
  EXPECT_EQ(plan.jobs[0].config.at("train"), (json{{"steps", 3}, {"seed", 4}, {"threads", 1}}));
  EXPECT_EQ(plan.jobs[1].config.at("task").at("name"), "copy");
  EXPECT_EQ(plan.jobs[0].seed, 0u);
  EXPECT_EQ(plan.jobs[3].seed, 1u);
  EXPECT_THROW(plan_of({{"runs", runs}, {"base", "base.json"}}), formats::Error);
  EXPECT_THROW(plan_of({{"runs", json::array()}}), formats::Error);
  EXPECT_THROW(plan_of({{"runs", {{{"base", "base.json"}}}}}), formats::Error);
}

// Two trainings with one seed are one training: counted as two they would make an interval of none.
TEST_F(SweepFile, WhatStandsTwiceIsRefused) {
  EXPECT_THROW(plan_of({{"base", "base.json"}, {"grid", {{"train.seed", {1, 2, 1}}}}}),
               formats::Error);
  EXPECT_THROW(plan_of({{"base", "base.json"},
                        {"grid", {{"encoding", {{{"key", "rope"}}, {{"key", "rope"}}}}}}}),
               formats::Error);
  const json run = {{"name", "one"}, {"base", "base.json"}};
  EXPECT_THROW(plan_of({{"runs", {run, run}}}), formats::Error);
  // A key of the file: neither is the one that was meant.
  std::ofstream(folder_ / "twice.json") << R"({"base": "base.json", "jobs": 1, "jobs": 2})";
  EXPECT_THROW(sweep_plan(folder_ / "twice.json"), formats::Error);
  std::ofstream(folder_ / "base.json") << R"({"train": {"steps": 9, "steps": 3}})";
  EXPECT_THROW(plan_of({{"base", "base.json"}}), formats::Error);
}

TEST_F(SweepFile, IsEveryCombinationOfItsGrid) {
  const SweepPlan plan = plan_of({{"base", "base.json"},
                                  {"set", {{"train.steps", 20}}},
                                  {"grid",
                                   {{"encoding", {"rope", {{"key", "tapa"}, {"phase_gain", 0.1}}}},
                                    {"train.seed", {1, 2, 3}}}},
                                  {"jobs", 2},
                                  {"eval", {{"task", "copy"}}}});
  ASSERT_EQ(plan.jobs.size(), 6u);
  EXPECT_EQ(plan.at_once, 2);
  EXPECT_EQ(plan.eval.at("task"), "copy");
  std::set<std::string> names, groups;
  for (const SweepJob& job : plan.jobs) {
    names.insert(job.name), groups.insert(job.group);
    EXPECT_EQ(job.config.at("train").at("steps"), 20);
    EXPECT_EQ(job.name.find('/'), std::string::npos);
  }
  EXPECT_EQ(names.size(), 6u);
  EXPECT_EQ(groups, (std::set<std::string>{"rope", "tapa phase_gain 0.1"}));
  EXPECT_EQ(plan.jobs[0].config.at("encoding"), (json{{"key", "rope"}}));
  std::vector<std::int64_t> seeds;
  for (const SweepJob& job : plan.jobs) seeds.push_back(job.config.at("train").at("seed"));
  EXPECT_EQ(seeds, (std::vector<std::int64_t>{1, 1, 2, 2, 3, 3}));
  EXPECT_NE(plan.jobs[0].group, plan.jobs[1].group);
}

// Values whose letters are no names may look alike in one: each of their jobs has its own all the
// same.
TEST_F(SweepFile, JobsThatAreCalledAlikeHaveFoldersOfTheirOwn) {
  const SweepPlan plan =
      plan_of({{"base", "base.json"}, {"grid", {{"data.corpus", {"a b", "a-b", "a:b", "a+b"}}}}});
  std::vector<std::string> names;
  for (const SweepJob& job : plan.jobs) names.push_back(job.name);
  const std::string name = "data.corpus-a-b";
  EXPECT_EQ(names, (std::vector<std::string>{name, name + "_2", name + "_3", name + "_4"}));
}

TEST_F(SweepFile, WithoutAGridIsOneJob) {
  const SweepPlan plan = plan_of({{"base", {{"train", {{"steps", 3}}}}}});
  ASSERT_EQ(plan.jobs.size(), 1u);
  EXPECT_EQ(plan.jobs[0].config.at("train").at("steps"), 3);
  EXPECT_TRUE(plan.eval.is_null());
}

TEST_F(SweepFile, SaysWhatItCannotRead) {
  const auto refused = [&](const json& sweep, const std::string& words) {
    try {
      plan_of(sweep);
      ADD_FAILURE() << sweep;
    } catch (const formats::Error& error) {
      EXPECT_NE(error.full_text().find(words), std::string::npos) << error.full_text();
    }
  };
  refused({{"grid", json::object()}}, "base");
  refused({{"base", "base.json"}, {"gird", 1}}, "grid");
  refused({{"base", "base.json"}, {"grid", {{"encoding", "rope"}}}}, "list of values");
  refused({{"base", "base.json"}, {"grid", {{"steps", {1}}}}}, "train.steps");
  refused({{"base", "base.json"}, {"jobs", 0}}, "1 to 1024");
  refused({{"base", "base.json"}, {"eval", {{"lengths", {1}}}}}, "task");
  refused({{"base", "nowhere.json"}}, "nowhere.json");
  // Trained twice it would count as two seeds, of which there is one.
  refused({{"base", "base.json"}, {"grid", {{"encoding", {"rope", {{"key", "rope"}}}}}}},
          "two jobs of the sweep are the same: encoding-rope");
}

// The one that is shipped: nine trainings, each of which the run configuration's checks take.
TEST_F(SweepFile, TheShippedOneHasThreeEncodingsAndThreeSeeds) {
  const SweepPlan plan =
      sweep_plan(fs::path(PHASESCOPE_SOURCE) / "sample_configs/sweeps/copy.json");
  EXPECT_EQ(plan.jobs.size(), 9u);
}

}  // namespace
}  // namespace phasescope::app
