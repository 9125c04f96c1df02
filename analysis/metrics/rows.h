#pragma once
// Statistics that are means over the rows of a map (docs/equations.md, "Statistics of a head").
#include "analysis/metrics/registry.h"

namespace phasescope::analysis {

double mean_entropy(const MetricInput& input);
double mean_normalised_entropy(const MetricInput& input);
double sink(const MetricInput& input);
double learned_sink(const MetricInput& input);
double previous_token(const MetricInput& input);
double mean_distance(const MetricInput& input);
double mean_distance_without_first(const MetricInput& input);
double top1_mass(const MetricInput& input);
double effective_keys(const MetricInput& input);
// The weight within the `number`-th window of the reading.
double window_mass(const MetricInput& input, std::size_t number);

}  // namespace phasescope::analysis
