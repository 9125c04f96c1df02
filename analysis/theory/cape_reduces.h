#pragma once
// cape.reduces: without its correction CAPE is its base encoding (CAPE, arXiv 2405.14722, Equations
// 2 to 5).
#include <ATen/core/Tensor.h>

#include <memory>

#include "analysis/theory/check.h"
#include "model/checkpoints/open_model.h"

namespace phasescope::analysis {

TheoryCheck cape_reduces();

// The same weights with f's output layer 0, or with the correction taken off altogether: the base
// encoding where it is added to (concat_residual, add_residual, conv), none elsewhere.
model::Decoder without_output(const model::Decoder& cape);
model::Decoder base_of(const model::Decoder& cape);

// Largest relative difference of the outputs of `cape` from those of its base.
double difference_from_base(const model::Decoder& cape, const at::Tensor& ids);

}  // namespace phasescope::analysis
