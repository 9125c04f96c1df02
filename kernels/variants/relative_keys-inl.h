// A vector of each query times a table of vectors by distance, r_i . P[lambda]: the second dot
// product of a pair, whose key goes by its distance. A row of the table has one channel of all
// distances, so that what the lanes of a tile's row read, a distance further each, is one unaligned
// vector: a score costs `rank` products more, and nothing by distance is kept but the table's sums
// on the way back. All sums are of a register tile.
//
// Measured on an AMD EPYC (family 25, model 17, AVX-512), one thread of a busy machine,
// interleaved, rank 16, 256 and 1024 distances, 512 and 2048 tokens, in the time of plain:
// forward 1.05 to 1.18, backward 1.06 to 1.31, where a query's own table takes 1.08 to 1.43
// and 1.19 to 1.65 beside the time of the products that make it.
#if defined(PHASESCOPE_VARIANTS_RELATIVE_KEYS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_RELATIVE_KEYS_INL_H
#undef PHASESCOPE_VARIANTS_RELATIVE_KEYS_INL_H
#else
#define PHASESCOPE_VARIANTS_RELATIVE_KEYS_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/diagonals-inl.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = scale q.k + r.P[lambda]. What lies beyond the table is 0 there or, where it clips, its end,
/// far enough to either side for a tile that touches the table; tiles beyond are left out, or moved
/// to where all they read is the end.
class RelativeKeysScore : public VariantDefaults {
 public:
  static constexpr int kDots = 2;
  static constexpr bool kRelativeDots = true;
  struct Head {
    const float* keys;  ///< of the first channel, at distance 0
  };

  explicit RelativeKeysScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs),
        relative_(std::get<RelativeKeysVariant>(inputs.variant)),
        range_{relative_.first_distance, relative_.first_distance + relative_.length - 1},
        width_(relative_.length + 2 * kReach),
        keys_(tables() * relative_.rank * width_) {
    const std::int64_t length = relative_.length;
    for (std::int64_t row = 0; row < tables() * relative_.rank; ++row) {
      const float* from = relative_.keys + row * length;
      float* to = keys_.data() + row * width_;
      std::fill_n(to, kReach, relative_.clips ? from[0] : 0.0f);
      std::copy_n(from, length, to + kReach);
      std::fill_n(to + kReach + length, kReach, relative_.clips ? from[length - 1] : 0.0f);
    }
  }

  DotStream dot(int n) const {
    if (n == 0) return VariantDefaults::dot(0);
    return {relative_.r, {}, relative_.rank, 1};
  }

  Head head(std::int64_t, std::int64_t head) const {
    const std::int64_t table = is_shared() ? 0 : head;
    return {keys_.data() + table * relative_.rank * width_ + kReach - range_.first};
  }

  /// r.P of a tile, 0 where it touches no vector; r: (rank, kPanel).
  HWY_NOINLINE void relative_dots(const Head& head, const TilePlace& place, const float* r,
                                  Vec (&dots)[kTileKeys][kVecs]) const {
    const std::int64_t rank = touches(place.query - place.key, kTileKeys) ? relative_.rank : 0;
    const float* keys = head.keys + moved(place.query - place.key, kTileKeys);
    Vec sums[kTileKeys][kVecs];
#pragma GCC unroll 8
    for (int n = 0; n < kTileKeys; ++n) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums[n][v] = zero();
    }
    for (std::int64_t d = 0; d < rank; ++d, keys += width_, r += kPanel) {
      Vec x[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) x[v] = load(r + v * kLanes);
#pragma GCC unroll 8
      for (int n = 0; n < kTileKeys; ++n) {
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          sums[n][v] = hn::MulAdd(load_unaligned(keys - n + v * kLanes), x[v], sums[n][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int n = 0; n < kTileKeys; ++n) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) dots[n][v] = sums[n][v];
    }
  }

  HWY_INLINE void score(const Head&, const TilePlace&, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&dots)[kTileKeys][kVecs]) const {
#pragma GCC unroll 8
    for (int n = 0; n < kTileKeys; ++n) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) t[n][v] = hn::MulAdd(dots[n][v], set(kLog2e), t[n][v]);
    }
  }

  HWY_INLINE Vec score_of(const Head&, const TilePlace&, int, int, Vec dot, Vec relative) const {
    return hn::MulAdd(relative, set(kLog2e), dot);
  }

  /// Adds to dr (rank, kPanel) of a panel what `count` keys give it. lambda: the distance of its
  /// first lane from the first of these; d_score: a row for each of them, `pitch` floats apart.
  HWY_NOINLINE void add_to_queries(const Head& head, std::int64_t lambda, const float* d_score,
                                   std::int64_t pitch, std::int64_t count, float* dr) const {
    // Row n lies n distances nearer.
    const std::int64_t begin =
        relative_.clips ? 0 : std::max<std::int64_t>(0, lambda - range_.last);
    const std::int64_t end =
        relative_.clips ? count : std::min(count, lambda + kPanel - range_.first);
    const Rows rows{d_score, pitch, lambda, begin, end};
    std::int64_t d = 0;
    for (; d + kChannels <= relative_.rank; d += kChannels) {
      add_channels<kChannels>(head.keys + d * width_, rows, dr + d * kPanel);
    }
    for (; d < relative_.rank; ++d) add_channels<1>(head.keys + d * width_, rows, dr + d * kPanel);
  }

  /// Adds to the sums by distance in `scratch` what a panel gives to the vectors of its distances
  /// from `count` keys; r: (rank, kPanel), of the panel. What lies kLanes floats before and behind
  /// each row of either is read too.
  HWY_NOINLINE void add_to_keys(std::int64_t lambda, const float* d_score, std::int64_t pitch,
                                std::int64_t count, const float* r, float* scratch) const {
    if (!sums_.wanted()) return;
    for (std::int64_t n = 0; n < count; n += kLanes, lambda -= kLanes) {
      if (!touches(lambda, kLanes)) continue;
      const Rows rows{d_score + n * pitch, pitch, 0, 0, std::min<std::int64_t>(kLanes, count - n)};
      float* to = scratch + kReach + moved(lambda, kLanes) - range_.first;
      std::int64_t d = 0;
      for (; d + kChannels <= relative_.rank; d += kChannels) {
        add_diagonals_of<kChannels>(rows, r + d * kPanel, to + d * width_);
      }
      for (; d < relative_.rank; ++d) {
        add_diagonals_of<1>(rows, r + d * kPanel, to + d * width_);
      }
    }
  }

  std::int64_t scratch_size() const { return sums_.wanted() ? relative_.rank * width_ : 0; }

  void begin_gradients(const Gradients& gradients, std::int64_t slots) {
    const auto* wanted = std::get_if<RelativeKeysGradients>(&gradients.variant);
    if (!wanted || !wanted->keys) return;
    slots_ = slots;
    const std::int64_t heads = inputs_.shape.heads;
    // The heads that share a table are as many shares of the work.
    sums_ = is_shared() ? DiagonalSums(range_, relative_.rank, heads * slots)
                        : DiagonalSums(range_, heads * relative_.rank, slots);
  }

  void flush(std::int64_t head, std::int64_t slot, std::int64_t query, const KeyRange& keys,
             float* scratch) {
    if (!sums_.wanted()) return;
    const DistanceRange touched =
        relative_.clips
            ? range_
            : touched_distances(range_, query + inputs_.shape.query_offset, kQueryBlock, keys);
    for (std::int64_t d = 0; d < relative_.rank; ++d) {
      float* row = scratch + d * width_ + kReach;
      clear_beyond(row - kReach, row[0]);
      clear_beyond(row + relative_.length, row[relative_.length - 1]);
      if (is_shared()) {
        sums_.take(d, head * slots_ + slot, touched, row);
      } else {
        sums_.take(head * relative_.rank + d, slot, touched, row);
      }
    }
  }

  void finish_gradients(const Gradients& gradients) {
    const auto* wanted = std::get_if<RelativeKeysGradients>(&gradients.variant);
    if (!sums_.wanted() || !wanted) return;
    const std::int64_t length = relative_.length;
    sums_.write(wanted->keys, length, length, range_.first);
  }

  OutputTensor dot_gradient_q(const Gradients& gradients, int n) const {
    const auto* own = std::get_if<RelativeKeysGradients>(&gradients.variant);
    return n == 0 ? gradients.dq : own ? own->dr : OutputTensor{};
  }
  OutputTensor dot_gradient_k(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dk : OutputTensor{};
  }

 private:
  // Channels whose sums are made together, from the same rows of d score.
  static constexpr int kChannels = kLanes >= 16 ? 4 : 2;
  // What is kept of distances beyond either end.
  static constexpr std::int64_t kReach = kPanel + kLanes;
  static_assert(kLanes >= kTileKeys);

  /// Rows begin .. end - 1 of d score; lane 0 of row n is at the distance lambda - n.
  struct Rows {
    const float* d_score;
    std::int64_t pitch;
    std::int64_t lambda;
    std::int64_t begin, end;
  };

  bool is_shared() const { return relative_.head_stride == 0; }
  std::int64_t tables() const { return is_shared() ? 1 : inputs_.shape.heads; }

  /// Whether `rows` rows of a panel, of which lane 0 of the first is at the distance lambda, add
  /// anything.
  HWY_INLINE bool touches(std::int64_t lambda, std::int64_t rows) const {
    return relative_.clips || (lambda + kPanel > range_.first && lambda - rows < range_.last);
  }
  /// Where such rows are read: the distance itself, or the next one beyond which all is the end.
  HWY_INLINE std::int64_t moved(std::int64_t lambda, std::int64_t rows) const {
    return std::clamp(lambda, range_.first - kPanel, range_.last + rows);
  }

  template <int kCount>
  HWY_INLINE void add_channels(const float* keys, const Rows& rows, float* dr) const {
    Vec sums[kCount][kVecs];
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums[c][v] = zero();
    }
    for (std::int64_t n = rows.begin; n < rows.end; ++n) {
      const float* at = keys + moved(rows.lambda - n, 1);
      const float* d_score = rows.d_score + n * rows.pitch;
      Vec d[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) d[v] = load(d_score + v * kLanes);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          sums[c][v] = hn::MulAdd(d[v], load_unaligned(at + c * width_ + v * kLanes), sums[c][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        float* to = dr + c * kPanel + v * kLanes;
        store(hn::Add(load(to), sums[c][v]), to);
      }
    }
  }

  /// At most kLanes rows times r, along their diagonals as add_whole_diagonals() has them, to
  /// `kCount` channels.
  template <int kCount>
  HWY_INLINE void add_diagonals_of(const Rows& rows, const float* r, float* to) const {
    Vec sums[kCount][kVecs + 1];
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v <= kVecs; ++v) sums[c][v] = zero();
    }
    for (std::int64_t n = 0; n < rows.end; ++n) {
      const LaneMask within = hn::FirstN(Tag(), static_cast<std::size_t>(kLanes - n));
      // Vectors that begin a lane further than the row's before. Both ends reach past the panel.
      const auto ends_cut = [&](int v, Vec x) HWY_ATTR {
        if (v == 0) return hn::IfThenZeroElse(within, x);
        return v == kVecs ? hn::IfThenElseZero(within, x) : x;
      };
      const float* d_score = rows.d_score + n * rows.pitch + n - kLanes;
      Vec d[kVecs + 1];
#pragma GCC unroll 4
      for (int v = 0; v <= kVecs; ++v) d[v] = ends_cut(v, load_unaligned(d_score + v * kLanes));
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v <= kVecs; ++v) {
          const Vec x = load_unaligned(r + c * kPanel + n - kLanes + v * kLanes);
          sums[c][v] = hn::MulAdd(d[v], ends_cut(v, x), sums[c][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v <= kVecs; ++v) {
        add_unaligned(to + c * width_ + (v - 1) * kLanes, sums[c][v]);
      }
    }
  }

  /// What lies beyond the table joins its end, or nothing.
  void clear_beyond(float* sums, float& end) const {
    float sum = 0;
    for (std::int64_t n = 0; n < kReach; ++n) sum += sums[n];
    if (relative_.clips) end += sum;
    std::fill_n(sums, kReach, 0.0f);
  }

  const RelativeKeysVariant& relative_;
  DistanceRange range_;
  std::int64_t width_;  ///< floats of a channel
  FloatBuffer keys_;    ///< (tables, rank, width)
  std::int64_t slots_ = 0;
  DiagonalSums sums_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
