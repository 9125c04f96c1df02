#pragma once
// TAPA's amplitudes, angles and scores of a model's pairs at chosen distances.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/theory/tapa_statistics.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {

// One head's pairs by distance.
struct TapaHead {
  std::int64_t layer = 0, head = 0;
  std::vector<TapaPairs> pairs;
  std::string name() const { return protocol::name_of_head(layer, head); }
};
struct TapaSamples {
  std::vector<TapaHead> heads;
  std::int64_t phase_channels = 0;  // n = (1 - t) D
  bool linear_phase = false;
  CheckResult refused;  // where `heads` is empty: the premise that is not met
};
// In float64, about `pairs` a head. Distances evenly spread in the logarithm up to the longest that
// at least 8 texts have. Read once for all checks of a context that keeps samples.
std::shared_ptr<const TapaSamples> tapa_samples(const CheckContext& context, std::int64_t pairs);

}  // namespace phasescope::analysis
