// What is kept of finished jobs, and folders that are made of it on another day.
#include "training/jobs/kept_jobs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "formats/error.h"
#include "protocol/json_form.h"
#include "protocol/messages/eval.h"
#include "tests/temporary_folder.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"
#include "training/jobs/sweep_table.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const json kAsked = {{"train", {{"steps", 100}, {"seed", 2}}}};
const json kEvalAsked = {{"task", "copy"}, {"lengths", {20}}};

formats::FileSystem& disk() { return formats::real_file_system(); }

// A training that is done, with its eval.
void write_finished(const fs::path& dir) {
  fs::create_directories(dir / "eval");
  std::ofstream(dir / "config.json") << kAsked;
  protocol::JobStatus status{.name = dir.filename().string(), .kind = "train", .state = "done"};
  status.step = status.steps = 100, status.seconds = 12.5;
  status.message = "written to " + dir.string();
  status.blind_bits = 0.25 + 1.0 / 37;  // which is first passed at step 38
  for (std::int64_t step = 1; step <= 100; ++step) {
    protocol::MetricPoint point{.step = step, .loss = 1.0 / static_cast<double>(step)};
    if (step % 2 == 0) point.validation_bits = 0.25 + 1.0 / static_cast<double>(step);
    point.time = 1.5 * static_cast<double>(step);
    std::ofstream(dir / "metrics.jsonl", std::ios::app) << metrics_line(point);
  }
  write_status(disk(), dir, status);
  std::ofstream(dir / "eval/config.json") << json{{"eval_job", {{"folder", dir.string()}}}};
  protocol::EvalResult result{.task = "seq_copy", .metric = "perplexity"};
  result.counted = "samples";
  protocol::EvalRow row{.model = dir.string(), .metric = "perplexity", .length = 20, .value = 1.25};
  row.low = 1, row.high = 1.5, row.n = 100;
  result.rows = {row};
  std::ofstream(dir / "eval/result.json") << protocol::to_json_form(result);
  status.kind = "eval";
  write_status(disk(), dir / "eval", status);
}

class KeptJobsTest : public testing::Test {
 protected:
  KeptJobs keep(const fs::path& place, const json& asked = kAsked, const json& eval = kEvalAsked) {
    return keep_jobs(disk(), file_, {{place / "a", asked}, {place / "b", asked}}, eval);
  }
  TemporaryFolder folder_;
  const fs::path file_ = folder_.path() / "kept/copy.jsonl";
};

TEST_F(KeptJobsTest, CountInAnotherPlace) {
  const fs::path here = folder_.path() / "here", there = folder_.path() / "there";
  write_finished(here / "a");
  EXPECT_EQ(keep(here).kept, 1);
  const std::string text = disk().read(file_);
  EXPECT_EQ(text.find(folder_.path().string()), std::string::npos) << "a place of this machine";
  EXPECT_LT(text.size(), 3000u);  // so that a hundred of them can lie with the sources
  // Elsewhere, where there is nothing yet.
  const KeptJobs found = keep(there);
  EXPECT_EQ(found.restored, std::vector<std::string>{"a"});
  EXPECT_EQ(disk().read(file_), text);
  const auto table = [](const fs::path& place) {
    return sweep_table({{place / "a", "rope"}, {place / "b", "rope"}});
  };
  const protocol::SweepResult before = table(here), after = table(there);
  EXPECT_EQ(after.cells[0].state, "done");
  EXPECT_EQ(after.cells[0].evaluated, "done");
  EXPECT_EQ(after.cells[1].state, "new");
  EXPECT_EQ(after.cells[0].step, 100);
  EXPECT_EQ(after.cells[0].loss, before.cells[0].loss);
  EXPECT_EQ(after.cells[0].validation_bits, before.cells[0].validation_bits);
  // When it was learnt, though most points of the curve are left out.
  EXPECT_EQ(before.cells[0].below_blind_step, 38);
  EXPECT_EQ(after.cells[0].below_blind_step, 38);
  EXPECT_EQ(after.cells[0].below_blind_seconds, 57);
  EXPECT_LT(read_job(there / "a", CurveDetail::thinned).curve.size(), 15u);
  ASSERT_EQ(after.eval.rows.size(), 1u);
  EXPECT_EQ(protocol::to_json_form(after.eval.rows), protocol::to_json_form(before.eval.rows));
  EXPECT_EQ(read_job(there / "a", CurveDetail::none).seconds, 12.5);
  // A second look changes nothing.
  EXPECT_TRUE(keep(there).restored.empty());
  EXPECT_EQ(disk().read(file_), text);
}

TEST_F(KeptJobsTest, OfAnotherConfigurationOrEvalDoNotCount) {
  write_finished(folder_.path() / "here/a");
  keep(folder_.path() / "here");
  json other = kAsked;
  other["train"]["steps"] = 200;
  for (const auto& [asked, eval] : {std::pair(other, kEvalAsked), {kAsked, json()}}) {
    const KeptJobs found = keep(folder_.path() / "there", asked, eval);
    EXPECT_TRUE(found.restored.empty());
    EXPECT_EQ(found.others, std::vector<std::string>{"a"});
    EXPECT_FALSE(fs::exists(folder_.path() / "there/a"));
  }
}

// It would be read to an end that it does not have.
TEST_F(KeptJobsTest, ADeviceIsNoFileOfKeptJobs) {
  EXPECT_THROW(keep_jobs(disk(), "/dev/full", {}, nullptr), formats::Error);
}

TEST_F(KeptJobsTest, WhatIsNotDoneIsNotKept) {
  write_finished(folder_.path() / "here/a");
  protocol::JobStatus status{.kind = "eval", .state = "cancelled"};
  write_status(disk(), folder_.path() / "here/a/eval", status);
  EXPECT_EQ(keep(folder_.path() / "here").kept, 0);
  EXPECT_FALSE(fs::exists(file_));
  fs::create_directories(file_.parent_path());
  std::ofstream(file_) << "{\"name\": \"a\"}\n";
  EXPECT_THROW(keep(folder_.path() / "here"), formats::Error);
}

// A restored folder has what was asked for in as few words as the sweep: sizes of the model that it
// began with, usual values and whole paths are not in it, and are no other question.
TEST_F(KeptJobsTest, ARestoredJobIsNotTakenForAnotherOne) {
  const fs::path text = folder_.path() / "text.txt", dir = folder_.path() / "kept";
  std::ofstream(text) << std::string(5000, 'a');
  const json asked = {{"start", {{"model", "rope"}}},
                      {"data", {{"corpus", fs::relative(text)}}},
                      {"train", {{"steps", 2}}}};
  EXPECT_EQ(asked_otherwise(dir, asked), "");
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << asked;
  EXPECT_EQ(asked_otherwise(dir, asked), "");
  json other = asked;
  other["train"]["steps"] = 3, other["encoding"]["key"] = "tape";
  EXPECT_EQ(asked_otherwise(dir, other), "encoding.base, encoding.key, train.steps");
  fs::create_directories(dir / "eval");
  std::ofstream(dir / "eval/config.json") << json{{"eval_job", kEvalAsked}};
  EXPECT_EQ(eval_asked_otherwise(dir / "eval", kEvalAsked), "");
  EXPECT_EQ(eval_asked_otherwise(dir / "eval", {{"task", "copy"}, {"lengths", {20, 40}}}),
            "lengths");
  EXPECT_EQ(eval_asked_otherwise(dir, kEvalAsked), "kind");
}

}  // namespace
}  // namespace phasescope::training
