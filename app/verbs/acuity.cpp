#include "protocol/messages/acuity.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"

namespace phasescope::app {

namespace {

using nlohmann::json;

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

class AcuityVerb : public Verb {
 public:
  std::string name() const override { return "acuity"; }
  std::string help() const override {
    return "how finely the model needs to know distance, and at which distances";
  }
  std::string example() const override {
    return "phasescope acuity rope --texts 0:70:35 --length 64 --seeds 1 --bands 1:3,4:9,16:33";
  }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::AcuityResult>(run, request_);
    const ModelNames names = names_of(answers);
    if (others_.any()) {
      Output output = output_of(answers);
      output.tables = {table_of_models(answers, names, table)};
      if (request_.by != "model") {
        output.tables.push_back(table_of_models(
            answers, names,
            [](const protocol::AcuityResult& one, const json&) { return places_table(one); }));
      }
      output.figures = {acuity_of_models(results_of(answers), names)};
      return output;
    }
    const protocol::AcuityResult& acuity = answers.front().result;
    Output output{.result = answers.front().json, .provenance = provenance_of(acuity)};
    output.tables = {table(acuity, output.result)};
    if (!acuity.rows.empty()) output.tables.push_back(places_table(acuity));
    output.figures = {acuity_figure(acuity, names)};
    return output;
  }

 private:
  static Table table(const protocol::AcuityResult& acuity, const json&) {
    Table table = bands_table(acuity);
    table.notes.push_back(acuity.formula);
    table.notes.push_back("n = " + std::to_string(acuity.texts.size()) + " texts, " +
                          std::to_string(acuity.seeds.size()) + " permutations each; " +
                          std::to_string(acuity.passes) + " passes");
    add_notes(table.notes, std::vector{acuity.provenance}, ModelNames({acuity.model}));
    return table;
  }

  protocol::AcuityRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> acuity_verb() { return std::make_unique<AcuityVerb>(); }

}  // namespace phasescope::app
