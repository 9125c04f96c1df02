#pragma once

#include "model/checkpoints/conversions/conversion.h"

namespace phasescope::model {

// An orthogonal matrix W = exp(S), S skew, as rotations of planes: W = P Q P^T.
struct NormalForm {
  at::Tensor basis;   // P (d, d) float64, orthogonal; columns (2m, 2m + 1) span plane m
  at::Tensor angles;  // (d/2) float64: Q turns plane m by this, in (-pi, pi]
};
// `skew` (d, d), S^T = -S, d even.
NormalForm normal_form(const at::Tensor& skew);

// APE on sequences to RoPE with angles of each head's own (arXiv 2312.16045): with W = P Q P^T, P
// is folded into the projections of q and k.
Conversion ape_to_rope_conversion();

}  // namespace phasescope::model
