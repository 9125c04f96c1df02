// FIRE past its threshold (arXiv 2310.04418): a network of one number, piecewise linear in it.
//
// Over plain, medians on one core with AVX-512, 9 knots, a threshold of a third of the text:
//   forward  2048 tokens: 1.05 (D 64), 1.03 (D 128); 8192: 1.03, 1.05; AVX2 1.04, SSE4 1.03
//   backward 2048 tokens: 1.14 (D 64), 1.06 (D 128); 8192: 1.07, 1.03
// With 32 knots 1.07 forward and 1.21 backward (2048, D 64), with 300 knots 1.34 and 1.74. Sums by
// segment and query of the block, added up after it, leave two additions a pair to the way back.
#if defined(PHASESCOPE_VARIANTS_FIRE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_FIRE_INL_H
#undef PHASESCOPE_VARIANTS_FIRE_INL_H
#else
#define PHASESCOPE_VARIANTS_FIRE_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/streams-inl.h"
#include "kernels/variants/fire_pieces.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = scale q.k + slope u + intercept, u = distance[lambda] factor[query], both of the segment
/// that u lies in. u rises with the distance and falls with the query, so that two corners of a
/// tile say which segments it has. With one, its bias is a load and two multiply-adds a vector;
/// only tiles that a knot crosses choose for every pair.
class FireScore : public VariantDefaults {
 public:
  struct Head {
    const float* slope;  ///< log2 units, as is the intercept
    const float* intercept;
    const float* natural_slope;
  };
  /// What a tile reads, and the first and last segment it has.
  struct Tile {
    const float* distance;  ///< of its first key and query
    const float* factor;    ///< of its first query
    std::int64_t lane;      ///< where that stands in its block of queries (backward)
    std::int64_t first;
    std::int64_t last;
  };

  explicit FireScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs),
        fire_(std::get<FireVariant>(inputs.variant)),
        range_(distance_range(inputs.shape, kPanel)),
        distance_(padded_distance(fire_, range_)),
        factor_(padded_factor(fire_, inputs.shape.queries, kPanel)),
        slope_(log2_pieces(fire_, fire_.slope, inputs.shape.heads)),
        intercept_(log2_pieces(fire_, fire_.intercept, inputs.shape.heads)) {}

  Head head(std::int64_t, std::int64_t head) const {
    return {slope_.data() + head * fire_.segments, intercept_.data() + head * fire_.segments,
            fire_.slope + head * fire_.head_stride};
  }

  HWY_INLINE Tile tile(const TilePlace& place) const {
    const std::int64_t lambda = place.query - place.key;
    Tile tile;
    const std::int64_t row = place.query - inputs_.shape.query_offset;
    tile.distance = distance_.data() + (lambda - range_.first);
    tile.factor = factor_.data() + row;
    tile.lane = row % kQueryBlock;
    const float least = tile.distance[1 - kTileKeys] * tile.factor[kPanel - 1];
    const float most = tile.distance[kPanel - 1] * tile.factor[0];
    const float* end = fire_.knots + (fire_.segments - 1);
    const float* first = std::lower_bound(fire_.knots, end, least);
    tile.first = first - fire_.knots;
    tile.last = std::lower_bound(first, end, most) - fire_.knots;
    return tile;
  }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&)[kTileKeys][kVecs]) const {
    const Tile tile = this->tile(place);
    if (HWY_UNLIKELY(tile.first != tile.last)) {
      HWY_ALIGN float bias[kTileKeys * kPanel];
      crossed_bias(head, tile, bias);
#pragma GCC unroll 8
      for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          t[r][v] = hn::Add(t[r][v], load(bias + r * kPanel + v * kLanes));
        }
      }
      return;
    }
    const Vec intercept = set(head.intercept[tile.first]);
    Vec slope[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      slope[v] = hn::Mul(load_unaligned(tile.factor + v * kLanes), set(head.slope[tile.first]));
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec distance = load_unaligned(tile.distance - r + v * kLanes);
        t[r][v] = hn::Add(t[r][v], hn::MulAdd(distance, slope[v], intercept));
      }
    }
  }

  std::int64_t scratch_size() const {
    return FireSums::scratch_size(fire_.segments, kQueryBlock, range_);
  }

  void begin_gradients(const Gradients& gradients, std::int64_t slots) {
    if (std::holds_alternative<FireGradients>(gradients.variant)) {
      sums_ = FireSums(inputs_, range_, kQueryBlock, slots);
    }
  }

  HWY_INLINE DotGradients gradient(const Head& head, const Tile& tile, const TilePlace& place,
                                   int r, int v, Vec d_score, Vec, Vec, float* scratch) const {
    const Vec distance = load_unaligned(tile.distance - r + v * kLanes);
    const Vec factor = load_unaligned(tile.factor + v * kLanes);
    float* sums = scratch + tile.lane + v * kLanes;
    Vec slope = set(head.natural_slope[tile.first]);
    if (HWY_LIKELY(tile.first == tile.last)) {
      add_pair(sums + tile.first * kPieceRow, d_score, distance);
    } else {
      slope = crossed_gradient(head, tile, d_score, distance, factor, sums);
    }
    float* at = scratch + fire_.segments * kPieceRow +
                (place.query - place.key - r + v * kLanes - range_.first);
    store_unaligned(hn::MulAdd(d_score, hn::Mul(slope, factor), load_unaligned(at)), at);
    return {d_score, zero()};
  }

  void flush(std::int64_t head, std::int64_t slot, std::int64_t query, const KeyRange& keys,
             float* scratch) {
    sums_.take(head, slot, query, keys, scratch);
  }

  void finish_gradients(const Gradients& gradients) {
    if (const auto* wanted = std::get_if<FireGradients>(&gradients.variant)) sums_.write(*wanted);
  }

 private:
  static constexpr std::int64_t kPieceRow = 2 * kQueryBlock;

  /// The biases of a tile that has more than one segment, (kTileKeys, kPanel).
  HWY_NOINLINE void crossed_bias(const Head& head, const Tile& tile, float* bias) const {
    for (int v = 0; v < kVecs; ++v) {
      const Vec factor = load_unaligned(tile.factor + v * kLanes);
      Vec u[kTileKeys], slope[kTileKeys], intercept[kTileKeys];
#pragma GCC unroll 8
      for (int r = 0; r < kTileKeys; ++r) {
        u[r] = hn::Mul(load_unaligned(tile.distance - r + v * kLanes), factor);
        slope[r] = set(head.slope[tile.first]);
        intercept[r] = set(head.intercept[tile.first]);
      }
      for (std::int64_t n = tile.first; n < tile.last; ++n) {
        const Vec knot = set(fire_.knots[n]);
        const Vec next_slope = set(head.slope[n + 1]), next = set(head.intercept[n + 1]);
#pragma GCC unroll 8
        for (int r = 0; r < kTileKeys; ++r) {
          const LaneMask above = hn::Gt(u[r], knot);
          slope[r] = hn::IfThenElse(above, next_slope, slope[r]);
          intercept[r] = hn::IfThenElse(above, next, intercept[r]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kTileKeys; ++r) {
        store(hn::MulAdd(u[r], slope[r], intercept[r]), bias + r * kPanel + v * kLanes);
      }
    }
  }

  /// d s and d s * distance to a segment's sums.
  static HWY_INLINE void add_pair(float* sums, Vec d_score, Vec distance) {
    store(hn::Add(load(sums), d_score), sums);
    sums += kQueryBlock;
    store(hn::MulAdd(d_score, distance, load(sums)), sums);
  }

  /// The same where lanes may lie in different segments; their slopes.
  HWY_NOINLINE Vec crossed_gradient(const Head& head, const Tile& tile, Vec d_score, Vec distance,
                                    Vec factor, float* sums) const {
    const Vec u = hn::Mul(distance, factor);
    Vec slope = set(head.natural_slope[tile.first]);
    for (std::int64_t n = tile.first; n < tile.last; ++n) {
      const LaneMask above = hn::Gt(u, set(fire_.knots[n]));
      add_pair(sums + n * kPieceRow, hn::IfThenZeroElse(above, d_score), distance);
      d_score = hn::IfThenElseZero(above, d_score);
      slope = hn::IfThenElse(above, set(head.natural_slope[n + 1]), slope);
    }
    add_pair(sums + tile.last * kPieceRow, d_score, distance);
    return slope;
  }

  const FireVariant& fire_;
  DistanceRange range_;
  FloatBuffer distance_, factor_, slope_, intercept_;
  FireSums sums_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
