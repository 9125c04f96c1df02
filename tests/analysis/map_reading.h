#pragma once
#include <cstdint>
#include <span>

#include "analysis/head_reading.h"

namespace phasescope::analysis::testing {

// The whole of an explicit causal map (tokens, tokens), with a bucket for every distance.
inline HeadReading reading_of_map(std::span<const double> weights, std::int64_t tokens) {
  HeadReading reading(tokens, distance_edges(tokens, tokens));
  add_rows(reading, 0, weights);
  return reading;
}

}  // namespace phasescope::analysis::testing
