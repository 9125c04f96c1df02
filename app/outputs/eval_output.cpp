#include "app/outputs/eval_output.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/outputs/paper_table.h"
#include "app/outputs/result_tables.h"
#include "protocol/headings.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

bool of_several_models(const protocol::EvalResult& result) {
  return std::ranges::any_of(result.rows, [&](const protocol::EvalRow& row) {
    return row.model != result.rows.front().model;
  });
}

// What made the intervals of the rows that are shown, each kind once.
std::string words_of_intervals(const std::vector<const protocol::EvalDifference*>& shown) {
  std::vector<std::string> kinds;
  for (const protocol::EvalDifference* row : shown) {
    const std::string words = words_of(row->difference);
    if (std::ranges::find(kinds, words) == kinds.end()) kinds.push_back(words);
  }
  std::string all;
  for (const std::string& kind : kinds) all += (all.empty() ? "" : "; ") + kind;
  return all;
}

}  // namespace

Table eval_table(const protocol::EvalResult& result) {
  std::vector<std::string> columns = {"model", "metric", "length", "value", "low", "high", "n"};
  if (result.length_unit) {
    columns.insert(columns.end(), {"exact", "blind"});
  } else {
    columns.emplace_back("window");
  }
  Table table = table_of<protocol::EvalRow>(result.task + ": " + result.metric,
                                            protocol::to_json_form(result.rows), columns);
  if (result.length_unit) {
    table.headings["length"] = protocol::with_unit("length", *result.length_unit);
  }
  if (result.counted || result.length_unit) {
    table.headings["n"] = result.counted.value_or("samples");
  }
  add_notes(table.notes, result.provenance, names_in(result));
  return table;
}

Table differences_table(const protocol::EvalResult& result) {
  Table table = table_of<protocol::EvalDifference>(
      "", json::array(), {"model", "against", "length", "difference", "low", "high", "n"});
  std::vector<const protocol::EvalDifference*> shown;
  for (const protocol::EvalDifference& row : result.differences) {
    if (row.against != result.differences.front().against) continue;  // --json has every pair
    shown.push_back(&row);
    json cells = protocol::to_json_form(row.difference);
    cells["model"] = row.model, cells["against"] = row.against, cells["length"] = row.length;
    cells["difference"] = cells["value"];
    table.rows.push_back(std::move(cells));
  }
  if (result.differences.empty()) return table;
  const protocol::EvalDifference& first = result.differences.front();
  const std::string unit = first.difference.unit;  // "texts"
  table.title = "difference of " + first.metric + ", paired by " + unit.substr(0, unit.size() - 1);
  table.headings["n"] = unit;
  table.headings["difference"] =
      protocol::with_unit(first.metric + " above it", first.metric == "loss" ? "nats" : "");
  if (result.length_unit) {
    table.headings["length"] = protocol::with_unit("length", *result.length_unit);
  }
  table.notes = {(first.per.empty() ? first.metric : "nats a " + first.per) +
                 ", model - against; 95 % interval: " + words_of_intervals(shown)};
  return table;
}

std::vector<NamedTable> eval_tables(const protocol::EvalResult& result, const ModelNames& names) {
  std::vector<NamedTable> tables{{"eval", eval_table(result)}};
  const auto add = [&](const char* name, Table table) {
    if (!table.rows.empty()) tables.push_back({name, std::move(table)});
  };
  if (of_several_models(result)) add("eval_by_length", results_table(result, names));
  add("eval_differences", differences_table(result));
  return tables;
}

Output eval_output(const protocol::EvalResult& result, json form, const ModelNames& names) {
  Output output{.result = std::move(form), .provenance = provenance_of(result)};
  for (NamedTable& one : eval_tables(result, names)) output.tables.push_back(std::move(one.table));
  output.figures = plots_of(figures_of(result, names));
  return output;
}

}  // namespace phasescope::app
