#pragma once
// One factory for each verb; verbs.cpp lists them.
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

}  // namespace phasescope::app
