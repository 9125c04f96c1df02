#pragma once
// The tables of results, as verbs print them and views show them.
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "app/cli/output.h"
#include "app/cli/run.h"
#include "app/figures/figures.h"
#include "protocol/headings.h"
#include "protocol/messages/ablate.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/eval.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/patterns.h"
#include "protocol/messages/shift.h"

namespace phasescope::app {

// The keys of what a request has that is not its default.
template <class R>
std::set<std::string> given(const R& request) {
  std::set<std::string> keys;
  const nlohmann::json params = protocol::params_of(request);
  for (const auto& [key, value] : params.items()) keys.insert(key);
  return keys;
}

// "1 thread", "2 threads".
std::string counted(std::int64_t count, const std::string& what);

// These keys of `rows`, in that order.
Table table_of(std::string title, const nlohmann::json& rows, std::vector<std::string> columns);
// These keys of `rows`, JSON forms of Row, headed by the titles and units of its fields.
template <class Row>
Table table_of(std::string title, const nlohmann::json& rows, std::vector<std::string> columns) {
  Table table = table_of(std::move(title), rows, std::move(columns));
  table.headings = protocol::headings_of<Row>();
  return table;
}

// A table of two columns from a flat JSON object's scalars, in the order given.
Table facts_table(std::string title, const nlohmann::json& object,
                  const std::vector<std::string>& keys);

template <class R>
R result_of(const protocol::Reply& reply) {
  return protocol::from_json_form<R>(reply.result);
}

// Whether a metric of a heads result is one number of each head: some are curves, or of the model.
bool has_values(const protocol::HeadsResult& heads, const std::string& metric);
// `rows` of a heads result, its metrics in the order of the result; a head that is not there has
// none.
Table heads_table(const protocol::HeadsResult& heads, nlohmann::json rows);

// The distance profiles of every head, a row for each distance; without rows where the result has
// none.
Table distance_profiles_table(const protocol::HeadsResult& heads);
// The profiles of every head by wider bands of distances, with intervals over texts.
Table profile_bands_table(const protocol::HeadsResult& heads);

// One row for each model, method and shift, the attention differences of the layers across. Of
// several dtypes the first one's, which a note says; `shift_rows_table` has all.
Table shift_table(const protocol::ShiftResult& result);
// Every row as it is, for files.
Table shift_rows_table(const nlohmann::json& result);

// What TAPE's Table 8 prints for the encodings of a result, where a shift is by 3; without rows
// where it prints nothing.
Table published_shift_table(const protocol::ShiftResult& result);
// A row for each change of an ablation, what costs most first.
Table ablate_table(const protocol::AblateResult& result);

// The loss of both models of a comparison, and their difference.
Table losses_table(const protocol::CompareResult& compare);

// A - B of the weights of the head whose rows differ most between the two models of a request;
// nothing where no head was compared. With `head` ("L3H1") that of this head.
std::optional<widgets::PlotSpec> largest_difference(Run& run, const protocol::CompareResult& result,
                                                    const protocol::CompareRequest& request,
                                                    const std::string& head = "");

// What makes a result repeatable, as Output has it.
template <class Result>
nlohmann::json provenance_of(const Result& result) {
  return protocol::to_json_form(protocol::provenances(result));
}

// Magnitude and drift of the position states of a patterns result, and what its G is.
Table states_table(const protocol::PatternsResult& patterns);
// The states of the model that it is held against; without rows where there is none.
Table against_states_table(const protocol::PatternsResult& patterns);
// Every row of single queries, a line for each distance, for files; without rows where there is
// none.
Table bias_rows_table(const protocol::PatternsResult& patterns);
// A row for each bias curve, its values at distances 0, 1, 2, 4, .. and the last.
Table bias_table(const protocol::PatternsResult& patterns);

// How the bias of every head varies over texts, and which way it slopes.
Table adaptive_table(const protocol::PatternsResult& patterns);

// The models of a distance result that something was measured of.
std::vector<protocol::DistanceModel> measured(const protocol::DistanceResult& result);

// Means of the coefficients of the heads of a distance result over all pairs and planes, and their
// regimes; without rows where no model rotates.
Table head_bias_table(const protocol::DistanceResult& result);

// Mean, interval, sigma, skewness and share above 0 of every histogram of a distance result.
Table near_far_table(const protocol::DistanceResult& result);

}  // namespace phasescope::app
