// CAPE's network in the backward pass: its scores again, what reaches the content scores through
// it, and the gradients of its own weights and of the biases that it reads.
#if defined(PHASESCOPE_VARIANTS_CAPE_GRADIENT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_GRADIENT_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_GRADIENT_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_GRADIENT_INL_H
#endif

#include <algorithm>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/variants/cape-inl.h"
#include "kernels/variants/cape_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Arrays of a panel of queries and kBackwardKeys keys, (rows, kBackwardRow) where nothing else is
/// said.
struct CapeBlock {
  float* content;  ///< of the heads
  float* d_score;  ///< of the heads: d score, then d content
  float* active;   ///< of the hidden units, after the rectifier
  float* d_hidden;
  float* d_base;       ///< of the heads, behind d_hidden: d score; over FIRE, as the rest
  float* members;      ///< (kPieceGroup, 2), of a group of segments
  float* d_places;     ///< two rows: what reaches u, and of it what one segment's pairs do
  float* biases;       ///< (hidden + heads, kPanel)
  float* member_sums;  ///< (hidden + heads, kPieceGroup, 2, kLanes)
};

/// Sums over a panel of queries and a range of keys. Float32 where the pairs of a range are few
/// enough.
struct CapePanelSums {
  bool filled = false;              ///< false: there was no pair, nothing else is set
  std::int64_t row = 0;             ///< the first query
  std::int64_t queries = 0;         ///< as many of the panel's as there are
  std::int64_t first_distance = 0;  ///< of the sums by distance
  double* pieces;                   ///< (hidden + heads, segments, 2), over FIRE
  float* w1;                        ///< (hidden, heads, kLanes)
  float* w2;                        ///< (heads, hidden, kLanes)
  float* hidden_diagonals;          ///< (hidden, distances), of d hidden; over a table, as the next
  float* score_diagonals;           ///< (heads, distances), of d score
  float* factor;                    ///< (kPanel), over FIRE, as the next
  float* distance;                  ///< (distances)
  float* scores;  ///< (heads, distances), of d score before the cap; null: not wanted
};

class CapeNetworkGradient {
 public:
  /// keys: of the longest range. scores: whether the scores' own gradients are summed by distance.
  CapeNetworkGradient(const CapeNetwork& net, std::int64_t keys, bool scores)
      : net_(net),
        heads_(net.heads),
        hidden_(net.cape.hidden),
        distances_(keys + kPanel),
        scores_(scores) {}

  /// Distances of a panel and the keys of a range.
  std::int64_t distances() const { return distances_; }

  std::int64_t block_floats() const {
    const std::int64_t rows = hidden_ + heads_;
    const std::int64_t of_pieces =
        (heads_ + 2 * kPieceGroup + 2) * kBackwardRow + rows * (kPanel + 2 * kPieceGroup * kLanes);
    return 2 * rows * kBackwardRow + (net_.pieces ? of_pieces : 0);
  }
  CapeBlock place_block(float* at) const {
    FloatParts take{at};
    CapeBlock block{};
    block.content = take(heads_ * kBackwardRow);
    block.d_score = take(heads_ * kBackwardRow);
    block.active = take(hidden_ * kBackwardRow);
    block.d_hidden = take(hidden_ * kBackwardRow);
    if (!net_.pieces) return block;
    block.d_base = take(heads_ * kBackwardRow);
    block.members = take(2 * kPieceGroup * kBackwardRow);
    block.d_places = take(2 * kBackwardRow);
    block.biases = take((hidden_ + heads_) * kPanel);
    block.member_sums = take((hidden_ + heads_) * kPieceGroup * 2 * kLanes);
    return block;
  }

  std::int64_t sums_floats() const {
    return round_up(2 * piece_sums(), kLanes) + round_up(float_sums(), kLanes);
  }
  CapePanelSums place_sums(float* at) const {
    CapePanelSums sums{};
    sums.pieces = reinterpret_cast<double*>(at);
    FloatParts take{at + round_up(2 * piece_sums(), kLanes)};
    sums.w1 = take(heads_ * hidden_ * kLanes);
    sums.w2 = take(heads_ * hidden_ * kLanes);
    if (net_.pieces) {
      sums.factor = take(kPanel);
      sums.distance = take(distances_);
    } else {
      sums.hidden_diagonals = take(hidden_ * distances_);
      sums.score_diagonals = take(heads_ * distances_);
    }
    if (scores_) sums.scores = take(heads_ * distances_);
    return sums;
  }
  void clear(CapePanelSums& sums) const {
    std::fill_n(sums.pieces, piece_sums(), 0.0);
    std::fill_n(sums.w1, float_sums(), 0.0f);
  }

  /// Scores (natural units) of a block from its contents: (heads, kBackwardRow). query: the key
  /// index of the panel's first.
  void score(const CapeBlock& block, std::int64_t query, std::int64_t key, std::int64_t keys,
             float* scores) const {
    for (std::int64_t r = 0; r < keys; ++r) {
      const std::int64_t at = r * kPanel;
      const CapeKey numbers{net_.biases(query, key + r, block.biases), block.content + at,
                            kBackwardRow, block.active + at, kBackwardRow};
      cape_first_layer(net_, numbers);
      cape_second_layer(net_, numbers, scores + at);
    }
  }

  /// d score of a block to d content in its place. sums: where the rest goes, null: nowhere.
  /// row: of the panel's first query, at `distance` from the first key.
  void back(const CapeBlock& block, std::int64_t row, std::int64_t distance, std::int64_t keys,
            CapePanelSums* sums) const {
    if (sums) add_scores(block, distance, keys, *sums);
    for (std::int64_t r = 0; r < keys; ++r) through_network(block, r);
    if (sums) add_hidden(block, row, distance, keys, *sums);
  }

  /// The float sums of a panel into the float64 ones of many, that have its distances.
  void flush(const CapePanelSums& sums, CapeSums& to) const {
    if (net_.pieces) {
      add_rows(sums, to.range, 1, sums.distance, to.d_pieces.d_distance);
      for (std::int64_t n = 0; n < sums.queries; ++n) {
        to.d_pieces.d_factor[static_cast<std::size_t>(sums.row + n)] +=
            static_cast<double>(sums.factor[n]);
      }
      for (std::size_t n = 0; n < to.d_pieces.d_rows.size(); ++n) {
        to.d_pieces.d_rows[n] += sums.pieces[n];
      }
    } else {
      add_rows(sums, to.range, hidden_, sums.hidden_diagonals, to.d_hidden);
      add_rows(sums, to.range, heads_, sums.score_diagonals, to.d_score);
    }
    add_lane_sums(to.d_w1, sums.w1);
    add_lane_sums(to.d_w2, sums.w2);
  }

 private:
  std::int64_t piece_sums() const {
    return net_.pieces ? (hidden_ + heads_) * net_.pieces->fire().segments * 2 : 0;
  }
  std::int64_t float_sums() const {
    const std::int64_t by_distance =
        net_.pieces ? kPanel + distances_ : (hidden_ + heads_) * distances_;
    return 2 * heads_ * hidden_ * kLanes + by_distance + (scores_ ? heads_ * distances_ : 0);
  }

  /// What d score gives, before it becomes d content.
  void add_scores(const CapeBlock& block, std::int64_t distance, std::int64_t keys,
                  CapePanelSums& sums) const {
    add_lane_products(block.d_score, heads_, block.active, hidden_, keys * kVecs, sums.w2);
    if (net_.pieces) {
      std::copy_n(block.d_score, heads_ * kBackwardRow, block.d_base);
    } else {
      add_rows_by_distance(block.d_score, heads_, keys,
                           sums.score_diagonals + (distance - sums.first_distance));
    }
  }

  /// What d hidden gives.
  void add_hidden(const CapeBlock& block, std::int64_t row, std::int64_t distance,
                  std::int64_t keys, CapePanelSums& sums) const {
    if (net_.pieces) {
      add_pieces(block, row, distance, keys, sums);
    } else {
      add_rows_by_distance(block.d_hidden, hidden_, keys,
                           sums.hidden_diagonals + (distance - sums.first_distance));
    }
    add_lane_products(block.d_hidden, hidden_, block.content, heads_, keys * kVecs, sums.w1);
  }

  /// `rows` arrays of a block to their sums by distance, whose first query and key are at `to`.
  void add_rows_by_distance(const float* block, std::int64_t rows, std::int64_t keys,
                            float* to) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      add_diagonals(block + r * kBackwardRow, kPanel, keys, to + r * distances_);
    }
  }

  /// d score of one key's heads back through both layers: d hidden, and d content in its place.
  void through_network(const CapeBlock& block, std::int64_t r) const {
    float* d_score = block.d_score + r * kPanel;
    float* d_hidden = block.d_hidden + r * kPanel;
    const float* active = block.active + r * kPanel;
    const float* weights = net_.cape.w2;
    cape_tiles(
        hidden_, [&](std::int64_t d, auto rows) __attribute__((always_inline)) {
          constexpr int kRows = decltype(rows)::value;
          Vec g[kRows][kVecs];
#pragma GCC unroll 8
          for (int n = 0; n < kRows; ++n) {
#pragma GCC unroll 4
            for (int v = 0; v < kVecs; ++v) g[n][v] = zero();
          }
          cape_sums<true>(weights + d, hidden_, d_score, kBackwardRow, heads_, g);
#pragma GCC unroll 8
          for (int n = 0; n < kRows; ++n) {
#pragma GCC unroll 4
            for (int v = 0; v < kVecs; ++v) {
              const std::int64_t at = (d + n) * kBackwardRow + v * kLanes;
              const LaneMask positive = hn::Gt(load(active + at), zero());
              store(hn::IfThenElse(positive, g[n][v], hn::Mul(g[n][v], set(0.01f))), d_hidden + at);
            }
          }
        });
    multiply_panel({net_.cape.w1, 1, net_.layout.width, d_hidden, kBackwardRow, d_score,
                    kBackwardRow, hidden_},
                   heads_);
  }

  /// A block's d hidden and d score into the sums by segment, and what reaches u into those by
  /// distance and query.
  void add_pieces(const CapeBlock& block, std::int64_t row, std::int64_t distance,
                  std::int64_t keys, CapePanelSums& sums) const {
    const CapePieces& pieces = *net_.pieces;
    const SegmentSpan span = segment_span(pieces, distance, row, keys);
    std::fill_n(block.d_places, keys * kPanel, 0.0f);
    for (std::int64_t n = span.first; n <= span.last; n += kPieceGroup) {
      const std::int64_t count = std::min(kPieceGroup, span.last - n + 1);
      for (std::int64_t r = 0; r < keys; ++r) {
        Vec u[kVecs];
        piece_places(pieces, distance - r, row, u);
        segment_members(pieces, span, n, count, u, block.members + r * kPanel, kBackwardRow);
      }
      add_member_sums(block, n, count, keys, sums);
      for (std::int64_t c = 0; c < count; ++c) add_places(block, n + c, c, keys);
    }
    for (int v = 0; v < kVecs; ++v) {
      const Vec factor = load_unaligned(pieces.factor(row) + v * kLanes);
      Vec d_factor = zero();
      for (std::int64_t r = 0; r < keys; ++r) {
        const std::int64_t lambda = distance - r;
        const Vec d_place = load(block.d_places + r * kPanel + v * kLanes);
        d_factor =
            hn::MulAdd(d_place, load_unaligned(pieces.distance(lambda) + v * kLanes), d_factor);
        add_unaligned(sums.distance + (lambda - sums.first_distance) + v * kLanes,
                      hn::Mul(d_place, factor));
      }
      float* to = sums.factor + v * kLanes;
      store(hn::Add(load(to), d_factor), to);
    }
  }

  /// Of segments n .. n + count - 1, whose members are known.
  void add_member_sums(const CapeBlock& block, std::int64_t n, std::int64_t count,
                       std::int64_t keys, CapePanelSums& sums) const {
    const std::int64_t rows = hidden_ + heads_, columns = 2 * count;
    std::fill_n(block.member_sums, rows * columns * kLanes, 0.0f);
    add_lane_products(block.d_hidden, rows, block.members, columns, keys * kVecs,
                      block.member_sums);
    for (std::int64_t r = 0; r < rows; ++r) {
      double* to = sums.pieces + (r * net_.pieces->fire().segments + n) * 2;
      const float* from = block.member_sums + r * columns * kLanes;
      for (std::int64_t c = 0; c < count; ++c, from += 2 * kLanes) {
        const auto sum = static_cast<double>(sum_lanes(load(from)));
        const auto start = static_cast<double>(segment_start(*net_.pieces, n + c));
        to[2 * c] += sum;
        to[2 * c + 1] += static_cast<double>(sum_lanes(load(from + kLanes))) + start * sum;
      }
    }
  }

  /// Adds to d places what the pairs of segment n do, number c of the group.
  void add_places(const CapeBlock& block, std::int64_t n, std::int64_t c, std::int64_t keys) const {
    const std::int64_t rows = hidden_ + heads_, count = keys * kPanel;
    float* of_all = block.d_places + kBackwardRow;
    std::fill_n(of_all, count, 0.0f);
    multiply_wide({net_.pieces->slopes(n), rows, 1, block.d_hidden, kBackwardRow, of_all, 0, rows},
                  1, keys * kVecs);
    const float* members = block.members + 2 * c * kBackwardRow;
    for (std::int64_t at = 0; at < count; at += kLanes) {
      store(hn::MulAdd(load(of_all + at), load(members + at), load(block.d_places + at)),
            block.d_places + at);
    }
  }

  /// Rows of a panel's sums by distance to those of `range`.
  void add_rows(const CapePanelSums& sums, const DistanceRange& range, std::int64_t rows,
                const float* from, std::vector<double>& to) const {
    const std::int64_t skip = sums.first_distance - range.first;
    const std::int64_t count = std::min(distances_, range.size() - skip);
    for (std::int64_t r = 0; r < rows; ++r) {
      double* row = to.data() + r * range.size() + skip;
      for (std::int64_t n = 0; n < count; ++n) {
        row[n] += static_cast<double>(from[r * distances_ + n]);
      }
    }
  }

  const CapeNetwork& net_;
  std::int64_t heads_, hidden_;
  std::int64_t distances_;
  bool scores_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
