#pragma once
// Sums over the pairs of a block of rows by their distance.
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace phasescope::analysis {

// Adds the values of a block, (H, R, K) of rows first, first + 1, .. and keys 0..K-1, to `sums`
// (H, N): entry lambda is that of the pairs row - key = lambda. Keys after their row are left out.
// Sums are made in the dtype of `sums`; nothing larger than the block exists.
void add_by_distance(const at::Tensor& block, std::int64_t first, at::Tensor& sums);

// Rows of a block so that one of H x rows x N numbers of 8 bytes stays near 32 MB.
std::int64_t rows_of_block(std::int64_t heads, std::int64_t tokens);

// (R, K) bool: rows first.. see keys 0..K-1 at distances 0 <= lambda < within.
at::Tensor seen_pairs(std::int64_t first, std::int64_t rows, std::int64_t keys,
                      std::int64_t within);

}  // namespace phasescope::analysis
