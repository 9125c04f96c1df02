#include "protocol/messages/demand.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

using nlohmann::json;

std::string bucket_name(const std::vector<int64_t>& edges, size_t n) {
  if (n + 1 == edges.size()) return std::to_string(edges[n]) + "+";
  if (edges[n + 1] == edges[n] + 1) return std::to_string(edges[n]);
  return std::to_string(edges[n]) + ".." + std::to_string(edges[n + 1] - 1);
}

// A row a head, a column a bucket, in 1e-3 bits.
Table demand_table(const protocol::DemandResult& result) {
  Table table{.title = "demand (1e-3 bits a token per unit of score), by distance",
              .columns = {"head"}};
  for (size_t n = 0; n < result.edges.size(); ++n) {
    table.columns.push_back(bucket_name(result.edges, n));
  }
  for (const protocol::DemandRow& row : result.rows) {
    json cells = {{"head", "L" + std::to_string(row.layer) + "H" + std::to_string(row.head)}};
    for (size_t n = 0; n < row.demand.size(); ++n) {
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
    for (size_t n = 0; n < row.demand.size(); ++n) {
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
    add("a window of " + std::to_string(one.window) + " tokens - before", one.change);
  }
  table.notes.push_back("step " + std::to_string(fit.step) + " of " +
                        std::to_string(fit.choose.size() - 1) + " was chosen");
  if (!fit.why.empty()) table.notes.push_back(fit.why);
  return table;
}

class DemandVerb : public Verb {
 public:
  std::string name() const override { return "demand"; }
  std::string help() const override {
    return "at which distances each head wants more weight, and the bias that would repair it";
  }
  std::string example() const override { return "phasescope demand rope --texts 0:70:20"; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    if (others_.any() && request_.fit) {
      throw formats::bad_usage("a bias is fitted for one model at a time", "--fit");
    }
    auto answers = others_.ask<protocol::DemandResult>(run, request_);
    const ModelNames names = names_of(answers);
    if (others_.any()) {
      Output output = output_of(answers);
      output.tables = {
          table_of_models(answers, names, table),
          table_of_models(answers, names, [](const protocol::DemandResult& one, const json&) {
            return demand_rows_table(one);
          })};
      output.figures = {demand_of_models(results_of(answers), names)};
      return output;
    }
    const protocol::DemandResult& demand = answers.front().result;
    Output output{.result = answers.front().json, .provenance = provenance_of(demand)};
    output.tensors = std::move(answers.front().tensors);
    output.tables = {table(demand, output.result), demand_rows_table(demand)};
    if (demand.fit) output.tables.push_back(fit_table(*demand.fit));
    output.figures = demand_figures(demand, names);
    return output;
  }

 private:
  static Table table(const protocol::DemandResult& demand, const json&) {
    Table table = demand_table(demand);
    table.notes.push_back(demand.formula);
    table.notes.push_back("loss " + widgets::short_number(demand.loss.mean) + " bits a token; " +
                          words_of(demand.loss) + "; trained for " +
                          std::to_string(demand.trained) + " tokens, beyond them " +
                          widgets::short_number(demand.share_beyond_trained) + " of |demand|");
    add_notes(table.notes, std::vector{demand.provenance}, ModelNames({demand.model}));
    return table;
  }

  protocol::DemandRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> demand_verb() { return std::make_unique<DemandVerb>(); }

}  // namespace phasescope::app
