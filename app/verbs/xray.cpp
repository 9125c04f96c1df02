#include "protocol/messages/xray.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"

namespace phasescope::app {

namespace {

// Every plane of every head, for files.
Table unseen_table(const protocol::XrayResult& result) {
  Table table{.columns = {"layer", "head", "of", "plane", "unseen"}};
  for (const protocol::XrayUnseen& row : result.unseen) {
    for (size_t plane = 0; plane < row.planes.size(); ++plane) {
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
                        {"value", protocol::to_json_form(repair.change_test)}});
  table.rows.push_back({{"what", "reading"}, {"value", repair.reading}});
  return table;
}

class XrayVerb : public Verb {
 public:
  std::string name() const override { return "xray"; }
  std::string help() const override {
    return "which heads fail past the trained length, and the smallest repair";
  }
  std::string example() const override { return "phasescope xray rope --texts 0:70:35 --by layer"; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::XrayResult>(run, request_);
    const ModelNames names = names_of(answers);
    if (others_.any()) {
      Output output = output_of(answers);
      output.tables = {table_of_models(answers, names, table),
                       table_of_models(answers, names,
                                       [](const protocol::XrayResult& one, const nlohmann::json&) {
                                         return unseen_table(one);
                                       })};
      output.tables.back().for_files = true;
      output.figures = {xray_of_models(results_of(answers), names)};
      return output;
    }
    const protocol::XrayResult& xray = answers.front().result;
    Output output{.result = answers.front().json, .provenance = provenance_of(xray)};
    output.tables = {table(xray, output.result), unseen_table(xray)};
    if (xray.repair) output.tables.push_back(repair_table(*xray.repair));
    output.figures = xray_figures(xray, names);
    return output;
  }

 private:
  static Table table(const protocol::XrayResult& xray, const nlohmann::json& json) {
    Table table =
        table_of("", json["rows"], {"layer", "head", "one_alone", "leave_one_out", "share"});
    add_facts(xray, table.notes);
    add_notes(table.notes, std::vector{xray.provenance}, ModelNames({xray.model}));
    return table;
  }

  static void add_facts(const protocol::XrayResult& xray, std::vector<std::string>& notes) {
    const auto number = [](double x) { return widgets::short_number(x); };
    notes.push_back(xray.verdict + " (" + xray.treatment + " " + std::to_string(xray.limit) +
                    ", trained for " + std::to_string(xray.trained) + " tokens): plain " +
                    number(xray.plain.mean) + ", all treated " + number(xray.all.mean) +
                    " bits a token; " + words_of(xray.returned));
    if (xray.order_agreement) {
      notes.push_back("Spearman correlation of the two orders " + number(*xray.order_agreement));
    }
    notes.push_back(std::to_string(xray.rows.size()) +
                    " intervals of 95 % each: " + number(0.05 * double(xray.rows.size())) +
                    " are expected to exclude 0 by chance");
    notes.push_back(xray.formula);
  }

  protocol::XrayRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> xray_verb() { return std::make_unique<XrayVerb>(); }

}  // namespace phasescope::app
