#pragma once
// Statistics on `period` seeded random tokens written twice: what a head does with a repetition.
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/metrics/registry.h"

namespace phasescope::analysis {

double duplicate_token(const MetricInput& input);
// Over the index set q = S..2S-1: a diagonal of the map would add the pair (S-1, 0), and a pure
// sink head would score 1/(S+1) instead of 0.
double induction(const MetricInput& input);

// `period` ids drawn uniformly from [0, vocabulary) without `left_out` (the id that begins a text),
// then the same again.
std::vector<std::int64_t> repeated_tokens(std::int64_t period, std::optional<std::int64_t> left_out,
                                          std::int64_t vocabulary, std::uint64_t seed);

}  // namespace phasescope::analysis
