#include "training/jobs/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "formats/error.h"
#include "protocol/json_form.h"
#include "training/evals/sample_scores.h"
#include "training/jobs/job_folder.h"

namespace phasescope::training {
namespace {

using protocol::EvalResult;
using protocol::EvalRow;
using protocol::SweepCell;

constexpr const char* kEvalFolder = "eval";

SweepCell cell_of(const SweepPlace& place) {
  SweepCell cell{.dir = place.dir.string(), .group = place.group, .state = "new"};
  if (!is_job(place.dir)) return cell;
  const protocol::JobStatus job = read_job(place.dir, CurveDetail::thinned);
  cell.state = job.state, cell.message = job.message;
  cell.step = job.step, cell.steps = job.steps;
  if (job.last) cell.loss = job.last->loss;
  cell.seconds = job.last ? job.last->time : job.seconds;
  cell.blind_bits = job.blind_bits, cell.blind_right = job.blind_right;
  for (const protocol::MetricPoint& point : job.curve) {
    if (!point.validation_bits) continue;
    cell.validation_bits = point.validation_bits;
    cell.validation_right = point.validation_right;
    const bool below = cell.blind_bits && *point.validation_bits < *cell.blind_bits;
    if (!below || cell.below_blind_step) continue;
    cell.below_blind_step = point.step, cell.below_blind_seconds = point.time;
  }
  return cell;
}

std::int64_t seed_of(const std::filesystem::path& dir) {
  const auto config = read_job(dir, CurveDetail::none).config;
  const auto seed = config.value("/train/seed"_json_pointer, nlohmann::json());
  return seed.is_number_integer() ? seed.get<std::int64_t>() : 0;
}

// Rows of one group at one length, a seed each. `over_seeds`: n of the table counts seeds.
EvalRow row_of_seeds(const std::string& group, const std::vector<EvalRow>& seeds, bool over_seeds) {
  EvalRow row = seeds.front();
  row.model = group;
  if (!over_seeds) return row;
  std::vector<double> values, exact;
  row.tokens = 0;
  for (const EvalRow& seed : seeds) {
    values.push_back(seed.value);
    exact.push_back(seed.exact.value_or(0));
    row.tokens += seed.tokens;
  }
  const analysis::Interval interval =
      bounded(range_of(row.metric), analysis::mean_interval(values, analysis::Draws()));
  row.value = interval.mean, row.low = interval.low, row.high = interval.high;
  row.n = interval.n, row.method = interval.method;
  if (row.exact) row.exact = analysis::mean_interval(exact, analysis::Draws()).mean;
  return row;
}

// What a group has at a length, by the seed of its training.
using BySeed = std::map<std::int64_t, double>;
using GroupValues = std::map<std::pair<std::string, std::int64_t>, BySeed>;

// Other - first of the seeds that both have.
std::vector<double> paired(const BySeed& first, const BySeed& other) {
  std::vector<double> differences;
  for (const auto& [seed, value] : first) {
    const auto same = other.find(seed);
    if (same != other.end()) differences.push_back(same->second - value);
  }
  return differences;
}

// What the later one of every pair of groups has above the earlier, seed by seed: trainings of one
// seed read the same batches.
std::vector<protocol::EvalDifference> differences_by_seed(const std::vector<std::string>& groups,
                                                          const GroupValues& values,
                                                          const std::string& metric) {
  std::vector<protocol::EvalDifference> all;
  for (auto own = groups.begin(); own != groups.end(); ++own) {
    for (auto other = own + 1; other != groups.end(); ++other) {
      for (const auto& [at, seeds] : values) {
        const auto found = values.find({*other, at.second});
        if (at.first != *own || found == values.end()) continue;
        const std::vector<double> differences = paired(seeds, found->second);
        if (differences.empty()) continue;
        all.push_back({.model = *other, .against = *own, .metric = metric, .length = at.second});
        all.back().difference = analysis::counted_in(
            "seeds", bounded(range_of_difference(metric),
                             analysis::mean_interval(differences, analysis::Draws())));
      }
    }
  }
  return all;
}

}  // namespace

protocol::SweepResult sweep_table(const std::vector<SweepPlace>& places) {
  protocol::SweepResult result;
  std::vector<std::string> groups;  // in their order
  std::map<std::pair<std::string, std::int64_t>, std::vector<EvalRow>> rows;
  GroupValues values;
  std::size_t most_seeds = 0;
  for (const SweepPlace& place : places) {
    SweepCell cell = cell_of(place);
    if (std::ranges::find(groups, place.group) == groups.end()) groups.push_back(place.group);
    if (const auto dir = place.dir / kEvalFolder; is_job(dir)) {
      const protocol::JobStatus eval = read_job(dir, CurveDetail::thinned);
      cell.evaluated = eval.state;
      if (eval.state == "failed" && cell.message.empty()) {
        cell.message = "the eval failed: " + eval.message;
      }
      if (eval.result.is_object()) {
        auto own = protocol::from_json_form<EvalResult>(eval.result);
        for (EvalRow& row : own.rows) {
          values[{place.group, row.length}][seed_of(place.dir)] = row.value;
          auto& seeds = rows[{place.group, row.length}];
          seeds.push_back(std::move(row));
          most_seeds = std::max(most_seeds, seeds.size());
        }
        own.rows.clear(), own.cells.clear(), own.positions.clear(), own.differences.clear();
        own.provenance.clear();
        own.rows_of.reset(), own.columns_of.reset();
        result.eval = std::move(own);
      }
    }
    result.cells.push_back(std::move(cell));
  }
  for (const std::string& group : groups) {
    for (const auto& [key, seeds] : rows) {
      if (key.first != group) continue;
      result.eval.rows.push_back(row_of_seeds(group, seeds, most_seeds > 1));
    }
  }
  result.eval.differences = differences_by_seed(groups, values, result.eval.metric);
  if (most_seeds > 1) result.eval.counted = "seeds";
  return result;
}

}  // namespace phasescope::training
