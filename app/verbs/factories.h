#pragma once
// The factory of each verb, and the list of them all.
#include <memory>

namespace phasescope::app {

class Verb;

std::unique_ptr<Verb> view_verb();
std::unique_ptr<Verb> models_verb();
std::unique_ptr<Verb> info_verb();
std::unique_ptr<Verb> check_verb();
std::unique_ptr<Verb> capture_verb();
std::unique_ptr<Verb> tokenize_verb();
std::unique_ptr<Verb> generate_verb();
std::unique_ptr<Verb> heads_verb();
std::unique_ptr<Verb> map_verb();
std::unique_ptr<Verb> query_verb();
std::unique_ptr<Verb> patterns_verb();
std::unique_ptr<Verb> distance_verb();
std::unique_ptr<Verb> shift_verb();
std::unique_ptr<Verb> text_verb();
std::unique_ptr<Verb> theory_verb();
std::unique_ptr<Verb> compare_verb();
std::unique_ptr<Verb> convert_verb();
std::unique_ptr<Verb> cost_verb();
std::unique_ptr<Verb> data_verb();
std::unique_ptr<Verb> ablate_verb();
std::unique_ptr<Verb> addressing_verb();
std::unique_ptr<Verb> formula_verb();
std::unique_ptr<Verb> import_verb();
std::unique_ptr<Verb> demand_verb();
std::unique_ptr<Verb> doctor_verb();
std::unique_ptr<Verb> acuity_verb();
std::unique_ptr<Verb> duel_verb();
std::unique_ptr<Verb> xray_verb();
std::unique_ptr<Verb> pair_verb();
std::unique_ptr<Verb> profile_verb();
std::unique_ptr<Verb> prove_verb();
std::unique_ptr<Verb> report_verb();
std::unique_ptr<Verb> reproduce_verb();
std::unique_ptr<Verb> sweep_verb();
std::unique_ptr<Verb> train_verb();
std::unique_ptr<Verb> eval_verb();
std::unique_ptr<Verb> jobs_verb();
std::unique_ptr<Verb> bench_verb();
std::unique_ptr<Verb> worker_verb();

// In the order of `phasescope --help`.
using VerbFactory = std::unique_ptr<Verb> (*)();
inline constexpr VerbFactory kVerbs[] = {
    view_verb,      models_verb, info_verb,    check_verb,  capture_verb,  tokenize_verb,
    generate_verb,  text_verb,   heads_verb,   map_verb,    patterns_verb, distance_verb,
    shift_verb,     theory_verb, compare_verb, cost_verb,   convert_verb,  report_verb,
    train_verb,     eval_verb,   jobs_verb,    bench_verb,  worker_verb,   addressing_verb,
    demand_verb,    acuity_verb, xray_verb,    pair_verb,   profile_verb,  duel_verb,
    prove_verb,     ablate_verb, formula_verb, import_verb, data_verb,     sweep_verb,
    reproduce_verb, doctor_verb, query_verb,
};

}  // namespace phasescope::app
