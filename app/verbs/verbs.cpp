#include "app/verbs/verbs.h"

#include "app/verbs/factories.h"

namespace phasescope::app {

std::vector<std::unique_ptr<Verb>> all_verbs() {
  using Factory = std::unique_ptr<Verb> (*)();
  constexpr Factory factories[] = {
      view_verb,      models_verb, info_verb,    check_verb,  capture_verb,  tokenize_verb,
      generate_verb,  text_verb,   heads_verb,   map_verb,    patterns_verb, distance_verb,
      shift_verb,     theory_verb, compare_verb, cost_verb,   convert_verb,  report_verb,
      train_verb,     eval_verb,   jobs_verb,    bench_verb,  worker_verb,   addressing_verb,
      demand_verb,    acuity_verb, xray_verb,    pair_verb,   profile_verb,  duel_verb,
      prove_verb,     ablate_verb, formula_verb, import_verb, data_verb,     sweep_verb,
      reproduce_verb, doctor_verb, query_verb,
  };
  std::vector<std::unique_ptr<Verb>> verbs;
  for (Factory factory : factories) verbs.push_back(factory());
  return verbs;
}

}  // namespace phasescope::app
