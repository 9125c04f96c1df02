#include "analysis/questions/registry.h"

namespace phasescope::analysis {

const std::vector<protocol::QuestionInfo>& questions() {
  static const std::vector<protocol::QuestionInfo> list = {
      {"addressing", "Does a head address by distance, by key, or by what only the pair can say?",
       "Shares of the variance of scores within rows that effects of distance and of key fit by "
       "least squares; a trend that either could have is given to the distance, and told apart.",
       "two-way analysis of variance with the counts of a causal triangle",
       "phasescope addressing rope tapa_norm none --out out/addressing", "addressing"},
      {"demand",
       "At which distances does a head want more weight, and which bias repairs the model?",
       "-d loss / d b(lambda) of a bias by distance, summed over buckets; `fit`: the bias itself, "
       "fitted, chosen and measured on different texts.",
       "gradient of the loss; L-BFGS (Liu and Nocedal 1989)",
       "phasescope demand rope --length 1024 --fit --out out/demand", "demand_rope_L1"},
      {"acuity", "How finely does the model need to know distance, and where?",
       "Change of loss where, in every row, the keys of a band of distances are shown at each "
       "other's distances.",
       "permutation within rows, which keeps keys, mask and distances",
       "phasescope acuity rope alibi cape_kerple tape tapa tapa_norm --out out/acuity", "acuity"},
      {"xray", "Which heads fail past the trained length, and what is the smallest repair?",
       "Change of loss past the trained length where a head alone, or all but it, is given a "
       "window "
       "or a clamp; weight on phases, values or distances that training never showed.",
       "single-head interventions; greedy search, measured on other texts",
       "phasescope xray rope --length 1024 --repair --out out/xray", "xray_one_alone_rope"},
      {"pair", "Where would this key have to stand to be read?",
       "Score and weight of one pair at every other distance, the other keys staying where they "
       "are; its phasors.",
       "each encoding's own formula (docs/equations.md)",
       "phasescope pair rope --head L2H1 --query 200 --key 150 --out out/pair",
       "pair_weight_rope_L2H1"},
      {"profile", "How much of a head's scores is positional, how much semantic?",
       "Mean step of a pair's score over the norm of its amplitudes; how surely the order of two "
       "keys at the same distance is that of their content.",
       "arXiv 2609.39929", "phasescope profile rope tape tapa --out out/profile", "profile"},
      {"duel", "Is one model better than another, and may one look while texts are read?",
       "Difference of the loss, paired by text, with an interval that is valid after every text.",
       "mixture of scale-free t likelihood ratios; Ville's inequality",
       "phasescope duel rope tapa --out out/duel", "duel"},
      {"prove", "Does the program find what is true by construction?",
       "Weights and head statistics of models whose heads are known, against closed forms.",
       "this program", "phasescope prove --out out/prove", "prove"},
  };
  return list;
}

std::string page_of_questions() {
  std::string page = "| id | question | measure | source |\n|---|---|---|---|\n";
  for (const protocol::QuestionInfo& one : questions()) {
    page +=
        "| `" + one.id + "` | " + one.question + " | " + one.measure + " | " + one.source + " |\n";
  }
  for (const protocol::QuestionInfo& one : questions()) {
    if (one.command.empty()) continue;
    page += "\n## " + one.question + "\n\n`" + one.command + "`\n\n![" + one.id +
            "](images/questions/" + one.figure + ".svg)\n";
  }
  return page;
}

}  // namespace phasescope::analysis
