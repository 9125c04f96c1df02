#include "training/jobs/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "formats/error.h"
#include "protocol/json_form.h"
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
  for (const protocol::MetricPoint& point : job.curve) {
    if (!point.validation_bits) continue;
    cell.validation_bits = point.validation_bits;
    cell.validation_right = point.validation_right;
  }
  return cell;
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
  const analysis::Interval interval = analysis::mean_interval(values, analysis::Draws());
  row.value = interval.mean, row.low = interval.low, row.high = interval.high;
  row.n = interval.n, row.method = interval.method;
  if (row.exact) row.exact = analysis::mean_interval(exact, analysis::Draws()).mean;
  return row;
}

}  // namespace

protocol::SweepResult sweep_table(const std::vector<SweepPlace>& places) {
  protocol::SweepResult result;
  std::vector<std::string> groups;  // in their order
  std::map<std::pair<std::string, int64_t>, std::vector<EvalRow>> rows;
  std::size_t most_seeds = 0;
  for (const SweepPlace& place : places) {
    SweepCell cell = cell_of(place);
    if (std::ranges::find(groups, place.group) == groups.end()) groups.push_back(place.group);
    if (const auto dir = place.dir / kEvalFolder; is_job(dir)) {
      const protocol::JobStatus eval = read_job(dir, CurveDetail::thinned);
      cell.evaluated = eval.state;
      if (eval.result.is_object()) {
        auto own = protocol::from_json_form<EvalResult>(eval.result);
        for (EvalRow& row : own.rows) {
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
  if (most_seeds > 1) result.eval.counted = "seeds";
  return result;
}

}  // namespace phasescope::training
