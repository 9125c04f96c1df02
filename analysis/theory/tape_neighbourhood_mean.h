#pragma once
// tape.neighbourhood_mean: attention without scores is the mean over what a row sees (TAPE, arXiv
// 2501.00712, Lemma B.5, corrected).
#include <ATen/core/Tensor.h>

#include "analysis/theory/check.h"
#include "analysis/theory/tape_bare_layer.h"

namespace phasescope::analysis {

TheoryCheck tape_neighbourhood_mean();

// Mean of W_V x_j over the columns that each row of the mask sees, (N, C).
at::Tensor neighbourhood_mean(const BareLayer& layer, const at::Tensor& x, const at::Tensor& mask);

// Largest difference of the attention of a layer without its residual from that mean.
double mean_difference(BareLayer layer, const at::Tensor& x, const at::Tensor& e,
                       const at::Tensor& mask, const at::Tensor& bias = {}, bool residual = false);

}  // namespace phasescope::analysis
