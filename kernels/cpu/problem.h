#pragma once
// Plain data and constants shared by the CPU kernels of every target.

#include <cstdint>

#include "kernels/attention.h"

namespace phasescope::kernels {

inline constexpr float kLog2e = 1.44269504088896341f;
inline constexpr float kLn2 = 0.693147180559945309f;

// Sentinels, in log2 units. A masked score must lie below the first maximum, and both far below any
// real score: equal or inverted ones give silent garbage.
inline constexpr float kMaskedScore = -1e30f;
inline constexpr float kFirstMaximum = -5e29f;
// Weights are taken relative to a reference that follows the row's maximum only when a tile exceeds
// it by more than 2^24.
inline constexpr float kRescaleBound = 24.0f;

/// One dot product of a score: `scale` times the sum over `dim` channels. q has the layout of
/// (B, heads, queries, dim), k of (B, kv_heads, keys, dim).
struct DotStream {
  InputTensor q;
  InputTensor k;
  std::int64_t dim = 0;
  float scale = 1;
};

/// One value stream averaged by the weights, (B, kv_heads, keys, dim).
struct ValueStream {
  InputTensor v;
  std::int64_t dim = 0;
};

/// A region to write out (scores and weights, either may be null), or with a map to pool.
struct RegionCall {
  const AttentionInputs& inputs;
  const float* lse;
  const Region& region;
  float* scores;
  float* weights;
  const MapOutputs* map = nullptr;
};

inline bool wants_top_keys(const RowProbes& rows) { return rows.top_key || rows.top_weight; }

inline std::int64_t value_dim(const AttentionShape& shape) {
  return shape.value_dim ? shape.value_dim : shape.head_dim;
}

template <typename T>
T* row_pointer(const Tensor4<T>& tensor, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return tensor.data + batch * tensor.batch + head * tensor.head + row * tensor.row;
}

inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace phasescope::kernels
