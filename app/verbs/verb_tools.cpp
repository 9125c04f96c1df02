#include "app/verbs/verb_tools.h"

#include <algorithm>

namespace phasescope::app {

using nlohmann::json;

namespace {

void add_row(Table& table, const std::string& model, const std::string& where,
             const protocol::NearFar& h) {
  table.rows.push_back({{"model", model},
                        {"heads", where},
                        {"mean", h.mean},
                        {"low", h.mean_low},
                        {"high", h.mean_high},
                        {"sigma", h.sigma},
                        {"skewness", h.skewness},
                        {"above 0", h.share_positive},
                        {"pairs", h.pairs}});
}

}  // namespace

Table table_of(std::string title, const json& rows, std::vector<std::string> first, bool others) {
  Table table{.title = std::move(title), .columns = std::move(first), .rows = rows};
  if (!others || rows.empty()) return table;
  for (const auto& [key, value] : rows.front().items()) {
    const auto& columns = table.columns;
    if (std::find(columns.begin(), columns.end(), key) == columns.end()) {
      table.columns.push_back(key);
    }
  }
  return table;
}

Table facts_table(std::string title, const json& object, const std::vector<std::string>& keys) {
  Table table{.title = std::move(title), .columns = {"what", "value"}};
  for (const std::string& key : keys) {
    const auto found = object.find(key);
    if (found == object.end() || (found->is_array() && found->empty())) continue;
    if (found->is_string() && found->get<std::string>().empty()) continue;
    table.rows.push_back({{"what", key}, {"value", *found}});
  }
  return table;
}

json models_param(const std::vector<std::string>& models) {
  json list = json::array();
  for (const std::string& word : models) {
    for (const std::string& model : split_list(word)) list.push_back(model);
  }
  return list;
}

Table near_far_table(const protocol::DistanceResult& result) {
  Table table{.title = "score(near key) - score(far key)",
              .columns = {"model", "heads", "mean", "low", "high", "sigma", "skewness", "above 0",
                          "pairs"}};
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
      table.notes.push_back(model.model + ": interval of the mean " + model.histogram->interval);
    }
    if (!model.note.empty()) table.notes.push_back(model.model + ": " + model.note);
  }
  return table;
}

}  // namespace phasescope::app
