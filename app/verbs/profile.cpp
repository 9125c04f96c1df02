#include "protocol/messages/profile.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {

namespace {

class ProfileVerb : public Verb {
 public:
  std::string name() const override { return "profile"; }
  std::string help() const override {
    return "positional and semantic score of every head (arXiv 2609.39929)";
  }
  std::string example() const override { return "phasescope profile rope --texts 0:70:35"; }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [profile, json, tensors] = run.ask<protocol::ProfileResult>(request_);
    Output output{.result = std::move(json), .provenance = provenance_of(profile)};
    const ModelNames names({profile.model});
    Table table = table_of("", output.result["rows"],
                           {"layer", "head", "positional", "positional_row", "semantic",
                            "semantic_share", "high_frequency", "ties", "invalid"});
    table.notes.push_back(profile.formula);
    table.notes.push_back("W = " + std::to_string(profile.window) + "; " +
                          std::to_string(profile.samples) + " pairs and triplets of each of " +
                          std::to_string(profile.texts.size()) + " texts");
    add_notes(table.notes, std::vector{profile.provenance}, names);
    output.tables = {std::move(table)};
    output.figures = {profile_figure(profile, names)};
    return output;
  }

 private:
  protocol::ProfileRequest request_;
};

}  // namespace

std::unique_ptr<Verb> profile_verb() { return std::make_unique<ProfileVerb>(); }

}  // namespace phasescope::app
