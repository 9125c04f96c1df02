#include "app/figures/query_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/figures/map_look.h"
#include "protocol/head_name.h"
#include "protocol/sink_words.h"

namespace phasescope::app {

namespace {

bool has_sinks(const protocol::QueryResult& result) {
  return std::ranges::any_of(result.rows,
                             [](const protocol::QueryHead& head) { return head.sink.has_value(); });
}

// What each head's learned sink takes, a number for each row of the map; masked where a head has
// none.
std::vector<float> sinks_of(const protocol::QueryResult& result) {
  if (!has_sinks(result)) return {};
  std::vector<float> sinks(std::size_t(result.layers * result.heads), widgets::kMaskedCell);
  for (const protocol::QueryHead& head : result.rows) {
    const auto row = std::size_t(head.layer * result.heads + head.head);
    if (head.sink && row < sinks.size()) sinks[row] = float(*head.sink);
  }
  return sinks;
}

}  // namespace

widgets::PlotSpec query_figure(const protocol::QueryResult& result, const Grid& weights,
                               const ModelNames& names) {
  const std::string query = std::to_string(result.query);
  widgets::PlotSpec plot{.id = "query_" + query + "_" + names.file_name(result.model),
                         .title = names.short_name(result.model) + ": weights of query " + query +
                                  " in every head" +
                                  (result.stack.empty() ? "" : " of " + result.stack)};
  plot.x.label = "key (token)", plot.x.of = widgets::Coordinate::key;
  plot.y.label = "head";
  plot.legend = false;
  for (std::int64_t layer = 0; layer < result.layers; ++layer) {
    plot.y.ticks.push_back(
        {(double(layer) + 0.5) * double(result.heads), "L" + std::to_string(layer)});
  }
  widgets::MapSpec map{.rows = int(result.layers * result.heads),
                       .cols = int(result.width),
                       .values = weights.values};
  map.col_end = double(result.keys);
  map.row_name = "head", map.value_label = "weight";
  map.margin = sinks_of(result);
  if (!map.margin.empty()) map.margin_name = "learned sink";
  apply_look(map, {});
  plot.notes = {"query " + query + " of " + std::to_string(result.tokens) +
                " tokens; the heads of each layer from top to bottom, cells: max"};
  if (!result.stack.empty()) plot.notes.push_back(stack_note(result.stack));
  if (has_sinks(result)) {
    plot.notes.push_back(std::string(protocol::kSinksBesideWeights) +
                         "; the strip beside the map shows what the sink takes");
  }
  plot.notes.push_back(widgets::scale_note(map));
  plot.map = std::move(map);
  return plot;
}

std::string further_keys(const protocol::QueryHead& head) {
  std::string words;
  for (std::size_t n = 1; n < head.keys.size(); ++n) {
    words += (n > 1 ? ", " : "") + std::to_string(head.keys[n]) + " (" +
             widgets::short_number(head.weights[n]) + ")";
  }
  return words;
}

Table query_table(const protocol::QueryResult& result) {
  Table table{.title = "largest weights of query " + std::to_string(result.query),
              .columns = {"head", "key", "weight", "further"}};
  for (const protocol::QueryHead& head : result.rows) {
    nlohmann::json row{{"head", protocol::name_of_head(head.layer, head.head)},
                       {"further", further_keys(head)}};
    if (!head.keys.empty()) row["key"] = head.keys[0], row["weight"] = head.weights[0];
    if (head.sink) row["sink"] = *head.sink;
    table.rows.push_back(std::move(row));
  }
  if (has_sinks(result)) {
    table.columns.push_back("sink");
    table.notes.push_back(protocol::kSinksBesideWeights);
  }
  if (!result.stack.empty()) table.notes.push_back(stack_note(result.stack));
  table.notes.push_back(result.provenance.note);
  return table;
}

}  // namespace phasescope::app
