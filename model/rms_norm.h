#pragma once

#include <ATen/core/Tensor.h>

namespace phasescope::model {

// x (..., C) / sqrt(mean(x^2) + eps) * weight (C); the result has dtype `out`. Differentiable.
// float32 on the CPU runs in one pass forward and one backward (a training step spends a tenth of
// its time here otherwise), anything else in plain tensor ops.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out);

// The plain form: definition and reference.
at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace phasescope::model
