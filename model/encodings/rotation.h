#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model/encoding.h"

// What every encoding that rotates q and k shares: frequencies, angles, the rotation itself.

namespace phasescope::model {

// Which channels form plane m: (m, m + d/2), as Llama's weights on the hub, or (2m, 2m + 1), as the
// papers write it. The same maths on permuted weights.
enum class RotationLayout { half, interleaved };

// The options that rotations share, and what the layout's says.
OptionInfo base_option(const std::string& help = "base of the frequencies base^(-2m/d)");
OptionInfo layout_option();
RotationLayout layout_of(const Json& options);

// Throws Error "bad_input" where a head has no whole number of planes; `key` is the encoding's.
void require_pairs(const char* key, std::int64_t head_dim);
// Throws Error "bad_input" where several heads share a key head, of an encoding that turns each
// head by its own angles: their keys would have to be turned several ways.
void require_key_heads(const char* key, std::int64_t heads, std::int64_t key_heads);

// Multiplies each plane of x (B, H, N, d) by its token's complex number in z (B or 1, H or 1, N, 2,
// planes): a rotation where |z| = 1. With fewer than d/2 planes they are those of x's first
// channels, and the others stay. With d planes every channel has a cosine and a sine of its own: c
// x + s R(x), R a quarter turn of each pair of channels. Differentiable in both.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& z, RotationLayout layout);

// base^(-2m/d), m = 0..d/2-1, computed in the options' dtype (float32 in the way the usual
// references do it).
at::Tensor rope_frequencies(double base, std::int64_t head_dim, const at::TensorOptions& options);

// Largest |difference| of two ids of one text; past 2^24 that of all texts' ids.
double farthest_apart(const Positions& positions);

// Position ids, (N), or (B, N) where every text has its own.
at::Tensor position_ids(const Positions& positions);
at::Tensor position_ids(const StartContext& context, std::int64_t extra_shift = 0);

// Position ids as rows of a stored table, counted from `extra_shift`. Throws Error "bad_input" that
// names a position past it and the table's length.
at::Tensor table_rows(const StartContext& context, std::int64_t extra_shift, std::int64_t rows);

// Position ids as numbers of context.angle_dtype, (N), or (B, N) where every text has its own.
at::Tensor position_values(const StartContext& context, std::int64_t extra_shift = 0);

// Sines (even channels) and cosines (odd ones) of positions (...) times base^(-2m/width): (...,
// width) of the positions' dtype. `width` is even.
at::Tensor sinusoids(const at::Tensor& positions, double base, std::int64_t width);

// (.., 2, planes) of `dtype`: cosines and sines of angles (.., planes), computed in the angles'
// own.
at::Tensor turned(const at::Tensor& angles, at::ScalarType dtype);

// (B or 1, 1, N, 2, planes) of `dtype`: cosines and sines of positions (N) or (B, N) times
// frequencies (planes).
at::Tensor rotation_state(const at::Tensor& positions, const at::Tensor& frequencies,
                          at::ScalarType dtype);

}  // namespace phasescope::model
