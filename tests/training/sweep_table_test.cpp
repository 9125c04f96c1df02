// What a sweep's folders say, half-finished too.
#include "training/jobs/sweep_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "protocol/json_form.h"
#include "tests/temporary_folder.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

void write_job(const fs::path& dir, const std::string& state, const std::string& kind = "train",
               int seed = 1) {
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << R"({"train": {"seed": )" << seed << "}}";
  protocol::JobStatus status;
  status.kind = kind, status.state = state;
  status.step = 10, status.steps = 20;
  write_status(formats::real_file_system(), dir, status);
}

void write_eval(const fs::path& dir, double value) {
  write_job(dir, "done", "eval");
  std::ofstream(dir / "config.json") << R"({"eval_job": {"task": "copy"}})";
  protocol::EvalResult result{.task = "seq_copy", .metric = "perplexity"};
  result.length_unit = "symbols", result.counted = "samples";
  protocol::EvalRow row{.model = "m", .metric = "perplexity", .length = 20, .value = value};
  row.low = value - 1, row.high = value + 1, row.n = 100;
  result.rows = {row};
  std::ofstream(dir / "result.json") << protocol::to_json_form(result);
}

// The first validation below what guessing gets; a training that never is has none.
TEST(SweepTable, SaysWhenALossFallsBelowTheBlindGuessers) {
  TemporaryFolder folder;
  protocol::JobStatus status{.kind = "train", .state = "running"};
  status.blind_bits = 1.0, status.blind_right = 0.5;
  for (const char* name : {"learns", "does_not"}) {
    const fs::path dir = folder.path() / name;
    write_job(dir, "running");
    write_status(formats::real_file_system(), dir, status);
    const double bits[] = {1.5, 0.75, 1.25, 0.5};
    for (int n = 0; n < 4; ++n) {
      protocol::MetricPoint point{.step = 10 * (n + 1), .time = 2.0 * (n + 1)};
      point.validation_bits = bits[n] + (name[0] == 'd' ? 1 : 0);
      std::ofstream(dir / "metrics.jsonl", std::ios::app) << metrics_line(point);
    }
  }
  const auto cells =
      sweep_table({{folder.path() / "learns", "a"}, {folder.path() / "does_not", "b"}}).cells;
  EXPECT_EQ(cells[0].blind_bits, 1.0);
  EXPECT_EQ(cells[0].below_blind_step, 20);
  EXPECT_EQ(cells[0].below_blind_seconds, 4.0);
  EXPECT_EQ(cells[0].seconds, 8.0);
  EXPECT_FALSE(cells[1].below_blind_step);
}

TEST(SweepTable, AveragesOverTheSeedsThatAreThere) {
  TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path() / name; };
  const double values[] = {1, 2, 6};
  for (int n = 0; n < 3; ++n) {
    const fs::path dir = folder.path() / ("rope" + std::to_string(n));
    write_job(dir, "done");
    write_eval(dir / "eval", values[n]);
  }
  write_job(at("alibi1"), "done");
  write_eval(at("alibi1") / "eval", 4);
  write_job(at("alibi2"), "cancelled");
  const protocol::SweepResult found = sweep_table({{at("rope0"), "rope"},
                                                   {at("rope1"), "rope"},
                                                   {at("rope2"), "rope"},
                                                   {at("alibi1"), "alibi"},
                                                   {at("alibi2"), "alibi"},
                                                   {at("alibi3"), "alibi"}});
  ASSERT_EQ(found.cells.size(), 6u);
  EXPECT_EQ(found.cells[0].evaluated, "done");
  EXPECT_EQ(found.cells[4].state, "cancelled");
  EXPECT_EQ(found.cells[4].evaluated, "");
  EXPECT_EQ(found.cells[5].state, "new");
  ASSERT_EQ(found.eval.rows.size(), 2u);
  EXPECT_EQ(found.eval.counted, "seeds");
  const protocol::EvalRow& rope = found.eval.rows[0];
  EXPECT_EQ(rope.model, "rope");
  EXPECT_EQ(rope.n, 3);
  EXPECT_DOUBLE_EQ(rope.value, 3);
  // Student t with 2 degrees: 4.3027 sd / sqrt(3), sd = sqrt(7).
  EXPECT_NEAR(*rope.high - rope.value, 4.30265 * std::sqrt(7.0 / 3), 1e-4);
  EXPECT_EQ(*rope.low, 1);  // which no perplexity is below
  // One seed says nothing of others.
  EXPECT_EQ(found.eval.rows[1].n, 1);
  EXPECT_FALSE(found.eval.rows[1].low.has_value());
}

// A training that is done is not all of a cell.
TEST(SweepTable, SaysWhyAnEvalFailed) {
  TemporaryFolder folder;
  write_job(folder.path() / "a", "done");
  const fs::path eval = folder.path() / "a/eval";
  write_job(eval, "failed", "eval");
  protocol::JobStatus status{.kind = "eval", .state = "failed"};
  status.message = "no text is long enough";
  write_status(formats::real_file_system(), eval, status);
  const auto cells = sweep_table({{folder.path() / "a", "rope"}}).cells;
  EXPECT_EQ(cells.at(0).evaluated, "failed");
  EXPECT_EQ(cells.at(0).message, "the eval failed: no text is long enough");
}

// Differences 2, 1 and 6 of seeds 1 to 3, in whatever order the jobs stand; seed 4 is of one group
// alone.
TEST(SweepTable, PairsGroupsBySeed) {
  TemporaryFolder folder;
  std::vector<SweepPlace> places;
  const auto add = [&](const char* group, int seed, double value) {
    const fs::path dir = folder.path() / (group + std::to_string(seed));
    write_job(dir, "done", "train", seed);
    write_eval(dir / "eval", value);
    places.push_back({dir, group});
  };
  add("rope", 1, 1), add("rope", 2, 2), add("rope", 3, 4), add("rope", 4, 100);
  add("tape", 3, 10), add("tape", 2, 3), add("tape", 1, 3);
  const protocol::SweepResult found = sweep_table(places);
  ASSERT_EQ(found.eval.differences.size(), 1u);
  const protocol::EvalDifference& one = found.eval.differences[0];
  EXPECT_EQ(one.model, "tape");
  EXPECT_EQ(one.against, "rope");
  EXPECT_EQ(one.metric, "perplexity");
  EXPECT_EQ(one.length, 20);
  EXPECT_EQ(one.difference.n, 3);
  EXPECT_EQ(one.difference.unit, "seeds");
  EXPECT_DOUBLE_EQ(one.difference.mean, 3);
  EXPECT_NEAR(*one.difference.high - 3, 4.30265 * std::sqrt(7.0 / 3), 1e-4);
}

// Of one seed each the interval is that of the samples.
TEST(SweepTable, OneSeedKeepsTheIntervalOfItsSamples) {
  TemporaryFolder folder;
  write_job(folder.path() / "a", "done");
  write_eval(folder.path() / "a/eval", 4);
  const protocol::SweepResult found = sweep_table({{folder.path() / "a", "rope"}});
  ASSERT_EQ(found.eval.rows.size(), 1u);
  EXPECT_EQ(found.eval.counted, "samples");
  EXPECT_EQ(found.eval.rows[0].n, 100);
  EXPECT_EQ(*found.eval.rows[0].low, 3);
}

}  // namespace
}  // namespace phasescope::training
