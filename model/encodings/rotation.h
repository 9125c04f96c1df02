#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model/encoding.h"

// What every encoding that rotates q and k shares: frequencies, angles, the rotation itself.

namespace phasescope::model {

// Which channels form plane m: (m, m + d/2), as Llama's weights on the hub, or (2m, 2m + 1), as the
// papers write it. The same maths on permuted weights.
enum class RotationLayout { half, interleaved };

// Multiplies each plane of x (B, H, N, d) by its token's complex number in z (B or 1, H or 1, N, 2,
// d/2): a rotation where |z| = 1. Differentiable in both.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& z, RotationLayout layout);

// base^(-2m/d), m = 0..d/2-1, computed in `dtype` (float32 in the way the usual references do it).
at::Tensor rope_frequencies(double base, std::int64_t head_dim, at::ScalarType dtype);

// Position ids as numbers of context.angle_dtype, (N).
at::Tensor position_values(const StartContext& context, std::int64_t extra_shift = 0);

// (1, 1, N, 2, d/2) of context.dtype: cosines and sines of positions (N) times frequencies (d/2).
at::Tensor rotation_state(const at::Tensor& positions, const at::Tensor& frequencies,
                          at::ScalarType dtype);

}  // namespace phasescope::model
