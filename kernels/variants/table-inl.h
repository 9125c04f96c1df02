// A bias read from a table by distance (alibi, kerple, t5), or a factor (ape).
#if defined(PHASESCOPE_VARIANTS_TABLE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_TABLE_INL_H
#undef PHASESCOPE_VARIANTS_TABLE_INL_H
#else
#define PHASESCOPE_VARIANTS_TABLE_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = scale q.k + b[h][lambda]. With lanes that are queries, the biases of a row of the tile are
/// one unaligned load; added after the dot product, not as its start value, so that a large bias
/// does not round every step of the sum.
class TableScore : public VariantDefaults {
 public:
  static constexpr bool kSumsByDistance = true;
  struct Head {
    const float* bias;  ///< at distance 0; log2 units where it is added
  };

  explicit TableScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs),
        range_(distance_range(inputs.shape, kPanel)),
        bias_(padded_table(inputs, range_)) {
    const float* last = bias_.data() + inputs.shape.heads * range_.size();
    // A cap makes a finite score of everything.
    masks_some_ =
        inputs.soft_cap == 0 && std::any_of(static_cast<const float*>(bias_.data()), last, is_mask);
  }

  Head head(std::int64_t, std::int64_t head) const {
    return {bias_.data() + head * range_.size() - range_.first};
  }

  bool masks(std::int64_t head, std::int64_t distance) const {
    return masks_some_ && is_mask(bias_.data()[head * range_.size() + distance - range_.first]);
  }
  bool masks_some() const { return masks_some_; }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&)[kTileKeys][kVecs]) const {
    const float* bias = head.bias + (place.query - place.key);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        t[r][v] = hn::Add(t[r][v], load_unaligned(bias - r + v * kLanes));
      }
    }
  }

  HWY_INLINE Vec score_of(const Head& head, const TilePlace& place, int r, int v, Vec dot,
                          Vec) const {
    return hn::Add(dot, load_unaligned(head.bias + (place.query - place.key - r + v * kLanes)));
  }

  std::int64_t scratch_size() const { return range_.size(); }

  void begin_gradients(const Gradients& gradients, std::int64_t slots) {
    if (std::holds_alternative<TableGradients>(gradients.variant)) {
      sums_ = DiagonalSums(range_, inputs_.shape.heads, slots);
    }
  }

  float* by_distance(float* scratch) const {
    return sums_.wanted() ? scratch - range_.first : nullptr;
  }

  void flush(std::int64_t head, std::int64_t slot, std::int64_t query, const KeyRange& keys,
             float* scratch) {
    const std::int64_t first = query + inputs_.shape.query_offset;
    sums_.take(head, slot, touched_distances(range_, first, kQueryBlock, keys), scratch);
  }

  void finish_gradients(const Gradients& gradients) {
    const auto* wanted = std::get_if<TableGradients>(&gradients.variant);
    if (!wanted || !wanted->values) return;
    const auto& table = std::get<TableVariant>(inputs_.variant);
    sums_.write(wanted->values, wanted->head_stride, table.length, table.first_distance);
  }

 protected:
  DistanceRange range_;

 private:
  static bool is_mask(float bias) { return bias <= kFirstMaximum; }

  FloatBuffer bias_;
  bool masks_some_ = false;
  DiagonalSums sums_;
};

/// s = scale q.k f[h][lambda], the factor where TableScore has its bias.
class MultipliedTableScore : public TableScore {
 public:
  using TableScore::TableScore;
  static constexpr bool kReadsDots = true;
  static constexpr bool kSumsByDistance = false;

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&)[kTileKeys][kVecs]) const {
    const float* factor = head.bias + (place.query - place.key);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        t[r][v] = hn::Mul(t[r][v], load_unaligned(factor - r + v * kLanes));
      }
    }
  }

  /// d a = d s f; d f = d s a, a in natural units.
  HWY_INLINE DotGradients gradient(const Head& head, const Tile&, const TilePlace& place, int r,
                                   int v, Vec d_score, Vec a, Vec, float* scratch) const {
    const std::int64_t lambda = place.query - place.key - r + v * kLanes;
    float* at = scratch + (lambda - range_.first);
    const Vec content = hn::Mul(a, set(kLn2));
    store_unaligned(hn::MulAdd(d_score, content, load_unaligned(at)), at);
    return {hn::Mul(d_score, load_unaligned(head.bias + lambda)), zero()};
  }
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
