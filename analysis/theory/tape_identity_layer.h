#pragma once
// tape.identity_layer: a layer that changes nothing (TAPE, arXiv 2501.00712, Lemma B.4, corrected).
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "analysis/theory/check.h"
#include "analysis/theory/tape_bare_layer.h"

namespace phasescope::analysis {

TheoryCheck tape_identity_layer();

// W_V = 0, the MLP's last matrix and bias 0.
BareLayer identity_layer(BareLayer layer);

// Largest |f(X) - X|: 0, not small, where the lemma holds.
double identity_difference(const BareLayer& layer, const at::Tensor& x, const at::Tensor& e,
                           const at::Tensor& mask);

}  // namespace phasescope::analysis
