#include "protocol/messages/addressing.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class AddressingVerb : public Verb {
 public:
  std::string name() const override { return "addressing"; }
  std::string help() const override {
    return "how much of a head's scores is distance, how much the key, how much only the pair";
  }
  std::string example() const override { return "phasescope addressing rope --texts 0:70:20"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [addressing, json, tensors] = run.ask<protocol::AddressingResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(addressing)};
    const ModelNames names({addressing.model});
    Table table = table_of("", output.result["rows"],
                           {"layer", "head", "distance_first", "key_last", "interaction",
                            "distance_last", "key_first", "trend", "query", "why"});
    table.notes.push_back(addressing.formula);
    table.notes.push_back("query is a share of the whole variance; n = " +
                          std::to_string(addressing.texts.size()) + " texts");
    if (!addressing.rows.empty()) table.notes.push_back(floor_note(addressing.rows.front().floor));
    add_notes(table.notes, std::vector{addressing.provenance}, names);
    output.tables = {std::move(table)};
    output.figures = {addressing_figure(addressing, names)};
    return output;
  }

 private:
  static std::string floor_note(const protocol::AddressingFloor& floor) {
    return "scores without any structure would read " + widgets::short_number(floor.distance) +
           " of distance and " + widgets::short_number(floor.key) + " of key";
  }

  protocol::AddressingRequest request_;
};

}  // namespace

std::unique_ptr<Verb> addressing_verb() { return std::make_unique<AddressingVerb>(); }

}  // namespace phasescope::app
