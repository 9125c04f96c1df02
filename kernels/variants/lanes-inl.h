// What stands beside the dot products of one query of heads that share keys, which lie in the lanes
// (kernels/cpu/heads_in_lanes.h).
#if defined(PHASESCOPE_VARIANTS_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_LANES_INL_H
#undef PHASESCOPE_VARIANTS_LANES_INL_H
#else
#define PHASESCOPE_VARIANTS_LANES_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/heads_in_lanes.h"
#include "kernels/variants/tokens-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = factor[h] (scale q.k + table[h][lambda] + query[h] + key[h][j]), or scale q.k
/// table[h][lambda], of heads h that are lanes. Neighbours among the lanes read tables of their
/// own, so the numbers of all keys are laid out by lane before. Lanes past the last head read those
/// of the next keys, and nobody reads what they make of them.
class LaneScore : public VariantDefaults {
 public:
  static constexpr bool kHeadsInLanes = true;
  struct Head {
    const float* terms;   ///< (keys, group_); null: none
    const float* factor;  ///< (lanes of whole panels); null: 1
  };

  /// inputs: LaneInputs.
  explicit LaneScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs),
        lanes_(static_cast<const LaneInputs&>(inputs)),
        table_(std::get_if<TableVariant>(&inputs.variant)),
        group_(inputs.shape.queries),
        width_(round_up(group_, kPanel)) {
    const TokenTerms& tokens = lanes_.given.tokens;
    const std::int64_t rows = inputs.shape.batch * inputs.shape.heads;
    if (table_ || tokens.query || tokens.key) {
      // A tile reaches past the last key, and a panel past the last head.
      terms_ = FloatBuffer((rows * inputs.shape.keys + kTileKeys) * group_ + kPanel, 0.0f);
      parallel_items(rows, [&](std::int64_t row, int) { lay_out(row); });
    }
    if (!tokens.factor) return;
    factor_ = FloatBuffer(rows * width_, 1.0f);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(tokens.factor + r * group_, group_, factor_.data() + r * width_);
    }
  }

  Head head(std::int64_t batch, std::int64_t head) const {
    const std::int64_t row = batch * inputs_.shape.heads + head;
    const float *terms = terms_.data(), *factor = factor_.data();
    return {terms ? terms + row * inputs_.shape.keys * group_ : nullptr,
            factor ? factor + row * width_ : nullptr};
  }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&)[kTileKeys][kVecs]) const {
    if (head.terms) {
      const float* terms = head.terms + place.key * group_ + place.query;
      const bool multiplies = table_ && table_->multiplies;
#pragma GCC unroll 8
      for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const Vec term = load_unaligned(terms + r * group_ + v * kLanes);
          t[r][v] = multiplies ? hn::Mul(t[r][v], term) : hn::Add(t[r][v], term);
        }
      }
    }
    if (head.factor) scale_scores(head.factor + place.query, t);
  }

 private:
  /// The numbers of one batch entry's key/value head: what is added in log2 units, factors as they
  /// are.
  void lay_out(std::int64_t row) {
    const std::int64_t keys = inputs_.shape.keys;
    float* to = terms_.data() + row * keys * group_;
    for (std::int64_t j = 0; j < keys; ++j) {
      for (std::int64_t n = 0; n < group_; ++n) *to++ = term(row * group_ + n, j);
    }
  }

  /// row: batch entry and query head; key: of those that are seen.
  float term(std::int64_t row, std::int64_t key) const {
    const AttentionShape& s = lanes_.given.shape;
    const TokenTerms& tokens = lanes_.given.tokens;
    const std::int64_t j = lanes_.first_key + key;
    double sum = table_ ? static_cast<double>(entry(row % s.heads, s.query_offset - j)) : 0.0;
    if (table_ && table_->multiplies) return static_cast<float>(sum);
    if (sum == -std::numeric_limits<double>::infinity()) return kMaskedScore;
    if (tokens.query || tokens.key) {
      sum +=
          (tokens.query ? tokens.query[row] : 0) + (tokens.key ? tokens.key[row * s.keys + j] : 0);
    }
    return static_cast<float>(sum * std::numbers::log2e);
  }

  float entry(std::int64_t head, std::int64_t distance) const {
    const std::int64_t index = table_index(distance, table_->length, table_->first_distance);
    return index < 0 ? 0 : table_->values[head * table_->head_stride + index];
  }

  const LaneInputs& lanes_;
  const TableVariant* table_;
  std::int64_t group_;  ///< query heads of a key/value head
  std::int64_t width_;  ///< lanes of whole panels
  FloatBuffer terms_;   ///< (B kv_heads, keys, group_)
  FloatBuffer factor_;  ///< (B kv_heads, width_)
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
