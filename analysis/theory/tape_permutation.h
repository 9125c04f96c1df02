#pragma once
// tape.permutation: the order of the tokens in memory means nothing (TAPE, arXiv 2501.00712,
// Proposition 3.1, Equation 4).
#include <vector>

#include "analysis/theory/equality.h"
#include "analysis/worst.h"

namespace phasescope::analysis {

TheoryCheck tape_permutation();

// f and g under one permutation: relative differences of the hidden states of every layer and of
// the position states, brought back to the old order. `permute_mask` false leaves the causal mask
// as it is, which must fail.
struct PermutationResidual {
  double hidden = 0, states = 0;
  double largest() const { return worst_of(hidden, states); }
};
PermutationResidual permutation_residual(const model::Decoder& decoder, const at::Tensor& ids,
                                         const std::vector<std::int64_t>& permutation,
                                         bool permute_mask = true);

}  // namespace phasescope::analysis
