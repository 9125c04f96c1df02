#pragma once
// The answers of several models to one question, as one output.
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "app/outputs/result_tables.h"

namespace phasescope::app {

// The output of several answers: {"models": [...]}, all provenance, and the results as a list.
template <class Result>
Output output_of(const std::vector<Answered<Result>>& answers) {
  Output output{.result = {{"models", nlohmann::json::array()}}};
  for (const Answered<Result>& answer : answers) {
    output.result["models"].push_back(answer.json);
    for (const auto& one : provenance_of(answer.result)) output.provenance.push_back(one);
  }
  return output;
}

template <class Result>
std::vector<Result> results_of(const std::vector<Answered<Result>>& answers) {
  std::vector<Result> results;
  for (const Answered<Result>& answer : answers) results.push_back(answer.result);
  return results;
}

template <class Result>
ModelNames names_of(const std::vector<Answered<Result>>& answers) {
  std::vector<std::string> models;
  for (const Answered<Result>& answer : answers) models.push_back(answer.result.model);
  return ModelNames(models);
}

// What stands in the notes of models' own tables of the way that they read, once where it is said
// of all of them alike.
inline void say_once(std::vector<std::string>& notes,
                     const std::vector<protocol::Provenance>& provenance, const ModelNames& names) {
  std::vector<std::string> own;
  for (const protocol::Provenance& one : provenance) add_notes(own, std::vector{one}, names);
  const auto said = std::erase_if(notes, [&](const std::string& note) {
    return std::find(own.begin(), own.end(), note) != own.end();
  });
  if (said > 0) add_notes(notes, provenance, names);
}

// The tables of each model as one, with a column of their names; notes that models share once.
template <class Result, class MakeTable>
Table table_of_models(const std::vector<Answered<Result>>& answers, const ModelNames& names,
                      MakeTable make) {
  Table all;
  all.rows = nlohmann::json::array();
  for (const Answered<Result>& answer : answers) {
    Table one;
    if constexpr (std::is_invocable_v<MakeTable, const Result&, const nlohmann::json&,
                                      const ModelNames&>) {
      one = make(answer.result, answer.json, names);  // whose notes name the model
    } else {
      one = make(answer.result, answer.json);
    }
    if (all.columns.empty()) {
      all = one;
      all.rows = nlohmann::json::array(), all.notes.clear();
      all.columns.insert(all.columns.begin(), "model");
    }
    for (const std::string& column : one.columns) {
      if (std::find(all.columns.begin(), all.columns.end(), column) == all.columns.end()) {
        all.columns.push_back(column);
      }
    }
    for (nlohmann::json& row : one.rows) {
      row["model"] = names.short_name(answer.result.model);
      all.rows.push_back(std::move(row));
    }
    for (const std::string& note : one.notes) {
      if (std::find(all.notes.begin(), all.notes.end(), note) == all.notes.end()) {
        all.notes.push_back(note);
      }
    }
  }
  if constexpr (requires(const Result& result) { result.provenance.note; }) {
    std::vector<protocol::Provenance> made;
    for (const Answered<Result>& answer : answers) made.push_back(answer.result.provenance);
    say_once(all.notes, made, names);
  }
  return all;
}

}  // namespace phasescope::app
