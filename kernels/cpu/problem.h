#pragma once
// Plain data and constants shared by the CPU kernels of every target.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "kernels/attention.h"
#include "kernels/units.h"

namespace phasescope::kernels {

/// In tokens, more than any text has: the window of a call that has none, and the largest there is.
inline constexpr std::int64_t kNoWindow = std::int64_t{1} << 40;

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

/// ln(e^lse + e^sink), lse finite.
inline double lse_beside_sink(double lse, double sink) {
  return std::max(lse, sink) + std::log1p(std::exp(-std::abs(lse - sink)));
}

/// Of what a row's weights and its sink's sum to, the weights' share: sigmoid(lse - sink).
inline double share_beside_sink(double lse, double sink) { return 1 / (1 + std::exp(sink - lse)); }

/// The sink of a head; null where there are none.
inline const float* sink_of(const AttentionInputs& inputs, std::int64_t head) {
  return inputs.sinks ? inputs.sinks + head : nullptr;
}

/// The sinks of rows: their head's, or, where rows are heads, each row's own.
struct RowSinks {
  const float* first = nullptr;  ///< null: none
  std::int64_t step = 0;

  explicit operator bool() const { return first != nullptr; }
  float of(std::int64_t row) const { return first[row * step]; }
};

/// A row's log-sum-exp in log2 units, as two floats that hold 48 bits of it. Where both are
/// large beside their difference, a score less `high` is exact, so that what its weight loses is
/// the rounding of the float32 that was given; one float would lose as much again and more.
struct Log2Lse {
  float high = -kMaskedScore;  ///< so large that every weight is 0, for rows that see no key
  float low = 0;
};
/// sink: that of the row's head, which joins the sum; null for none.
inline Log2Lse log2_lse(float lse, const float* sink) {
  if (lse == -std::numeric_limits<float>::infinity()) return {};
  const double exact =
      (sink ? lse_beside_sink(lse, *sink) : static_cast<double>(lse)) * std::numbers::log2e;
  const auto high = static_cast<float>(exact);
  return {high, std::isfinite(high) ? static_cast<float>(exact - static_cast<double>(high)) : 0};
}

/// A region to write out (scores and weights, either may be null), or with a map to pool, or of
/// whole heads to sum.
struct RegionCall {
  const AttentionInputs& inputs;
  const float* lse;
  const Region& region;
  float* scores;
  float* weights;
  const MapOutputs* map = nullptr;
  const ScoreSums* sums = nullptr;
};

inline std::int64_t value_dim(const AttentionShape& shape) {
  return shape.value_dim ? shape.value_dim : shape.head_dim;
}

inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace phasescope::kernels
