// CAPE over FIRE: the biases' part of one key's hidden units and scores, for a panel of queries.
//
// What a key adds is written to memory beside the network that reads it, as a table's entries are:
// one multiply-add for each hidden unit and head, a choice more for each knot that crosses it.
#if defined(PHASESCOPE_VARIANTS_CAPE_PIECES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_PIECES_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_PIECES_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_PIECES_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/simd-inl.h"
#include "kernels/variants/cape_pieces.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// The first and last segment of some pairs.
struct SegmentSpan {
  std::int64_t first;
  std::int64_t last;
};

/// Of a panel of queries and `keys` keys, whose first key is at `distance` from the first query,
/// row `row`: u rises with the distance and falls with the query, so that two corners say it.
inline SegmentSpan segment_span(const CapePieces& pieces, std::int64_t distance, std::int64_t row,
                                std::int64_t keys) {
  const FireVariant& fire = pieces.fire();
  const float least = *pieces.distance(distance - keys + 1) * *pieces.factor(row + kPanel - 1);
  const float most = *pieces.distance(distance + kPanel - 1) * *pieces.factor(row);
  const float* end = fire.knots + (fire.segments - 1);
  const float* first = std::lower_bound(fire.knots, end, least);
  return {first - fire.knots, std::lower_bound(first, end, most) - fire.knots};
}

/// u of one key, kPanel lanes.
HWY_INLINE void piece_places(const CapePieces& pieces, std::int64_t distance, std::int64_t row,
                             Vec (&u)[kVecs]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    u[v] = hn::Mul(load_unaligned(pieces.distance(distance) + v * kLanes),
                   load_unaligned(pieces.factor(row) + v * kLanes));
  }
}

/// All rows of the list of pieces of one key to (rows, kPanel), rows `stride` apart.
inline HWY_NOINLINE void fill_pieces(const CapePieces& pieces, std::int64_t distance,
                                     std::int64_t row, float* to, std::int64_t stride) {
  const SegmentSpan span = segment_span(pieces, distance, row, 1);
  Vec u[kVecs];
  piece_places(pieces, distance, row, u);
  const float* slope = pieces.slopes(span.first);
  const float* intercept = pieces.intercepts(span.first);
  const std::int64_t rows = pieces.rows();
  for (std::int64_t r = 0; r < rows; ++r, to += stride) {
    const Vec a = set(slope[r]), b = set(intercept[r]);
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) store(hn::MulAdd(a, u[v], b), to + v * kLanes);
  }
  for (std::int64_t n = span.first; n < span.last; ++n) {
    const Vec knot = set(pieces.fire().knots[n]);
    slope = pieces.slopes(n + 1);
    intercept = pieces.intercepts(n + 1);
    to -= rows * stride;
    for (std::int64_t r = 0; r < rows; ++r, to += stride) {
      const Vec a = set(slope[r]), b = set(intercept[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec next = hn::MulAdd(a, u[v], b);
        store(hn::IfThenElse(hn::Gt(u[v], knot), next, load(to + v * kLanes)), to + v * kLanes);
      }
    }
  }
}

// Segments whose sums are taken together.
inline constexpr std::int64_t kPieceGroup = 8;

/// Where a segment begins. Sums over its pairs of u less that have no rounding of a line continued
/// to u = 0.
inline float segment_start(const CapePieces& pieces, std::int64_t segment) {
  return segment > 0 ? pieces.fire().knots[segment - 1] : 0;
}

/// Of segments first .. first + count - 1 and one key's places u: 1 where a pair lies in each, and
/// u less the segment's start there, 0 elsewhere. to: (count, 2, kPanel), rows `stride` apart.
/// whole: the segments of all pairs around.
HWY_INLINE void segment_members(const CapePieces& pieces, const SegmentSpan& whole,
                                std::int64_t first, std::int64_t count, const Vec (&u)[kVecs],
                                float* to, std::int64_t stride) {
  for (std::int64_t n = first; n < first + count; ++n, to += 2 * stride) {
    const Vec start = set(segment_start(pieces, n));
    for (int v = 0; v < kVecs; ++v) {
      Vec one = set(1.0f);
      if (n > whole.first) {
        one = hn::IfThenElseZero(hn::Gt(u[v], set(pieces.fire().knots[n - 1])), one);
      }
      if (n < whole.last) {
        one = hn::IfThenZeroElse(hn::Gt(u[v], set(pieces.fire().knots[n])), one);
      }
      store(one, to + v * kLanes);
      store(hn::Mul(one, hn::Sub(u[v], start)), to + stride + v * kLanes);
    }
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
