#include "protocol/messages/pair.h"

#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/several_models.h"

namespace phasescope::app {

namespace {

class PairVerb : public Verb {
 public:
  std::string name() const override { return "pair"; }
  std::string help() const override {
    return "one pair's phasors, and where the key would have to stand to be read";
  }
  std::string example() const override {
    return "phasescope pair rope --head L1H0 --query 40 --key 12";
  }
  void declare(Options& options) override {
    options.request(request_);
    others_.declare(options);
  }
  Output run(Run& run) override {
    const auto answers = others_.ask<protocol::PairResult>(run, request_);
    const ModelNames names = names_of(answers);
    if (others_.any()) return of_models(answers, names);
    const protocol::PairResult& pair = answers.front().result;
    Output output{.result = answers.front().json, .provenance = provenance_of(pair)};
    Table table = facts_table("", output.result, kFacts);
    table.notes.push_back(pair.formula);
    add_notes(table.notes, std::vector{pair.provenance}, names);
    output.tables = {std::move(table)};
    if (pair.curve) output.tables.push_back(curve_table(output.result));
    output.figures = pair_figures(pair, names);
    return output;
  }

 private:
  using Answers = std::vector<Answered<protocol::PairResult>>;
  inline static const std::vector<std::string> kFacts = {
      "true_distance", "score", "weight",        "content",     "positional",
      "rest",          "tail",  "best_distance", "share_above", "why"};

  static Table curve_table(const nlohmann::json& pair) {
    Table curve = table_of("", pair["curve"], {"distance", "score", "weight"});
    curve.for_files = true;
    return curve;
  }

  static Output of_models(const Answers& answers, const ModelNames& names) {
    Output output = output_of(answers);
    Table facts = table_of_models(answers, names,
                                  [](const protocol::PairResult& pair, const nlohmann::json& json) {
                                    Table row = table_of("", nlohmann::json::array({json}), kFacts);
                                    row.notes.push_back(pair.formula);
                                    return row;
                                  });
    for (const Answered<protocol::PairResult>& answer : answers) {
      add_notes(facts.notes, std::vector{answer.result.provenance}, names);
    }
    output.tables = {std::move(facts)};
    output.figures = {pair_of_models(results_of(answers), names)};
    return output;
  }

  protocol::PairRequest request_;
  FurtherModels others_;
};

}  // namespace

std::unique_ptr<Verb> pair_verb() { return std::make_unique<PairVerb>(); }

}  // namespace phasescope::app
