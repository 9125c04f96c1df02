#pragma once
// Small pieces that several verbs use.
#include <string>
#include <vector>

#include "app/figures/figures.h"
#include "app/verbs/verb.h"
#include "protocol/results.h"

namespace phasescope::app {

// Columns of `rows`: `first` in that order where present, then every other key of the first row.
Table table_of(std::string title, const nlohmann::json& rows, std::vector<std::string> first,
               bool others = false);

// A table of two columns from a flat JSON object's scalars, in the order given.
Table facts_table(std::string title, const nlohmann::json& object,
                  const std::vector<std::string>& keys);

template <class R>
R result_of(const protocol::Reply& reply) {
  return protocol::from_json_form<R>(reply.result);
}

// "rope,tapa" or several words: the models of a request.
nlohmann::json models_param(const std::vector<std::string>& models);

// Mean, interval, sigma, skewness and share above 0 of every histogram of a distance result.
Table near_far_table(const protocol::DistanceResult& result);

}  // namespace phasescope::app
