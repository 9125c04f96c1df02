#include "app/figures/cost_figures.h"
#include "app/figures/published.h"
#include "app/outputs/question_output.h"
#include "protocol/messages/cost.h"

namespace phasescope::app {

namespace {

using nlohmann::json;

const std::vector<std::string> kNumbers = {"flops", "macs", "parameters", "parameters_mi",
                                           "memory_bytes"};

Table counts_table(const protocol::CostResult& cost, const json& form) {
  json counts = json::array();
  for (const char* name : {"published", "executed"}) {
    json row = form[name];
    row["count"] = name;
    counts.push_back(std::move(row));
  }
  counts.back()["memory_bytes"] = form["memory_bytes"];
  Table table = table_of<protocol::Count>(
      "", counts, {"count", "flops", "macs", "parameters", "parameters_mi", "memory_bytes"});
  table.counts = kNumbers;
  const auto whole = protocol::headings_of<protocol::CostResult>();
  table.headings["memory_bytes"] = whole.at("memory_bytes");
  for (const std::string& line : cost.conventions) table.notes.push_back(line);
  return table;
}

Table parts_table(const protocol::CostResult&, const json& form) {
  json rows = form["parts"];
  for (json& row : rows) row["name"] = words_of_part(row["name"].get<std::string>());
  Table parts = table_of<protocol::CostPart>("Parts", rows, {"name", "macs", "parameters"});
  parts.counts = kNumbers;
  return parts;
}

// What is printed of passes of these sizes; without rows where there are none.
Table published_costs(const std::vector<protocol::CostResult>& results) {
  Table table{.title = "published, not counted here: TAPE (arXiv 2501.00712), Table 3",
              .columns = {"published", "of", "value"}};
  table.counts = {"value"};
  for (const PublishedSeries& one : published_series()) {
    const bool cost = one.metric == "FLOPs" || one.metric == "MACs" || one.metric == "parameters";
    const bool counted = std::ranges::any_of(results, [&](const protocol::CostResult& result) {
      return is_of_published_size(result) && result.encoding == one.encoding;
    });
    if (!cost || !counted) continue;
    table.rows.push_back({{"published", one.printed}, {"of", one.metric}, {"value", one.y.at(0)}});
  }
  table.notes = {
      "12 layers of width 768, one forward pass of 1024 tokens; to hold against the row "
      "\"published\" above"};
  return table;
}

}  // namespace

Output question_output(const std::vector<Answered<protocol::CostResult>>& answers,
                       const ModelNames& names) {
  Output output;
  if (answers.size() == 1) {
    const Answered<protocol::CostResult>& one = answers.front();
    output.result = one.json;
    output.tables = {counts_table(one.result, one.json), parts_table(one.result, one.json)};
  } else {
    output = output_of(answers);
    output.tables = {table_of_models(answers, names, counts_table),
                     table_of_models(answers, names, parts_table)};
  }
  output.tables.push_back(published_costs(results_of(answers)));
  if (output.tables.back().rows.empty()) output.tables.pop_back();
  output.figures = {cost_figure(results_of(answers), names)};
  return output;
}

}  // namespace phasescope::app
