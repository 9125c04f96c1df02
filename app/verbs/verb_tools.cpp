#include "app/verbs/verb_tools.h"

#include <algorithm>
#include <utility>

#include "app/figures/intervals.h"
#include "protocol/messages/map.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

void add_row(Table& table, const std::string& model, const std::string& where,
             const protocol::NearFar& h) {
  table.rows.push_back({{"model", model},
                        {"heads", where},
                        {"mean", h.mean},
                        {"low", protocol::to_json_form(h.intervals.mean.low)},
                        {"high", protocol::to_json_form(h.intervals.mean.high)},
                        {"n", h.intervals.mean.n},
                        {"sigma", h.sigma},
                        {"skewness", h.skewness},
                        {"above 0", h.share_positive},
                        {"pairs", h.pairs}});
}

}  // namespace

Table table_of(std::string title, const json& rows, std::vector<std::string> columns) {
  return {.title = std::move(title), .columns = std::move(columns), .rows = rows};
}

Table facts_table(std::string title, const json& object, const std::vector<std::string>& keys) {
  Table table{.title = std::move(title), .columns = {"what", "value"}};
  for (const std::string& key : keys) {
    const auto found = object.find(key);
    if (found == object.end() || (found->is_array() && found->empty())) continue;
    if (found->is_string() && found->get<std::string>().empty()) continue;
    if (found->is_array() && found->front().is_string()) {  // sentences, a line each
      for (const json& item : *found) table.rows.push_back({{"what", key}, {"value", item}});
      continue;
    }
    table.rows.push_back({{"what", key}, {"value", *found}});
  }
  return table;
}

Table heads_table(const protocol::HeadsResult& heads, json rows) {
  Table table{.columns = {"layer", "head"}, .rows = std::move(rows)};
  for (const protocol::MetricInfo& metric : heads.metrics) table.columns.push_back(metric.key);
  return table;
}

Table shift_table(const protocol::ShiftResult& result) {
  Table table{.title = "attention difference (1e-2) by layer; position and logits difference",
              .columns = {"model", "method", "by", "dtype"}};
  for (const protocol::ShiftRow& row : result.rows) {
    const auto same = [&](const json& line) {
      return line["model"] == row.model && line["method"] == row.method && line["by"] == row.by &&
             line["dtype"] == row.dtype;
    };
    if (table.rows.empty() || !same(table.rows.back())) {
      table.rows.push_back(
          {{"model", row.model}, {"method", row.method}, {"by", row.by}, {"dtype", row.dtype}});
    }
    const std::string layer = "L" + std::to_string(row.layer);
    if (std::find(table.columns.begin(), table.columns.end(), layer) == table.columns.end()) {
      table.columns.push_back(layer);
    }
    json& line = table.rows.back();
    line[layer] = protocol::detail::write_double(row.attention_difference);
    if (row.position_difference) {
      line["position"] = protocol::detail::write_double(*row.position_difference);
    }
    line["logits"] = protocol::detail::write_double(row.logits_difference);
  }
  table.columns.insert(table.columns.end(), {"position", "logits"});
  table.notes.push_back(result.formula);
  table.notes.push_back("position: of the last layer shown");
  return table;
}

std::optional<widgets::PlotSpec> largest_difference(Run& run, const protocol::CompareResult& result,
                                                    const protocol::CompareRequest& request) {
  const auto largest = std::max_element(
      result.heads.begin(), result.heads.end(),
      [](const auto& x, const auto& y) { return x.js_divergence < y.js_divergence; });
  if (largest == result.heads.end()) return std::nullopt;
  protocol::MapRequest map{.running = request.running, .reading = request.reading};
  map.head = "L" + std::to_string(largest->layer) + "H" + std::to_string(largest->head);
  const std::array<std::string, 2> models{request.a, request.b};
  std::array<Answered<protocol::MapResult>, 2> maps;
  const auto ask = [&](size_t which) {
    map.model = models[which];
    maps[which] = run.ask<protocol::MapResult>(map);
  };
  ask(0);
  ask(1);
  const auto tokens = [&](size_t which) { return maps[which].result.tokens; };
  if (tokens(0) != tokens(1)) {  // trained for different lengths: as far as both go
    const size_t longer = tokens(0) > tokens(1) ? 0 : 1;
    map.reading.length = tokens(1 - longer);
    ask(longer);
  }
  return map_difference_figure(
      maps[0].result, grid_of(*protocol::find_tensor(maps[0].tensors, "map")), maps[1].result,
      grid_of(*protocol::find_tensor(maps[1].tensors, "map")));
}

Table near_far_table(const protocol::DistanceResult& result) {
  Table table{.title = "score(near key) - score(far key)",
              .columns = {"model", "heads", "mean", "low", "high", "n", "sigma", "skewness",
                          "above 0", "pairs"}};
  for (const protocol::DistanceModel& model : result.models) {
    if (model.histogram) add_row(table, model.model, "all", *model.histogram);
    for (const protocol::DistanceGroup& group : model.layers) {
      if (!group.histogram) continue;
      add_row(table, model.model, "L" + std::to_string(group.layer.value_or(0)), *group.histogram);
    }
    for (const protocol::DistanceGroup& group : model.heads) {
      if (!group.histogram) continue;
      add_row(table, model.model,
              "L" + std::to_string(group.layer.value_or(0)) + "H" +
                  std::to_string(group.head.value_or(0)),
              *group.histogram);
    }
    if (model.histogram) {
      const protocol::NearFarIntervals& intervals = model.histogram->intervals;
      table.notes.push_back(model.model + ": interval of the mean: " + words_of(intervals.mean) +
                            "; sigma " + with_ends(intervals.sigma) + ", skewness " +
                            with_ends(intervals.skewness) + ", above 0 " +
                            with_ends(intervals.share_positive) + " (" +
                            words_of(intervals.share_positive) + ")");
    }
    if (!model.note.empty()) table.notes.push_back(model.model + ": " + model.note);
  }
  return table;
}

}  // namespace phasescope::app
