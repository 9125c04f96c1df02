#pragma once
// Small pieces that several verbs use.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "app/verbs/verb.h"
#include "protocol/messages/compare.h"
#include "protocol/messages/distance.h"
#include "protocol/messages/heads.h"
#include "protocol/messages/shift.h"

namespace phasescope::app {

// These keys of `rows`, in that order.
Table table_of(std::string title, const nlohmann::json& rows, std::vector<std::string> columns);

// A table of two columns from a flat JSON object's scalars, in the order given.
Table facts_table(std::string title, const nlohmann::json& object,
                  const std::vector<std::string>& keys);

template <class R>
R result_of(const protocol::Reply& reply) {
  return protocol::from_json_form<R>(reply.result);
}

// `rows` of a heads result, its metrics in the order of the result.
Table heads_table(const protocol::HeadsResult& heads, nlohmann::json rows);

// One row for each model, method, shift and dtype, the attention differences of the layers across.
Table shift_table(const protocol::ShiftResult& result);

// A - B of the weights of the head whose rows differ most between the two models of a request;
// nothing where no head was compared.
std::optional<widgets::PlotSpec> largest_difference(Run& run, const protocol::CompareResult& result,
                                                    const protocol::CompareRequest& request);

// What makes a result repeatable, as Output has it.
template <class Result>
nlohmann::json provenance_of(const Result& result) {
  return protocol::to_json_form(protocol::provenances(result));
}

// Mean, interval, sigma, skewness and share above 0 of every histogram of a distance result.
Table near_far_table(const protocol::DistanceResult& result);

}  // namespace phasescope::app
