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

// "rope,tapa" or several words: the models of a request. Commas within parentheses belong to a
// name.
nlohmann::json models_param(const std::vector<std::string>& models);

// `rows` of a heads result, its metrics in the order of the result.
Table heads_table(const protocol::HeadsResult& heads, nlohmann::json rows);

// One row for each model, method, shift and dtype, the attention differences of the layers across.
Table shift_table(const protocol::ShiftResult& result);

// A - B of the weights of the head whose rows differ most between two models; nothing where no head
// was compared. `models`: as they were named in the request; `params`: the input of both.
std::optional<widgets::PlotSpec> largest_difference(Run& run, const protocol::CompareResult& result,
                                                    const std::array<std::string, 2>& models,
                                                    const nlohmann::json& params);

// Mean, interval, sigma, skewness and share above 0 of every histogram of a distance result.
Table near_far_table(const protocol::DistanceResult& result);

}  // namespace phasescope::app
