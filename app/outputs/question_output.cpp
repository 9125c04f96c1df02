#include "app/outputs/question_output.h"

#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

// The output of one answer, before its tables and figures.
template <class Result>
Output single_output(const Answered<Result>& answer) {
  return {
      .result = answer.json, .provenance = provenance_of(answer.result), .tensors = answer.tensors};
}

std::string number(double x) { return widgets::short_number(x); }

// ---- addressing ----

std::string floor_note(const protocol::AddressingFloor& floor) {
  return "scores without any structure would read " + number(*floor.distance) +
         " of distance and " + number(*floor.key) + " of key";
}

Table addressing_table(const protocol::AddressingResult& addressing, const json& form,
                       const ModelNames& names) {
  Table table = table_of("", form["rows"],
                         {"layer", "head", "distance_first", "key_last", "interaction",
                          "distance_last", "key_first", "trend", "query", "why"});
  table.notes.push_back(addressing.formula);
  table.notes.push_back("query is a share of the whole variance; n = " +
                        std::to_string(addressing.texts.size()) + " texts");
  if (!addressing.rows.empty() && addressing.rows.front().floor.distance) {
    table.notes.push_back(floor_note(addressing.rows.front().floor));
  }
  add_notes(table.notes, std::vector{addressing.provenance}, names);
  return table;
}

// ---- demand ----

std::string bucket_name(const std::vector<std::int64_t>& edges, std::size_t n) {
  if (n + 1 == edges.size()) return std::to_string(edges[n]) + "+";
  if (edges[n + 1] == edges[n] + 1) return std::to_string(edges[n]);
  return std::to_string(edges[n]) + ".." + std::to_string(edges[n + 1] - 1);
}

// A row a head, a column a bucket, in 1e-3 bits.
Table demand_table(const protocol::DemandResult& result) {
  Table table{.title = "demand (1e-3 bits a token per unit of score), by distance",
              .columns = {"head"}};
  for (std::size_t n = 0; n < result.edges.size(); ++n) {
    table.columns.push_back(bucket_name(result.edges, n));
  }
  for (const protocol::DemandRow& row : result.rows) {
    json cells = {{"head", protocol::name_of_head(row.layer, row.head)}};
    for (std::size_t n = 0; n < row.demand.size(); ++n) {
      cells[bucket_name(result.edges, n)] = 1000 * row.demand[n].mean;
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

// A row a head and bucket, for files.
Table demand_rows_table(const protocol::DemandResult& result) {
  Table table{.columns = {"layer", "head", "distance", "demand", "low", "high", "n", "method"}};
  for (const protocol::DemandRow& row : result.rows) {
    for (std::size_t n = 0; n < row.demand.size(); ++n) {
      const protocol::Interval& one = row.demand[n];
      table.rows.push_back({{"layer", row.layer},
                            {"head", row.head},
                            {"distance", result.edges[n]},
                            {"demand", one.mean},
                            {"low", protocol::to_json_form(one.low)},
                            {"high", protocol::to_json_form(one.high)},
                            {"n", one.n},
                            {"method", one.method}});
    }
  }
  table.for_files = true;
  return table;
}

Table fit_table(const protocol::DemandFit& fit) {
  Table table{.title = "bias fitted (bits a token, on texts it was not fitted to)",
              .columns = {"what", "change"}};
  const auto add = [&](const std::string& what, const protocol::Interval& change) {
    table.rows.push_back({{"what", what}, {"change", protocol::to_json_form(change)}});
  };
  add("before", fit.before);
  add("after", fit.after);
  add("after - before", fit.change);
  for (const protocol::DemandWindow& one : fit.windows) {
    const std::string window = "a window of " + std::to_string(one.window) + " tokens";
    add(window + " - before", one.change);
    add(window + " - after", one.over_fit);
  }
  table.notes.push_back("step " + std::to_string(fit.step) + " of " +
                        std::to_string(fit.choose.size() - 1) + " was chosen");
  if (!fit.why.empty()) table.notes.push_back(fit.why);
  return table;
}

Table demand_summary(const protocol::DemandResult& demand, const json&, const ModelNames& names) {
  Table table = demand_table(demand);
  table.notes.push_back(demand.formula);
  table.notes.push_back("loss " + number(demand.loss.mean) + " bits a token; " +
                        words_of(demand.loss) + "; trained for " + std::to_string(demand.trained) +
                        " tokens, beyond them " + with_ends(demand.share_beyond_trained) +
                        " of |demand| (" + words_of(demand.share_beyond_trained) + ")");
  add_notes(table.notes, std::vector{demand.provenance}, names);
  return table;
}

// ---- acuity ----

json band_cells(const protocol::AcuityBand& band) {
  json cells = {{"distances", std::to_string(band.low) + ".." + std::to_string(band.high - 1)},
                {"rows seen", band.rows_seen},
                {"why", band.why}};
  if (band.change) cells["change"] = protocol::to_json_form(*band.change);
  if (band.change_seen) cells["change_seen"] = protocol::to_json_form(*band.change_seen);
  return cells;
}

Table bands_table(const protocol::AcuityResult& result) {
  Table table{.columns = {"distances", "change", "change_seen", "rows seen", "why"}};
  for (const protocol::AcuityBand& band : result.bands) table.rows.push_back(band_cells(band));
  return table;
}

Table places_table(const protocol::AcuityResult& result) {
  Table table{.title = "one at a time",
              .columns = {"layer", "head", "distances", "change", "change_seen", "why"}};
  for (const protocol::AcuityRow& row : result.rows) {
    for (const protocol::AcuityBand& band : row.bands) {
      json cells = band_cells(band);
      cells["layer"] = row.layer;
      if (row.head >= 0) cells["head"] = row.head;
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

Table acuity_table(const protocol::AcuityResult& acuity, const json&, const ModelNames& names) {
  Table table = bands_table(acuity);
  table.notes.push_back(acuity.formula);
  table.notes.push_back("n = " + std::to_string(acuity.texts.size()) + " texts, " +
                        std::to_string(acuity.seeds.size()) + " permutations each; " +
                        std::to_string(acuity.passes) + " passes");
  add_notes(table.notes, std::vector{acuity.provenance}, names);
  return table;
}

// ---- xray ----

// Every plane of every head, for files.
Table unseen_table(const protocol::XrayResult& result) {
  Table table{.columns = {"layer", "head", "of", "plane", "unseen"}};
  for (const protocol::XrayUnseen& row : result.unseen) {
    for (std::size_t plane = 0; plane < row.planes.size(); ++plane) {
      table.rows.push_back({{"layer", row.layer},
                            {"head", row.head},
                            {"of", row.of},
                            {"plane", plane},
                            {"unseen", row.planes[plane]}});
    }
  }
  table.for_files = true;
  return table;
}

Table repair_table(const protocol::XrayRepair& repair) {
  std::string heads;
  for (const std::string& head : repair.heads) heads += (heads.empty() ? "" : " ") + head;
  Table table{.title = "smallest repair found", .columns = {"what", "value"}};
  table.rows.push_back({{"what", "heads"}, {"value", heads}});
  table.rows.push_back(
      {{"what", "share returned, on texts it was chosen by"}, {"value", repair.share_choose}});
  table.rows.push_back({{"what", "change of the loss, on other texts"},
                        {"value", repair.change_test ? protocol::to_json_form(*repair.change_test)
                                                     : json(repair.why)}});
  table.rows.push_back({{"what", "reading"}, {"value", repair.reading}});
  return table;
}

void add_facts(const protocol::XrayResult& xray, std::vector<std::string>& notes) {
  notes.push_back(xray.verdict + " (" + xray.treatment + " " + std::to_string(xray.limit) +
                  ", trained for " + std::to_string(xray.trained) + " tokens): plain " +
                  number(xray.plain.mean) + ", all treated " + number(xray.all.mean) +
                  " bits a token; " + words_of(xray.returned));
  if (xray.order_agreement) {
    notes.push_back("Spearman correlation of the two orders " + number(*xray.order_agreement));
  } else if (!xray.why.empty()) {
    notes.push_back(xray.why);
  }
  notes.push_back(std::to_string(xray.passes) + " passes over a text");
  const auto known = std::ranges::count_if(
      xray.rows, [](const protocol::XrayRow& row) { return row.one_alone.known(); });
  if (known > 0) {
    notes.push_back(std::to_string(known) + " intervals of 95 % each: " +
                    number(0.05 * double(known)) + " are expected to exclude 0 by chance");
  }
  notes.push_back(xray.formula);
}

Table xray_table(const protocol::XrayResult& xray, const json& form, const ModelNames& names) {
  Table table =
      table_of("", form["rows"], {"layer", "head", "one_alone", "leave_one_out", "share"});
  for (json& row : table.rows) {  // of a whole layer no head is named
    if (row["head"] < 0) row.erase("head");
  }
  add_facts(xray, table.notes);
  add_notes(table.notes, std::vector{xray.provenance}, names);
  return table;
}

// ---- pair ----

const std::vector<std::string>& pair_facts() {
  static const std::vector<std::string> facts = {
      "true_distance", "score", "weight", "content",       "positional",  "base",
      "correction",    "rest",  "tail",   "best_distance", "share_above", "why"};
  return facts;
}

Table curve_table(const json& pair) {
  std::vector<std::string> columns = {"distance", "score", "weight"};
  for (const char* part : {"base", "correction"}) {
    if (pair.contains(part)) columns.emplace_back(part);
  }
  Table curve = table_of("", pair["curve"], columns);
  curve.for_files = true;
  return curve;
}

Table pair_row(const protocol::PairResult& pair, const json& form) {
  Table row = table_of("", json::array({form}), pair_facts());
  row.notes.push_back(pair.formula);
  if (!pair.cut.empty()) row.notes.push_back(pair.cut);
  add_notes(row.notes, std::vector{pair.provenance}, ModelNames({pair.model}));
  return row;
}

// ---- profile ----

Table profile_table(const protocol::ProfileResult& profile, const json& form,
                    const ModelNames& names) {
  Table table = table_of("", form["rows"],
                         {"layer", "head", "positional", "positional_row", "semantic",
                          "semantic_share", "high_frequency", "ties", "invalid", "why"});
  table.notes.push_back(profile.formula);
  table.notes.push_back("W = " + std::to_string(profile.window) + "; " +
                        std::to_string(profile.samples) + " pairs and triplets of each of " +
                        std::to_string(profile.texts.size()) + " texts");
  add_notes(table.notes, std::vector{profile.provenance}, names);
  return table;
}

}  // namespace

Output question_output(const std::vector<Answered<protocol::AddressingResult>>& answers,
                       const ModelNames& names) {
  if (answers.size() > 1) {
    Output output = output_of(answers);
    output.tables = {table_of_models(answers, names, addressing_table)};
    output.figures = {addressing_of_models(results_of(answers), names)};
    return output;
  }
  Output output = single_output(answers.front());
  output.tables = {addressing_table(answers.front().result, output.result, names)};
  output.figures = {addressing_figure(answers.front().result, names)};
  return output;
}

Output question_output(const std::vector<Answered<protocol::DemandResult>>& answers,
                       const ModelNames& names) {
  if (answers.size() > 1) {
    Output output = output_of(answers);
    output.tables = {
        table_of_models(answers, names, demand_summary),
        table_of_models(answers, names, [](const protocol::DemandResult& one, const json&) {
          return demand_rows_table(one);
        })};
    output.figures = {demand_of_models(results_of(answers), names)};
    return output;
  }
  const protocol::DemandResult& demand = answers.front().result;
  Output output = single_output(answers.front());
  output.tables = {demand_summary(demand, output.result, names), demand_rows_table(demand)};
  if (demand.fit) output.tables.push_back(fit_table(*demand.fit));
  output.figures = demand_figures(demand, names);
  output.grids = {demand_grid(demand, names)};
  return output;
}

Output question_output(const std::vector<Answered<protocol::AcuityResult>>& answers,
                       const ModelNames& names) {
  const bool by_place = !answers.front().result.rows.empty();
  if (answers.size() > 1) {
    Output output = output_of(answers);
    output.tables = {table_of_models(answers, names, acuity_table)};
    if (by_place) {
      output.tables.push_back(table_of_models(
          answers, names,
          [](const protocol::AcuityResult& one, const json&) { return places_table(one); }));
    }
    output.figures = {acuity_of_models(results_of(answers), names)};
    return output;
  }
  Output output = single_output(answers.front());
  output.tables = {acuity_table(answers.front().result, output.result, names)};
  if (by_place) output.tables.push_back(places_table(answers.front().result));
  output.figures = acuity_figures(answers.front().result, names);
  return output;
}

Output question_output(const std::vector<Answered<protocol::XrayResult>>& answers,
                       const ModelNames& names) {
  if (answers.size() > 1) {
    Output output = output_of(answers);
    output.tables = {
        table_of_models(answers, names, xray_table),
        table_of_models(answers, names, [](const protocol::XrayResult& one, const json&) {
          return unseen_table(one);
        })};
    output.tables.back().for_files = true;
    output.figures = {xray_of_models(results_of(answers), names)};
    return output;
  }
  const protocol::XrayResult& xray = answers.front().result;
  Output output = single_output(answers.front());
  output.tables = {xray_table(xray, output.result, names), unseen_table(xray)};
  if (xray.repair) output.tables.push_back(repair_table(*xray.repair));
  output.figures = xray_figures(xray, names);
  return output;
}

Output question_output(const std::vector<Answered<protocol::PairResult>>& answers,
                       const ModelNames& names) {
  if (answers.size() > 1) {
    Output output = output_of(answers);
    output.tables = {table_of_models(answers, names, pair_row)};
    output.figures = {pair_of_models(results_of(answers), names)};
    return output;
  }
  const protocol::PairResult& pair = answers.front().result;
  Output output = single_output(answers.front());
  Table table = facts_table("", output.result, pair_facts());
  table.notes.push_back(pair.formula);
  if (!pair.cut.empty()) table.notes.push_back(pair.cut);
  add_notes(table.notes, std::vector{pair.provenance}, names);
  output.tables = {std::move(table)};
  if (pair.curve) output.tables.push_back(curve_table(output.result));
  output.figures = pair_figures(pair, names);
  return output;
}

Output question_output(const std::vector<Answered<protocol::ProfileResult>>& answers,
                       const ModelNames& names) {
  if (answers.size() > 1) {
    Output output = output_of(answers);
    output.tables = {table_of_models(answers, names, profile_table)};
    output.figures = {profile_of_models(results_of(answers), names)};
    return output;
  }
  Output output = single_output(answers.front());
  output.tables = {profile_table(answers.front().result, output.result, names)};
  output.figures = {profile_figure(answers.front().result, names)};
  return output;
}

}  // namespace phasescope::app
