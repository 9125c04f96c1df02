#pragma once
// How much the bias of a head varies with the context, and which way it slopes (CAPE, arXiv
// 2405.14722, Figure 1).
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/head_bias.h"
#include "analysis/intervals/intervals.h"
#include "model/attention/layer_attention.h"
#include "model/attention/token_pairs.h"
#include "protocol/messages/provenance.h"

namespace phasescope::analysis {

// One head's bias: a row a context, by distance.
struct AdaptiveBias {
  std::vector<double> distance;             // above 0
  std::vector<std::vector<double>> values;  // [context][distance]
};
struct AdaptiveHead {
  double over_contexts = 0;      // variance over contexts (n - 1), mean over distances
  double over_distance = 0;      // variance over distances of the mean over contexts (n)
  protocol::Interval slope;      // of the bias in ln(distance), over contexts
  std::string kind;              // local, anti-local, flat; empty below kFewestContexts
  std::vector<double> mean, sd;  // over contexts, by distance
  // The ratio over_contexts / over_distance: what each context adds to either, the latter to first
  // order in the context (its mean over contexts is over_distance as it is; one may be below 0).
  std::vector<Part> share;
};
// The interval of the ratio that these parts have, of one head or of several added up, by the mean
// of what each context makes of it to first order.
protocol::Interval contexts_share(const std::vector<Part>& parts, const Draws& draws);

AdaptiveHead adaptive_head(const AdaptiveBias& bias, std::uint64_t seed);

// Contexts that a class needs.
inline constexpr std::size_t kFewestContexts = 64;

// Two dozen distances from 1 to `query`, evenly in the logarithm; `query` is at least 1.
std::vector<std::int64_t> spread_distances(std::int64_t query);

// A query with its keys at spread_distances(), as layers on a device are asked for them.
struct SpreadKeys {
  SpreadKeys(std::int64_t query, const at::Device& device);

  std::int64_t query;
  std::vector<std::int64_t> distances;
  model::TokenPairs pairs;  // of head 0
};

// Adds the bias (score less content) that each head of a layer gives the query at these distances.
void add_biases(const model::LayerAttention& attention, const SpreadKeys& keys,
                std::map<LayerHead, AdaptiveBias>& heads);

}  // namespace phasescope::analysis
