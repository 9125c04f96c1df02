#include "protocol/messages/duel.h"

#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"

namespace phasescope::app {
namespace {

// "12 texts", "4 seeds, 70 texts".
std::string counts_in_words(const protocol::DuelResult& duel) {
  const bool seeds = duel.unit == "seeds";
  const std::string read = duel.per == "answer" ? " samples" : " texts";
  return std::to_string(duel.n) + (seeds ? " seeds, " + std::to_string(duel.texts) + read : read);
}

// By how much one is better than the other: what A loses less, or B.
protocol::Interval gain(const protocol::DuelResult& duel, bool of_a) {
  protocol::Interval gained{.mean = duel.mean, .low = duel.low, .high = duel.high};
  if (!of_a) return gained;
  gained.mean = -duel.mean;
  gained.low = duel.high ? protocol::IntervalEnd(-*duel.high) : protocol::IntervalEnd();
  gained.high = duel.low ? protocol::IntervalEnd(-*duel.low) : protocol::IntervalEnd();
  return gained;
}

// "rope (A) better by 0.012 [0.004, 0.02] bits a token, 12 texts".
std::string verdict_in_words(const protocol::DuelResult& duel, const ModelNames& names) {
  const std::string of = " bits a " + duel.per + ", " + counts_in_words(duel);
  if (duel.verdict == "A better" || duel.verdict == "B better") {
    const bool a = duel.verdict == "A better";
    return names.short_name(a ? duel.a : duel.b) + (a ? " (A)" : " (B)") + " better by " +
           with_ends(gain(duel, a)) + of;
  }
  const std::string difference = with_ends(duel.mean, duel.low, duel.high) + of;
  if (duel.verdict == "equal within") {
    return "equal within " + widgets::short_number(duel.margin) + ": " + difference;
  }
  return "undecided: " + difference;
}

// What seeds say of other texts, which the texts of one pair of models say by themselves.
void add_other_texts(const protocol::DuelResult& duel, std::vector<std::string>& notes) {
  if (duel.by_text) {
    notes.push_back("on other texts, with these seeds: " + with_ends(*duel.by_text));
  }
  if (!duel.two_way) return;
  const protocol::Interval& both = *duel.two_way;
  const bool holds = both.low && both.high && (*both.low > 0 || *both.high < 0);
  notes.push_back("on other texts and seeds: " + with_ends(both) +
                  (holds ? ", which holds there too" : ", which leaves it open there"));
}

void add_tensors(const protocol::DuelResult& duel, std::vector<std::string>& notes) {
  if (duel.unit != "seeds") return;
  std::string words = std::to_string(duel.shared.size()) + " tensors start alike";
  for (std::size_t n = 0; n < duel.not_shared.size() && n < 4; ++n) {
    words += (n == 0 ? ", not: " : ", ") + duel.not_shared[n];
  }
  if (duel.not_shared.size() > 4) {
    words += " and " + std::to_string(duel.not_shared.size() - 4) + " more (--json has all)";
  }
  notes.push_back(std::move(words));
}

Table duel_table(const protocol::DuelResult& duel, const ModelNames& names) {
  Table table{.columns = {"verdict", "mean", "low", "high", "n", "texts", "length", "skewness",
                          "n_to_decide"}};
  table.headings = protocol::headings_of<protocol::DuelResult>();
  nlohmann::json cells = protocol::to_json_form(duel);
  for (const char* many :
       {"path", "units", "provenance", "by_text", "two_way", "shared", "not_shared"}) {
    cells.erase(many);
  }
  if (!duel.skewness) cells["skewness"] = "too few to tell";
  table.rows.push_back(std::move(cells));
  table.notes.push_back(verdict_in_words(duel, names));
  if (!duel.why.empty()) table.notes.push_back(duel.why);
  table.notes.push_back("a negative difference speaks for A, " + names.short_name(duel.a) +
                        "; interval: " + duel.method +
                        (duel.low ? " (it holds though the duel stops when it decides)" : ""));
  add_other_texts(duel, table.notes), add_tensors(duel, table.notes);
  add_notes(table.notes, duel.provenance, names);
  return table;
}

Table units_table(const protocol::DuelResult& duel) {
  Table table = table_of<protocol::DuelUnit>(duel.unit + ", in the order in which they were read",
                                             protocol::to_json_form(duel.units),
                                             {"name", "a", "b", "difference"});
  table.for_files = true;
  return table;
}

class DuelVerb : public Verb {
 public:
  std::string name() const override { return "duel"; }
  std::string help() const override {
    return "which of two models or recipes is better, read or trained until it is known";
  }
  std::string example() const override {
    return "phasescope duel rope alibi --lengths 1024\n"
           "phasescope duel rope 'rope (encoding.base=5e4)' --margin 0.01 --out out/duel\n"
           "phasescope duel sample_configs/duels/none.json sample_configs/duels/alibi.json "
           "--seeds 1,2 --job out/none_alibi";
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
