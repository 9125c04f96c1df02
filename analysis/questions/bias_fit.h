#pragma once
// The bias by layer, head and distance that lowers the loss, fitted on some texts, chosen on others
// and measured on others again.
#include <cstdint>
#include <vector>

#include "analysis/questions/demand.h"

namespace phasescope::analysis {

struct FitOptions {
  model::Backend backend = model::Backend::fused;
  std::int64_t steps = 12;
  std::int64_t start_window = 0;  // keys this far start at -20; 0: none do
  std::uint64_t seed = 0;
};

struct FittedBias {
  DistanceBias bias;  // bucket 0 of every head is 0, which leaves all weights as they are
  protocol::DemandFit report;
};

// Fewer cannot be shared out.
inline constexpr std::size_t kFewestTextsToFit = 12;

// Texts by their place n in the list: n mod 4 = 0 fit, 1 choose, 2 and 3 test. Full-batch L-BFGS
// with 10 pairs; the step with the lowest loss on `choose`, the start without a bias among them, is
// the answer. Throws Error "bad_input" for fewer than 12 texts.
FittedBias fit_bias(const model::Model& model, const Texts& texts,
                    const std::vector<std::int64_t>& edges, const FitOptions& options,
                    model::AllRan& kernels, protocol::Progress& progress);

}  // namespace phasescope::analysis
