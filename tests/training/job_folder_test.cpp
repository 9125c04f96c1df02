#include "training/jobs/job_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <thread>

#include "formats/faulty_file_system.h"
#include "tests/temporary_folder.h"
#include "training/jobs/job_lock.h"
#include "training/jobs/job_reporter.h"
#include "training/jobs/metrics_log.h"
#include "training/jobs/out_of_memory.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using protocol::JobStatus;
using protocol::MetricPoint;

formats::FileSystem& real() { return formats::real_file_system(); }

MetricPoint point_at(std::int64_t step) {
  MetricPoint point;
  point.step = step;
  point.loss = 1.0 / static_cast<double>(step);
  return point;
}

// ---- metrics.jsonl -------------------------------------------------------------------------------

TEST(MetricsLog, WritesALineAStep) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "metrics.jsonl";
  {
    MetricsLog log(real(), path, 0);
    for (std::int64_t step = 1; step <= 3; ++step) log.append(point_at(step));
  }
  const auto points = read_metrics(path);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2].step, 3);
  EXPECT_EQ(points[2].loss, 1.0 / 3);  // every digit survives
}

TEST(MetricsLog, ATornLastLineIsPassedOver) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "metrics.jsonl";
  std::ofstream(path) << metrics_line(point_at(1)) << metrics_line(point_at(2)).substr(0, 9);
  EXPECT_EQ(read_metrics(path).size(), 1u);
  EXPECT_TRUE(read_metrics(folder.path() / "none.jsonl").empty());
}

TEST(MetricsLog, GoingOnFromACheckpointDropsTheLaterAndTornLines) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "metrics.jsonl";
  std::ofstream(path) << metrics_line(point_at(1)) << metrics_line(point_at(2))
                      << metrics_line(point_at(3)) << "{\"step\": 4, \"lo";
  {
    MetricsLog log(real(), path, 2);
    log.append(point_at(3));
  }
  const auto points = read_metrics(path);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(real().read(path),
            metrics_line(point_at(1)) + metrics_line(point_at(2)) + metrics_line(point_at(3)));
}

// Looked at again and again, a file is read on from where the last look ended, and says the same as
// one that is read whole.
TEST(FollowedMetrics, Risk14_ReadsOnFromWhereItEnded) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "metrics.jsonl";
  FollowedMetrics followed;
  FollowedEnds ends;
  EXPECT_TRUE(followed.read(path).empty());
  EXPECT_FALSE(ends.read(path).last);
  const auto same = [&] {
    const auto points = followed.read(path), whole = read_metrics(path);
    const MetricsEnd end = ends.read(path);
    ASSERT_EQ(points.size(), whole.size());
    ASSERT_EQ(end.count, static_cast<std::int64_t>(whole.size()));
    EXPECT_EQ(protocol::to_json_form(*end.last), protocol::to_json_form(whole.back()));
    for (std::size_t n = 0; n < whole.size(); ++n) {
      EXPECT_EQ(protocol::to_json_form(points[n]), protocol::to_json_form(whole[n]));
    }
  };
  std::uintmax_t line = 0;
  for (std::int64_t step = 1; step <= 4; ++step) {
    std::ofstream(path, std::ios::app) << metrics_line(point_at(step));
    line = metrics_line(point_at(step)).size();
    same();
    EXPECT_EQ(followed.bytes_read(), line);
  }
  same();
  EXPECT_EQ(followed.bytes_read(), 0u);
  // A torn line is taken again with its rest.
  const std::string next = metrics_line(point_at(5));
  std::ofstream(path, std::ios::app) << next.substr(0, 9);
  same();
  EXPECT_EQ(followed.read(path).size(), 4u);
  std::ofstream(path, std::ios::app) << next.substr(9);
  same();
  EXPECT_EQ(followed.read(path).size(), 5u);
  // A run that goes on from a checkpoint makes later steps again.
  std::ofstream(path, std::ios::app) << metrics_line(point_at(3));
  same();
  EXPECT_EQ(followed.read(path).back().step, 3);
  // Another file in its place, longer and shorter ones.
  formats::write_file_atomically(real(), path, metrics_line(point_at(7)) + std::string(900, '\n'));
  same();
  std::ofstream(path, std::ios::trunc) << metrics_line(point_at(8));
  same();
  EXPECT_EQ(followed.read(path).back().step, 8);
  fs::remove(path);
  EXPECT_TRUE(followed.read(path).empty());
}

// 19.6: a list of as many jobs as a sweep makes reads none of their metrics again.
TEST(FollowedMetrics, OfAHundredJobsNoneIsReadAgain) {
  TemporaryFolder folder;
  FollowedEnds ends;
  const auto path_of = [&](int job) { return folder.path() / (std::to_string(job) + ".jsonl"); };
  constexpr int kJobs = 100;
  for (int job = 0; job < kJobs; ++job) {
    std::ofstream(path_of(job)) << metrics_line(point_at(1)) << metrics_line(point_at(2 + job));
  }
  for (const bool again : {false, true}) {
    for (int job = 0; job < kJobs; ++job) {
      const MetricsEnd end = ends.read(path_of(job));
      EXPECT_EQ(end.count, 2);
      EXPECT_EQ(end.last->step, 2 + job);
      EXPECT_EQ(ends.bytes_read() == 0, again) << job;
    }
  }
}

// reliability.md, row 26: what a full disk refused is written when there is room.
TEST(MetricsLog, Row26ALineThatWasHalfWrittenSpoilsNoOther) {
  TemporaryFolder folder;
  formats::FaultyFileSystem files(folder.path());
  const fs::path path = folder.path() / "metrics.jsonl";
  MetricsLog log(files, path, 0);
  log.append(point_at(1));
  files.fail_at(1, ENOSPC);
  EXPECT_THROW(log.append(point_at(2)), formats::Error);
  log.append(point_at(3));
  log.append(point_at(4));
  std::vector<std::int64_t> steps;
  for (const MetricPoint& point : read_metrics(path)) steps.push_back(point.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4}));
}

// A resumed run on a disk without room for the shortened log: the old lines of later steps stay,
// and those that the run makes again overrule them.
TEST(MetricsLog, ALogThatCannotBeShortenedGoesOnAllTheSame) {  // 17.A6
  TemporaryFolder folder;
  const fs::path path = folder.path() / "metrics.jsonl";
  std::ofstream(path) << metrics_line(point_at(1)) << metrics_line(point_at(2))
                      << metrics_line({.step = 3, .loss = 9}) << "{\"step\": 4, \"lo";
  formats::FaultyFileSystem files(folder.path());
  files.fail_at(1, ENOSPC);
  MetricsLog log(files, path, 2);
  for (std::int64_t step = 3; step <= 5; ++step) log.append(point_at(step));
  std::vector<double> losses;
  for (const MetricPoint& point : read_metrics(path)) losses.push_back(point.loss);
  EXPECT_EQ(losses, (std::vector<double>{1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5}));
}

TEST(MetricsLog, ThinningKeepsEndsAndValidation) {
  std::vector<MetricPoint> points;
  for (std::int64_t step = 1; step <= 5000; ++step) points.push_back(point_at(step));
  points[777].validation_bits = 2.5;
  const auto few = thinned(points, 1000);
  EXPECT_LE(few.size(), 1000u);
  EXPECT_GT(few.size(), 500u);
  EXPECT_EQ(few.front().step, 1);
  EXPECT_EQ(few.back().step, 5000);
  EXPECT_EQ(std::count_if(few.begin(), few.end(),
                          [](const MetricPoint& p) { return p.validation_bits.has_value(); }),
            1);
  EXPECT_EQ(thinned(few, 5000).size(), few.size());
}

// When a loss fell below a guesser's is asked of them: others make room.
TEST(MetricsLog, ThinningKeepsEveryValidationThatFits) {
  std::vector<MetricPoint> points;
  for (std::int64_t step = 1; step <= 3000; ++step) points.push_back(point_at(step));
  for (std::size_t i = 99; i < points.size(); i += 100) points[i].validation_bits = 2.5;
  const auto few = thinned(points, 1000);
  EXPECT_LE(few.size(), 1000u);
  EXPECT_EQ(std::count_if(few.begin(), few.end(),
                          [](const MetricPoint& p) { return p.validation_bits.has_value(); }),
            30);
}

// ---- The folder ----------------------------------------------------------------------------------

JobStatus status_of(const std::string& state) {
  JobStatus status;
  status.kind = "train";
  status.state = state;
  status.steps = 10;
  return status;
}

fs::path made_job(const fs::path& dir, const std::string& state) {
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << "{}";
  write_status(real(), dir, status_of(state));
  return dir;
}

TEST(JobFolder, IsAliveWhileItsLockIsHeld) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  EXPECT_FALSE(job_is_alive(dir));
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "died");
  {
    const auto lock = JobLock::try_take(dir);
    ASSERT_TRUE(lock);
    EXPECT_TRUE(job_is_alive(dir));
    EXPECT_EQ(read_job(dir, CurveDetail::none).state, "running");
    EXPECT_FALSE(JobLock::try_take(dir));
  }
  EXPECT_FALSE(job_is_alive(dir));
  EXPECT_TRUE(JobLock::try_take(dir));
}

// An array of Slurm's has hundreds of cells, each with folders to make.
TEST(JobFolder, ALockWaitsForNobodyWhereNobodyWas) {
  constexpr int kFolders = 30;
  TemporaryFolder folder;
  const auto begun = std::chrono::steady_clock::now();
  for (int n = 0; n < kFolders; ++n) {
    const fs::path dir = folder.path() / std::to_string(n);
    fs::create_directory(dir);
    const auto lock = JobLock::try_take(dir);
    ASSERT_TRUE(lock);
    EXPECT_EQ(fs::hard_link_count(dir / "lock.json"), 1u);
    EXPECT_EQ(real().list(dir), std::vector<std::string>{"lock.json"});
    EXPECT_TRUE(holder_of(dir).starts_with(this_host().name + " (process "));
  }
  // Of a tenth of a second for each, as two machines need that write over one another, none is
  // left; a busy disk has it for its own work.
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kFolders * std::chrono::milliseconds(100));
}

// A folder on a network disk that two machines see: there the lock on the folder holds nothing.
TEST(JobFolder, Row31IsHeldByOneOfTwoMachines_Risk11) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  const Host here{"here", "boot 1"}, there{"there", "boot 2"};
  auto lock = JobLock::try_take(dir, there);
  ASSERT_TRUE(lock);
  // What the other machine left in the folder, without its lock: a copy of the claim outlives it.
  const std::string claim = real().read(dir / "lock.json");
  lock.reset();
  EXPECT_FALSE(fs::exists(dir / "lock.json"));
  std::ofstream(dir / "lock.json") << claim;
  EXPECT_TRUE(job_is_alive(dir, here));
  EXPECT_FALSE(job_is_alive(dir, there));  // on that machine it is the claim of a killed process
  EXPECT_TRUE(std::regex_match(
      folder_in_use(dir).full_text(),
      std::regex(R"(another process works in the folder: there \(process \d+\) since )"
                 R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(.*\))")))
      << folder_in_use(dir).full_text();
  EXPECT_FALSE(JobLock::try_take(dir, here));
  // A minute without a beat: the other machine is gone.
  fs::last_write_time(dir / "lock.json",
                      fs::file_time_type::clock::now() - std::chrono::seconds(61));
  EXPECT_FALSE(job_is_alive(dir, here));
  EXPECT_TRUE(JobLock::try_take(dir, here));
}

// A folder may be anybody's. What has no end is not read, and what is not there to be read is no
// claim.
TEST(JobFolder, ALockThatIsNoFileIsNoClaim) {
  TemporaryFolder folder;
  for (const char* target : {"/dev/zero", "/nowhere/at/all", "/"}) {
    const fs::path dir = made_job(folder.path() / std::to_string(target[1]), "running");
    fs::create_symlink(target, dir / "lock.json");
    EXPECT_FALSE(job_is_alive(dir)) << target;
    EXPECT_EQ(holder_of(dir), "") << target;
    EXPECT_EQ(read_job(dir, CurveDetail::none).state, "died") << target;
    const auto lock = JobLock::try_take(dir);
    EXPECT_TRUE(lock) << target;
    EXPECT_NE(holder_of(dir), "") << target;
  }
}

TEST(JobFolder, AJobThatIsLeavingIsWaitedFor) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "done");
  auto lock = JobLock::try_take(dir);
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    lock.reset();
  });
  EXPECT_NO_THROW(remove_job(real(), dir));
  leaving.join();
  EXPECT_FALSE(fs::exists(dir));
}

TEST(JobFolder, AnEndedJobIsNotDead) {
  TemporaryFolder folder;
  EXPECT_EQ(read_job(made_job(folder.path() / "a", "done"), CurveDetail::none).state, "done");
  EXPECT_EQ(read_job(made_job(folder.path() / "b", "queued"), CurveDetail::none).state, "queued");
  EXPECT_THROW(read_job(folder.path(), CurveDetail::none), formats::Error);
}

// The program is read from a busy disk, or a network's: neither a sweep nor a duel gives it up.
TEST(JobFolder, Row37AJobThatTakesAMinuteToBeginHasNotDied) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "queued");
  const auto begun = [&](std::chrono::seconds ago) {
    fs::last_write_time(dir / "status.json", fs::file_time_type::clock::now() - ago);
    return read_job(dir, CurveDetail::none).state;
  };
  EXPECT_EQ(begun(std::chrono::seconds(90)), "queued");
  EXPECT_EQ(begun(std::chrono::seconds(150)), "died");
}

// A disk that was full from the start took no other state of it.
TEST(JobFolder, Row26AJobWhoseProcessCameAndWentIsQueuedNoMore) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "queued");
  {
    const auto lock = JobLock::try_take(dir);
    ASSERT_TRUE(lock);
    mark_begun(dir);
    EXPECT_EQ(read_job(dir, CurveDetail::none).state, "queued");
  }
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "died");
}

TEST(JobFolder, ADamagedStatusHidesNeitherItsJobNorOthers) {
  TemporaryFolder folder;
  setenv("XDG_DATA_HOME", (folder.path() / "data").c_str(), 1);
  const fs::path good = made_job(default_jobs_root() / "good", "done");
  const fs::path bad = made_job(default_jobs_root() / "bad", "done");
  std::ofstream(default_jobs_root() / "far.job") << std::string(10'000, 'x');  // no path is so long
  for (const char* text : {"", "[1", "{\"step\": \"three\"}", "7"}) {
    std::ofstream(bad / "status.json", std::ios::trunc) << text;
    const JobStatus status = read_job(bad, CurveDetail::none);
    EXPECT_EQ(status.state, "died") << text;
    EXPECT_EQ(status.kind, "train");
    EXPECT_EQ(status.message, "status.json cannot be read");
    EXPECT_EQ(find_jobs().size(), 2u);
  }
  remove_job(real(), bad);
  EXPECT_EQ(find_jobs(), std::vector<fs::path>{good});
}

// `jobs cancel NAME` takes what `jobs list` prints.
TEST(JobFolder, IsFoundByNameOrFolder) {  // 17.A10
  TemporaryFolder folder;
  setenv("XDG_DATA_HOME", (folder.path() / "data").c_str(), 1);
  const fs::path one = made_job(default_jobs_root() / "tapa", "done");
  const fs::path far = made_job(folder.path() / "elsewhere/rope", "done");
  remember_job(real(), far);
  EXPECT_EQ(job_named("tapa"), one);
  EXPECT_EQ(job_named("rope"), far);
  EXPECT_EQ(job_named(far.string()), far);
  const auto refused = [](const std::string& word) -> std::string {
    try {
      return job_named(word).string();
    } catch (const formats::Error& error) {
      return error.full_text();
    }
  };
  EXPECT_NE(refused("tappa").find("near: tapa"), std::string::npos) << refused("tappa");
  const fs::path same = made_job(folder.path() / "again/rope", "done");
  remember_job(real(), same);
  EXPECT_NE(refused("rope").find(same.string()), std::string::npos) << refused("rope");
}

TEST(JobFolder, SaysWhatIsRemoved) {  // 17.A10
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "done");
  std::ofstream(dir / "metrics.jsonl") << "";
  EXPECT_EQ(remove_job(real(), dir), "metrics.jsonl, config.json, status.json and the folder");
  made_job(dir, "done");
  std::ofstream(dir / "notes.txt") << "mine";
  EXPECT_EQ(remove_job(real(), dir), "config.json, status.json; what else the folder holds stays");
  EXPECT_TRUE(fs::exists(dir / "notes.txt"));
}

// Two seconds a step after a resume, whatever the steps before it took.
TEST(JobReporter, TimeLeftIsThatOfTheStepsOfThisRun) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  const auto lock = JobLock::try_take(dir);
  JobReporter reporter(real(), dir);
  reporter.set_steps(60);
  reporter.begin_after(50, 1000);
  MetricPoint point = point_at(51);
  point.time = 1002;
  reporter.point(point);
  reporter.set_state("running");
  EXPECT_DOUBLE_EQ(read_job(dir, CurveDetail::none).seconds_left, 2 * 9);
  reporter.set_state("cancelled");
  EXPECT_EQ(read_job(dir, CurveDetail::none).seconds_left, 0);
}

TEST(JobReporter, Risk20_AStateWithoutAMessageKeepsTheLastWarning) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  JobReporter reporter(real(), dir);
  reporter.warn("the checkpoint of step 5 was not saved");
  reporter.set_state("cancelled");
  EXPECT_EQ(read_job(dir, CurveDetail::none).message, "the checkpoint of step 5 was not saved");
}

TEST(JobFolder, Risk4_WhatKilledWritersLeftBehindGoes) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  for (const char* name :
       {"status.json.123-4.tmp", "metrics.jsonl.9-0.tmp", "metrics.csv.9-1.tmp", "mine.tmp"}) {
    std::ofstream(dir / name) << "half";
  }
  remove_job_litter(real(), dir);
  EXPECT_FALSE(fs::exists(dir / "status.json.123-4.tmp"));
  EXPECT_FALSE(fs::exists(dir / "metrics.jsonl.9-0.tmp"));
  EXPECT_FALSE(fs::exists(dir / "metrics.csv.9-1.tmp"));
  EXPECT_TRUE(fs::exists(dir / "mine.tmp"));
  EXPECT_TRUE(fs::exists(dir / "status.json"));
}

// A disk that was full took no state of it either: the log says the most.
TEST(JobFolder, OfAJobThatDiedWithoutAWordTheLogsEndIsTold) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  EXPECT_EQ(read_job(dir, CurveDetail::none).message, "");
  std::ofstream(dir / "log.txt") << "begins at step 0\nfailed: config.json cannot be written\n";
  const JobStatus status = read_job(dir, CurveDetail::none);
  EXPECT_EQ(status.state, "died");
  EXPECT_EQ(status.message, "its log ends with: failed: config.json cannot be written");
  const auto lock = JobLock::try_take(dir);
  EXPECT_EQ(read_job(dir, CurveDetail::none).message, "");
}

// Whole lines of a file that was cut off are kept, and what is gone is said.
TEST(JobReporter, LinesThatMetricsLackAreWarnedOf) {
  TemporaryFolder folder;
  const fs::path dir = made_job(folder.path() / "j", "running");
  for (const std::int64_t there : {5, 3}) {
    std::ofstream metrics(dir / "metrics.jsonl", std::ios::trunc);
    for (std::int64_t step = 1; step <= there; ++step) metrics << metrics_line(point_at(step));
    metrics << metrics_line(point_at(there + 1)).substr(0, 9);
    metrics.close();
    JobReporter reporter(real(), dir);
    reporter.begin_after(5, 10);
    reporter.set_state("cancelled");
    EXPECT_EQ(read_job(dir, CurveDetail::none).message,
              there == 5 ? "" : "metrics.jsonl lacks 2 of the 5 steps so far; the others are kept");
    EXPECT_EQ(read_metrics(dir / "metrics.jsonl").size(), static_cast<std::size_t>(there));
  }
}

TEST(JobFolder, RequestsComeAndGo) {
  TemporaryFolder folder;
  EXPECT_EQ(read_request(folder.path()), JobRequest::none);
  for (const char* name : {"pause", "resume", "cancel"}) {
    write_request(real(), folder.path(), job_request_of(name));
    EXPECT_EQ(read_request(folder.path()), job_request_of(name));
  }
  std::ofstream(folder.path() / "control.json") << "{\"request\": \"pau";
  EXPECT_EQ(read_request(folder.path()), JobRequest::none);
  clear_request(real(), folder.path());
  EXPECT_EQ(read_request(folder.path()), JobRequest::none);
  EXPECT_THROW(job_request_of("stop"), formats::Error);
}

TEST(JobFolder, TheLogsTailIsItsLastLines) {
  TemporaryFolder folder;
  EXPECT_EQ(log_tail(folder.path(), 5), "");
  std::ofstream(folder.path() / "log.txt") << "a\nb\nc\n";
  EXPECT_EQ(log_tail(folder.path(), 2), "b\nc\n");
  EXPECT_EQ(log_tail(folder.path(), 3), "a\nb\nc\n");
  EXPECT_EQ(log_tail(folder.path(), 30), "a\nb\nc\n");
}

TEST(JobFolder, JobsAreFoundBelowTheRootAndElsewhere) {
  TemporaryFolder folder;
  setenv("XDG_DATA_HOME", (folder.path() / "data").c_str(), 1);
  const fs::path inside = made_job(default_jobs_root() / "inside", "done");
  const fs::path outside = made_job(folder.path() / "elsewhere/outside", "done");
  remember_job(real(), inside);
  remember_job(real(), outside);
  EXPECT_EQ(find_jobs().size(), 2u);
  EXPECT_EQ(new_job_folder("inside").filename(), "inside-2");
  // The next one that starts has another, though no job stands in the second yet.
  EXPECT_EQ(new_job_folder("inside").filename(), "inside-3");

  std::ofstream(outside / "mine.txt") << "not a job's file";
  remove_job(real(), outside);
  EXPECT_EQ(find_jobs().size(), 1u);
  EXPECT_TRUE(fs::exists(outside / "mine.txt"));
  {
    const auto lock = JobLock::try_take(inside);
    write_status(real(), inside, status_of("running"));
    EXPECT_THROW(remove_job(real(), inside), formats::Error);
  }
  remove_job(real(), inside);
  EXPECT_FALSE(fs::exists(inside));
}

// A loop over seeds that starts all at once: each has a folder of its own.
TEST(JobFolder, Risk12_StartsAtTheSameTimeHaveFoldersOfTheirOwn) {
  TemporaryFolder folder;
  setenv("XDG_DATA_HOME", (folder.path() / "data").c_str(), 1);
  std::vector<fs::path> made(16);
  std::vector<std::thread> starts;
  for (fs::path& dir : made) starts.emplace_back([&dir] { dir = new_job_folder("rope"); });
  for (std::thread& start : starts) start.join();
  std::sort(made.begin(), made.end());
  EXPECT_EQ(std::adjacent_find(made.begin(), made.end()), made.end());
}

// ---- Memory ---------------------------------------------------------------------------------

// reliability.md, row 21: the sentence names bytes wanted, bytes free and something smaller.
TEST(OutOfMemory, Row21NamesWhatWasWantedAndWhatWouldFit) {
  const std::runtime_error torch(
      "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
      "41943040000 bytes. Error code 12 (Cannot allocate memory)");
  const formats::Error error = memory_or_internal_error(torch);
  EXPECT_EQ(error.code(), "out_of_memory");
  EXPECT_NE(error.message().find("40000 MB were wanted"), std::string::npos);
  EXPECT_NE(error.message().find("MB are free"), std::string::npos);
  EXPECT_NE(error.hint().find("train.batch_tokens"), std::string::npos);
  EXPECT_EQ(memory_or_internal_error(std::bad_alloc()).code(), "out_of_memory");
  // A GPU's: PyTorch's documentation of torch.cuda.OutOfMemoryError.
  const std::runtime_error cuda(
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.72 "
      "GiB\nx");
  EXPECT_EQ(memory_or_internal_error(cuda).code(), "out_of_memory");
  EXPECT_NE(memory_or_internal_error(cuda).message().find("Tried to allocate 2.00 GiB"),
            std::string::npos);
  EXPECT_EQ(memory_or_internal_error(cuda).message().find('\n'), std::string::npos);
  EXPECT_TRUE(says_out_of_memory(cuda));
  // oneDNN's, of a product of bfloat16 numbers for which there was no room.
  const std::runtime_error product("could not create a primitive");
  EXPECT_EQ(memory_or_internal_error(product).code(), "out_of_memory");
  EXPECT_NE(memory_or_internal_error(product).message().find("MB are free"), std::string::npos);
  EXPECT_FALSE(says_out_of_memory(std::runtime_error("else")));
  EXPECT_EQ(memory_or_internal_error(std::runtime_error("else")).code(), "internal");
}

}  // namespace
}  // namespace phasescope::training
