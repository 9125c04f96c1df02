#include "protocol/messages/duel.h"

#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"

namespace phasescope::app {
namespace {

// "rope (A) better by 0.012 [0.004, 0.02] bits a token".
std::string verdict_in_words(const protocol::DuelResult& duel, const ModelNames& names) {
  const std::string by = with_ends(duel.mean, duel.low, duel.high) + " bits a " + duel.per;
  if (duel.verdict == "A better") return names.short_name(duel.a) + " (A) better: " + by;
  if (duel.verdict == "B better") return names.short_name(duel.b) + " (B) better: " + by;
  if (duel.verdict == "equal within") {
    return "equal within " + widgets::short_number(duel.margin) + ": " + by;
  }
  return "undecided: " + by;
}

Table duel_table(const protocol::DuelResult& duel, const ModelNames& names) {
  Table table{.columns = {"verdict", "mean", "low", "high", "n", "texts", "length", "skewness",
                          "n_to_decide"}};
  table.headings = protocol::headings_of<protocol::DuelResult>();
  nlohmann::json cells = protocol::to_json_form(duel);
  for (const char* many : {"path", "units", "provenance"}) cells.erase(many);
  table.rows.push_back(std::move(cells));
  table.notes.push_back(verdict_in_words(duel, names));
  if (!duel.why.empty()) table.notes.push_back(duel.why);
  table.notes.push_back("negative: A, " + names.short_name(duel.a) + ", is better; interval: " +
                        duel.method + " (it holds though the duel stops when it decides)");
  add_notes(table.notes, duel.provenance, names);
  return table;
}

Table units_table(const protocol::DuelResult& duel) {
  Table table = table_of<protocol::DuelUnit>("texts, in the order in which they were read",
                                             protocol::to_json_form(duel.units),
                                             {"name", "a", "b", "difference"});
  table.for_files = true;
  return table;
}

class DuelVerb : public Verb {
 public:
  std::string name() const override { return "duel"; }
  std::string help() const override {
    return "which of two models predicts better, read text by text until it is known";
  }
  std::string example() const override {
    return "phasescope duel rope alibi --lengths 1024\n"
           "phasescope duel rope 'rope (encoding.base=5e4)' --margin 0.01 --out out/duel";
  }
  void declare(Options& options) override { options.request(request_); }
  Output run(Run& run) override {
    auto [duel, json, tensors] = run.ask<protocol::DuelResult>(request_);
    const ModelNames names({duel.a, duel.b});
    Output output{.result = std::move(json), .provenance = provenance_of(duel)};
    output.tables = {duel_table(duel, names), units_table(duel)};
    output.figures = {duel_figure(duel, names)};
    return output;
  }

 private:
  protocol::DuelRequest request_;
};

}  // namespace

std::unique_ptr<Verb> duel_verb() { return std::make_unique<DuelVerb>(); }

}  // namespace phasescope::app
