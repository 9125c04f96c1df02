#pragma once
// What FIRE needs outside the inner loops: padded copies of its arrays, and the sums that its
// gradients are made of.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals.h"

namespace phasescope::kernels {

/// distance[|lambda|] for every distance of the range, 0 below distance 0 and the last entry past
/// the end (both masked), so that it rises everywhere.
FloatBuffer padded_distance(const FireVariant& fire, const DistanceRange& range);

/// The factors of all queries, and the last one again for `panel` more.
FloatBuffer padded_factor(const FireVariant& fire, std::int64_t queries, std::int64_t panel);

/// (heads, segments) contiguous copy of slopes or intercepts times log2 e.
FloatBuffer log2_pieces(const FireVariant& fire, const float* from, std::int64_t heads);

/// Gradients of FIRE's arrays. An item of the backward pass leaves float sums in its scratch: of d
/// s and of d s * distance by segment and query of the block, (segments, 2, block), then of d s *
/// slope * factor by distance.
class FireSums {
 public:
  FireSums() = default;
  FireSums(const AttentionInputs& inputs, const DistanceRange& range, std::int64_t block,
           std::int64_t slots);

  static std::int64_t scratch_size(std::int64_t segments, std::int64_t block,
                                   const DistanceRange& range) {
    return segments * 2 * block + range.size();
  }

  /// Adds the sums of the queries from `query` of one head and of some keys, and leaves 0 in their
  /// place; slots are in order of the batch.
  void take(std::int64_t head, std::int64_t slot, std::int64_t query, const KeyRange& keys,
            float* scratch);
  void write(const FireGradients& gradients) const;

 private:
  const AttentionInputs* inputs_ = nullptr;
  DistanceRange range_;
  std::int64_t block_ = 0, slots_ = 0;
  DiagonalSums diagonals_;
  std::vector<double> pieces_;  ///< (heads, slots, segments, 2): of slope and intercept
  std::vector<double> rows_;    ///< (heads, batch, queries): of the factors
};

}  // namespace phasescope::kernels
