#include "app/outputs/paper_table.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "app/figures/eval_names.h"

namespace phasescope::app {

namespace {

using nlohmann::json;
using protocol::EvalRow;

bool lower_is_better(const std::string& metric) {
  return metric == kPerplexity || metric.starts_with("bits_per_");
}

json cell_of(const EvalRow& row) {
  json cell{{"value", row.value}, {"n", row.n}};
  cell["low"] = protocol::to_json_form(row.low), cell["high"] = protocol::to_json_form(row.high);
  return cell;
}

// The best row of a length; null where none has a value.
const EvalRow* best_at(const std::vector<EvalRow>& rows, std::int64_t length, bool lower) {
  const EvalRow* best = nullptr;
  for (const EvalRow& row : rows) {
    if (row.length != length || !std::isfinite(row.value)) continue;
    const bool better =
        best == nullptr || (lower ? row.value < best->value : row.value > best->value);
    if (better) best = &row;
  }
  return best;
}

bool of_one_pair(const protocol::EvalDifference& one, const EvalRow& a, const EvalRow& b) {
  return (one.model == a.model && one.against == b.model) ||
         (one.model == b.model && one.against == a.model);
}

// Whether the values of a length are of the same thing: a loss a token is of the tokens that a
// model reads, and models that do not read the same ones have no difference.
bool can_be_ranked(const protocol::EvalResult& result, std::int64_t length) {
  if (result.task != kPerplexity || result.rows.front().metric == "bits_per_byte") return true;
  const EvalRow* first = nullptr;
  for (const EvalRow& row : result.rows) {
    if (row.length != length) continue;
    if (first == nullptr) first = &row;
    const bool paired =
        row.model == first->model || std::ranges::any_of(result.differences, [&](const auto& one) {
          return one.length == length && of_one_pair(one, row, *first);
        });
    if (!paired) return false;
  }
  return true;
}

const char* mark_of_row(const EvalRow& row, const EvalRow* best) {
  if (best == nullptr) return "";
  if (row.value == best->value) return kBestMark;
  const bool held = best->low && best->high && row.value >= *best->low && row.value <= *best->high;
  return held ? kWithinMark : "";
}

json blind_row(const std::vector<EvalRow>& rows) {
  json line{{"model", "blind guesser"}};
  for (const EvalRow& row : rows) {
    if (row.blind) line[std::to_string(row.length)] = *row.blind;
  }
  return line;
}

}  // namespace

Table results_table(const protocol::EvalResult& result, const ModelNames& names) {
  Table table{.title = result.task + ": " + result.metric + " by length", .columns = {"model"}};
  std::set<std::int64_t> lengths;
  std::vector<std::string> models;
  for (const EvalRow& row : result.rows) {
    if (row.metric != result.rows.front().metric) return table;
    lengths.insert(row.length);
    if (std::ranges::find(models, row.model) == models.end()) models.push_back(row.model);
  }
  if (result.rows.empty()) return table;
  const bool lower = lower_is_better(result.rows.front().metric);
  const bool ranked = std::ranges::all_of(
      lengths, [&](std::int64_t length) { return can_be_ranked(result, length); });
  for (const std::string& model : models) {
    json line{{"model", names.short_name(model)}};
    for (const EvalRow& row : result.rows) {
      if (row.model != model) continue;
      json cell = cell_of(row);
      const EvalRow* best = ranked ? best_at(result.rows, row.length, lower) : nullptr;
      const std::string mark = mark_of_row(row, best);
      if (!mark.empty()) cell["mark"] = mark;
      line[std::to_string(row.length)] = std::move(cell);
    }
    table.rows.push_back(std::move(line));
  }
  for (const std::int64_t length : lengths) table.columns.push_back(std::to_string(length));
  if (json blind = blind_row(result.rows); blind.size() > 1) table.rows.push_back(std::move(blind));
  table.notes = {ranked ? std::string("best (*): the ") + (lower ? "lowest" : "highest") +
                              " of its length; + (underlined on pages): within the best's 95 % "
                              "interval, over n " +
                              result.counted.value_or("texts")
                        : "none is called the best: these models do not read the same tokens, and "
                          "a token of one is not a token of another",
                 "lengths in " + result.length_unit.value_or("tokens")};
  return table;
}

}  // namespace phasescope::app
