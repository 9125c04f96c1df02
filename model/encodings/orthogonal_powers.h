#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "model/encoding.h"

// What APE's encodings share (arXiv 2312.16045): positions as powers of orthogonal matrices.

namespace phasescope::model {

// The options of all of them: the base and start of the first matrices, and the decay for each step
// of distance; `unit` is what such a step is.
OptionInfo ape_base_option();
OptionInfo start_option(const std::string& matrices);
OptionInfo decay_option(const std::string& unit);

// A generator A (d, d) with exp(A - A^T) = RoPE's rotation by one token, channels (2m, 2m + 1) a
// plane, angles base^(-2m/d). float64; d is even.
at::Tensor rope_generator(double base, std::int64_t dim);

// What every matrix starts as: "rope", the above; "public_rope", which the public code fits to four
// digits, turns the other way, and the planes 2j and 2j + 1 both have the angle of 2j; otherwise
// undefined, for small random numbers, near the identity.
at::Tensor start_generator(const std::string& start, double base, std::int64_t dim);

// W, W^2, W^4, ... of W = exp(A - A^T), A (..., d, d): (count, ..., d, d) of `dtype`, enough for
// powers up to `largest`. Computed in float64: each squaring doubles the error. Differentiable.
at::Tensor orthogonal_powers(const at::Tensor& generator, std::int64_t largest,
                             at::ScalarType dtype);

// W^n x of each token: x (B, H, N, d), powers (count, H, d, d), exponents n >= 0, (N) or (B, N)
// int64.
at::Tensor raised(const at::Tensor& x, const at::Tensor& powers, const at::Tensor& exponents);

// What score becomes under a decay: scale * q.k times decay^distance; `distance` gives steps (B or
// 1, rows, columns) of a region.
TermProgram decaying(double decay, std::function<at::Tensor(const TermRegion&)> distance);

}  // namespace phasescope::model
