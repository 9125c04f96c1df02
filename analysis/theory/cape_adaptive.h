#pragma once
// cape.adaptive: how much CAPE's bias varies with the context, and which way it slopes (CAPE, arXiv
// 2405.14722, Figure 1).
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/theory/check.h"
#include "protocol/messages/provenance.h"

namespace phasescope::analysis {

TheoryCheck cape_adaptive();

// One head's bias: a row a context, by distance.
struct AdaptiveBias {
  std::vector<double> distance;             // above 0
  std::vector<std::vector<double>> values;  // [context][distance]
};
struct AdaptiveHead {
  double over_contexts = 0;  // variance over contexts (n - 1), mean over distances
  double over_distance = 0;  // variance over distances of the mean over contexts (n)
  protocol::Interval slope;  // of the bias in ln(distance), over contexts
  std::string kind;          // local, anti-local, flat
};
AdaptiveHead adaptive_head(const AdaptiveBias& bias, std::uint64_t seed);

// Contexts that a class needs.
inline constexpr std::size_t kFewestContexts = 64;

}  // namespace phasescope::analysis
