#include "protocol/messages/profile.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"

namespace phasescope::app {

namespace {

class ProfileVerb : public Verb {
 public:
  std::string name() const override { return "profile"; }
  std::string help() const override {
    return "positional and semantic score of every head (arXiv 2609.39929)";
  }
  std::string example() const override { return "phasescope profile rope --texts 0:70:35"; }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::ProfileResult>(run, request_);
    const ModelNames names = names_of(answers);
    if (others_.any()) {
      Output output = output_of(answers);
      output.tables = {table_of_models(answers, names, table)};
      output.figures = {profile_of_models(results_of(answers), names)};
      return output;
    }
    const protocol::ProfileResult& profile = answers.front().result;
    Output output{.result = answers.front().json, .provenance = provenance_of(profile)};
    output.tables = {table(profile, output.result)};
    output.figures = {profile_figure(profile, names)};
    return output;
  }

 private:
  static Table table(const protocol::ProfileResult& profile, const nlohmann::json& json) {
    Table table = table_of("", json["rows"],
                           {"layer", "head", "positional", "positional_row", "semantic",
                            "semantic_share", "high_frequency", "ties", "invalid"});
    table.notes.push_back(profile.formula);
    table.notes.push_back("W = " + std::to_string(profile.window) + "; " +
                          std::to_string(profile.samples) + " pairs and triplets of each of " +
                          std::to_string(profile.texts.size()) + " texts");
    add_notes(table.notes, std::vector{profile.provenance}, ModelNames({profile.model}));
    return table;
  }

  protocol::ProfileRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> profile_verb() { return std::make_unique<ProfileVerb>(); }

}  // namespace phasescope::app
