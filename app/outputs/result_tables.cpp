#include "app/outputs/result_tables.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/figures/intervals.h"
#include "app/figures/published.h"
#include "app/figures/shift_words.h"
#include "protocol/head_name.h"
#include "protocol/messages/map.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// An end of an interval that could not be made is a "-", not a number that is none.
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

// Of a head that is not there, over one text or many.
bool is_none(const json& value) {
  return (value.is_object() ? value.value("mean", json()) : value) == "nan";
}

Table states_of(std::string title, const std::vector<protocol::PatternsLayer>& layers) {
  Table table = table_of<protocol::PatternsLayer>(std::move(title), json::array(),
                                                  {"layer", "mean_abs_z", "sd_abs_z", "drift"});
  for (const protocol::PatternsLayer& layer : layers) {
    const protocol::Interval& drift = layer.drift_interval;
    table.rows.push_back({{"layer", layer.layer},
                          {"mean_abs_z", protocol::detail::write_double(layer.mean_abs_z)},
                          {"sd_abs_z", protocol::detail::write_double(layer.sd_abs_z)},
                          {"drift", drift.known() ? protocol::to_json_form(drift)
                                                  : protocol::detail::write_double(layer.drift)}});
  }
  return table;
}

}  // namespace

std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

Table table_of(std::string title, const json& rows, std::vector<std::string> columns) {
  Table table{.title = std::move(title), .columns = std::move(columns), .rows = rows};
  for (json& row : table.rows) {
    for (const char* end : {"low", "high"}) {
      if (row.contains(end) && row[end] == "nan") row[end] = nullptr;
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
    if (found->is_array() && found->front().is_string()) {  // sentences, a line each
      for (const json& item : *found) table.rows.push_back({{"what", key}, {"value", item}});
      continue;
    }
    table.rows.push_back({{"what", key}, {"value", *found}});
  }
  return table;
}

bool has_values(const protocol::HeadsResult& heads, const std::string& metric) {
  return std::ranges::any_of(heads.rows,
                             [&](const auto& row) { return row.values.contains(metric); });
}

Table heads_table(const protocol::HeadsResult& heads, json rows) {
  Table table{.columns = {"layer", "head"}, .rows = std::move(rows)};
  for (const protocol::MetricInfo& metric : heads.metrics) {
    if (!has_values(heads, metric.key)) continue;
    table.columns.push_back(metric.key);
    for (json& row : table.rows) {
      if (is_none(row.value(metric.key, json()))) row.erase(metric.key);
    }
  }
  return table;
}

Table distance_profiles_table(const protocol::HeadsResult& heads) {
  Table table{.title = "weight by distance",
              .columns = {"layer", "head", "distance", "weight", "rows"},
              .for_files = true};
  for (const protocol::HeadRow& row : heads.rows) {
    if (!row.distance_profile) continue;
    const protocol::DistanceProfile& profile = *row.distance_profile;
    for (std::size_t n = 0; n < profile.distance.size(); ++n) {
      table.rows.push_back({{"layer", row.layer},
                            {"head", row.head},
                            {"distance", profile.distance[n]},
                            {"weight", protocol::detail::write_double(profile.weight[n])},
                            {"rows", profile.count[n]}});
    }
  }
  return table;
}

Table profile_bands_table(const protocol::HeadsResult& heads) {
  Table table{.title = "weight by distance, with intervals",
              .columns = {"layer", "head", "begin", "end", "value", "low", "high", "n"},
              .for_files = true};
  for (const protocol::HeadRow& row : heads.rows) {
    if (!row.distance_profile) continue;
    for (const protocol::ProfileBand& band : row.distance_profile->bands) {
      json cells = protocol::to_json_form(band.weight);
      cells["layer"] = row.layer, cells["head"] = row.head;
      cells["begin"] = band.begin, cells["end"] = band.end;
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

Table states_table(const protocol::PatternsResult& patterns) {
  Table table = states_of("", patterns.layers);
  table.notes = {patterns.products, sampling_note(patterns)};
  return table;
}

Table against_states_table(const protocol::PatternsResult& patterns) {
  return states_of("the states of " + patterns.against, patterns.against_layers);
}

Table bias_rows_table(const protocol::PatternsResult& patterns) {
  Table table{.title = "rows of single queries",
              .columns = {"layer", "head", "query", "text", "text_name", "distance", "content",
                          "base", "correction", "positional"},
              .for_files = true};
  for (const protocol::BiasRow& row : patterns.rows) {
    for (std::size_t n = 0; n < row.distances.size(); ++n) {
      json line{{"layer", row.layer}, {"head", row.head},           {"query", row.query},
                {"text", row.text},   {"text_name", row.text_name}, {"distance", row.distances[n]}};
      const auto add = [&](const char* part, const std::vector<double>& values) {
        if (n < values.size()) line[part] = protocol::detail::write_double(values[n]);
      };
      add("content", row.content), add("base", row.base);
      add("correction", row.correction), add("positional", row.positional);
      table.rows.push_back(std::move(line));
    }
  }
  return table;
}

Table bias_table(const protocol::PatternsResult& patterns) {
  Table table{.title = "bias added to the score, by distance", .columns = {"curve"}};
  const auto last = static_cast<std::int64_t>(patterns.bias_distances.size()) - 1;
  std::vector<std::int64_t> places;
  for (std::int64_t n = 0; n < last; n = n == 0 ? 1 : 2 * n) places.push_back(n);
  places.push_back(last);
  for (const std::int64_t place : places) {
    table.columns.push_back(std::to_string(patterns.bias_distances[std::size_t(place)]));
  }
  for (const protocol::BiasCurve& curve : patterns.bias) {
    json row{{"curve", curve.label}};
    for (const std::int64_t place : places) {
      if (std::size_t(place) >= curve.values.size()) continue;
      row[std::to_string(patterns.bias_distances[std::size_t(place)])] =
          protocol::detail::write_double(curve.values[std::size_t(place)]);
    }
    table.rows.push_back(std::move(row));
  }
  table.notes.push_back(patterns.bias_note);
  return table;
}

Table shift_table(const protocol::ShiftResult& result) {
  Table table{.title = "attention difference (1e-2) by layer; position and logits difference",
              .columns = {"model", "method", "by"}};
  const std::string dtype = result.rows.empty() ? "" : result.rows.front().dtype;
  for (const protocol::ShiftRow& row : result.rows) {
    if (row.dtype != dtype) continue;
    const auto same = [&](const json& line) {
      return line["model"] == row.model && line["method"] == row.method && line["by"] == row.by;
    };
    if (table.rows.empty() || !same(table.rows.back())) {
      table.rows.push_back({{"model", row.model}, {"method", row.method}, {"by", row.by}});
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
    line["n"] = row.n, line["of"] = row.unit;
    if (row.expected.empty()) continue;
    line["declared"] = shift_words(row.expected);
    // One layer that moves is a line that moves.
    const std::string before = line.value("verdict", "");
    if (before.empty() || before == "rounding") line["verdict"] = row.verdict;
  }
  table.columns.insert(table.columns.end(),
                       {"position", "logits", "n", "of", "declared", "verdict"});
  table.notes = {result.formula, "position: of the last layer shown",
                 "each layer's 95 % interval, over n texts or blocks of one: --json and --out"};
  for (const protocol::ShiftExpectation& one : result.expected) {
    table.notes.push_back(one.model + " declares of shifted ids: " + shift_words(one.expected) +
                          " (" + one.why + ")");
  }
  if (std::ranges::any_of(result.rows, [&](const auto& row) { return row.dtype != dtype; })) {
    table.notes.push_back("in " + dtype +
                          "; --json and --out have the other dtypes too, which "
                          "tell rounding apart");
  }
  return table;
}

Table head_bias_table(const protocol::DistanceResult& result) {
  Table table{.title = "coefficients of the rotation's planes, before it turns them",
              .columns = {"model", "head", "A nearest", "A farthest", "smallest |A|", "B nearest",
                          "B farthest", "local to", "ultra from"}};
  for (const protocol::DistanceModel& model : result.models) {
    for (const protocol::HeadBias& bias : model.head_bias) {
      if (bias.coefficients.empty()) continue;
      const auto& near = bias.coefficients.front();
      const auto& far = bias.coefficients.back();
      table.rows.push_back({{"model", model.model},
                            {"head", protocol::name_of_head(bias.layer, bias.head)},
                            {"A nearest", near.a_mean},
                            {"A farthest", far.a_mean},
                            {"smallest |A|", bias.smallest_a},
                            {"B nearest", near.b_mean},
                            {"B farthest", far.b_mean},
                            {"local to", bias.local_to},
                            {"ultra from", bias.ultra_from}});
    }
  }
  table.notes = {
      "means over planes and all causal pairs at the nearest and farthest distances; "
      "regimes in the model's own distances (TAPA, arXiv 2509.12635)"};
  return table;
}

Table adaptive_table(const protocol::PatternsResult& patterns) {
  Table table{.title = "bias over texts: slope in ln(distance), variances",
              .columns = {"layer", "head", "query", "kind", "slope", "low", "high", "n",
                          "over texts", "over distance"}};
  for (const protocol::AdaptiveBiasOfHead& one : patterns.adaptive) {
    table.rows.push_back({{"layer", one.layer},
                          {"head", one.head},
                          {"query", one.query},
                          {"kind", one.kind},
                          {"slope", one.slope.mean},
                          {"low", protocol::to_json_form(one.slope.low)},
                          {"high", protocol::to_json_form(one.slope.high)},
                          {"n", one.slope.n},
                          {"over texts", one.over_contexts},
                          {"over distance", one.over_distance}});
  }
  table.notes = {
      "local and anti-local: the 95 % interval of the slope over texts leaves out 0; of " +
      std::to_string(patterns.adaptive.size()) + " heads " +
      widgets::short_number(0.05 * double(patterns.adaptive.size())) +
      " are expected to by chance"};
  for (const protocol::AdaptiveBiasOfHead& one : patterns.adaptive) {
    const bool said = std::ranges::find(table.notes, one.why) != table.notes.end();
    if (!one.why.empty() && !said) table.notes.push_back(one.why);
  }
  return table;
}

Table published_shift_table(const protocol::ShiftResult& result) {
  Table table{.title = "published, not measured here: shifts by 3",
              .columns = {"published", "of", "layer 1", "layer 2", "layer 4", "layer 8"}};
  if (std::ranges::none_of(result.rows, [](const auto& row) { return row.by == 3; })) return table;
  for (const PublishedSeries& one : published_series()) {
    if (one.metric.find("difference") == std::string::npos) continue;
    const bool measured = std::ranges::any_of(
        result.expected, [&](const auto& model) { return model.encoding == one.encoding; });
    if (!measured) continue;
    json line{{"published", one.printed}, {"of", one.metric}};
    for (std::size_t n = 0; n < one.x.size(); ++n) {
      line["layer " + std::to_string(std::int64_t(one.x[n]) + 1)] = one.y[n];
    }
    table.rows.push_back(std::move(line));
  }
  table.notes = {
      "TAPE (arXiv 2501.00712), Table 8, attention in 1e-2 and positions in percent; the "
      "lower half from the paper's first version; layers counted from 1; the paper does "
      "not spell out its norm: the order of the encodings and the zeros can be compared"};
  return table;
}

Table shift_rows_table(const json& result) {
  Table table = table_of<protocol::ShiftRow>(
      "", result.at("rows"),
      {"model", "method", "by", "layer", "attention_difference", "position_difference",
       "logits_difference", "dtype", "attention_low", "attention_high", "n", "unit", "expected",
       "verdict"});
  table.for_files = true;
  return table;
}

Table losses_table(const protocol::CompareResult& compare) {
  Table table{.title = "loss (nats a token)", .columns = {"model", "loss", "low", "high"}};
  for (const auto& [name, value] : compare.loss) {
    const std::string label = name == "a" ? compare.a : name == "b" ? compare.b : name;
    table.rows.push_back({{"model", label}});
    if (std::isfinite(value)) table.rows.back()["loss"] = value;
    if (name != "difference") continue;
    table.rows.back()["low"] = protocol::to_json_form(compare.loss_difference.low);
    table.rows.back()["high"] = protocol::to_json_form(compare.loss_difference.high);
  }
  table.notes.push_back("difference: b - a on the same tokens; interval: " +
                        words_of(compare.loss_difference));
  table.notes.push_back(compare.provenance.note);
  return table;
}

std::optional<widgets::PlotSpec> largest_difference(Run& run, const protocol::CompareResult& result,
                                                    const protocol::CompareRequest& request,
                                                    const std::string& head) {
  const auto largest = std::max_element(
      result.heads.begin(), result.heads.end(),
      [](const auto& x, const auto& y) { return x.js_divergence < y.js_divergence; });
  if (largest == result.heads.end() && head.empty()) return std::nullopt;
  protocol::MapRequest map{.running = request.running, .reading = request.reading};
  const std::string chosen =
      !head.empty() ? head : protocol::name_of_head(largest->layer, largest->head);
  const std::array<std::string, 2> models{request.a, request.b};
  const std::array<std::string, 2> stacks{result.stack, result.other_stack};
  std::array<Answered<protocol::MapResult>, 2> maps;
  const auto ask = [&](std::size_t which) {
    map.model = models[which];
    const bool named = chosen.find('.') != std::string::npos || stacks[which].empty();
    map.head = {named ? chosen : stacks[which] + "." + chosen};
    maps[which] = run.ask<protocol::MapResult>(map);
  };
  ask(0);
  ask(1);
  const auto tokens = [&](std::size_t which) { return maps[which].result.tokens; };
  if (tokens(0) != tokens(1)) {  // trained for different lengths: as far as both go
    const std::size_t longer = tokens(0) > tokens(1) ? 0 : 1;
    map.reading.length = tokens(1 - longer);
    ask(longer);
  }
  return map_difference_figure(
      maps[0].result, grid_of(*protocol::find_tensor(maps[0].tensors, "map")), maps[1].result,
      grid_of(*protocol::find_tensor(maps[1].tensors, "map")), names_in(result));
}

std::vector<protocol::DistanceModel> measured(const protocol::DistanceResult& result) {
  std::vector<protocol::DistanceModel> models = result.models;
  std::erase_if(models, [](const auto& model) { return model.profile.empty(); });
  return models;
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
              protocol::name_of_head(group.layer.value_or(0), group.head.value_or(0)),
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
    for (const std::string& note : {model.note, model.provenance.note}) {
      if (!note.empty()) table.notes.push_back(model.model + ": " + note);
    }
  }
  return table;
}

}  // namespace phasescope::app
