#include "protocol/messages/addressing.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"

namespace phasescope::app {

namespace {

class AddressingVerb : public Verb {
 public:
  std::string name() const override { return "addressing"; }
  std::string help() const override {
    return "how much of a head's scores is distance, how much the key, how much only the pair";
  }
  std::string example() const override { return "phasescope addressing rope --texts 0:70:20"; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::AddressingResult>(run, request_);
    const ModelNames names = names_of(answers);
    if (others_.any()) {
      Output output = output_of(answers);
      output.tables = {table_of_models(answers, names, table)};
      output.figures = {addressing_of_models(results_of(answers), names)};
      return output;
    }
    const protocol::AddressingResult& addressing = answers.front().result;
    Output output{.result = answers.front().json, .provenance = provenance_of(addressing)};
    output.tables = {table(addressing, output.result)};
    output.figures = {addressing_figure(addressing, names)};
    return output;
  }

 private:
  static Table table(const protocol::AddressingResult& addressing, const nlohmann::json& json) {
    Table table = table_of("", json["rows"],
                           {"layer", "head", "distance_first", "key_last", "interaction",
                            "distance_last", "key_first", "trend", "query", "why"});
    table.notes.push_back(addressing.formula);
    table.notes.push_back("query is a share of the whole variance; n = " +
                          std::to_string(addressing.texts.size()) + " texts");
    if (!addressing.rows.empty()) table.notes.push_back(floor_note(addressing.rows.front().floor));
    add_notes(table.notes, std::vector{addressing.provenance}, ModelNames({addressing.model}));
    return table;
  }

  static std::string floor_note(const protocol::AddressingFloor& floor) {
    return "scores without any structure would read " + widgets::short_number(floor.distance) +
           " of distance and " + widgets::short_number(floor.key) + " of key";
  }

  protocol::AddressingRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> addressing_verb() { return std::make_unique<AddressingVerb>(); }

}  // namespace phasescope::app
