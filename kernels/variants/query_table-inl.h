// A table by distance of each query's own: what its vector makes of a table of vectors by distance
// (r_i . P[lambda]).
#if defined(PHASESCOPE_VARIANTS_QUERY_TABLE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_QUERY_TABLE_INL_H
#undef PHASESCOPE_VARIANTS_QUERY_TABLE_INL_H
#else
#define PHASESCOPE_VARIANTS_QUERY_TABLE_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = scale q.k + values[i][lambda] where that entry is there. From one lane to the next, query
/// and distance grow by one, so that a row of a tile reads a diagonal of the table: number by
/// number, but only in the tiles that lie within its length.
class QueryTableScore : public VariantDefaults {
 public:
  struct Head {
    const float* values;  ///< of its first query
    float* d_values;      ///< likewise; null where they are not wanted
  };

  explicit QueryTableScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs), table_(std::get<QueryTableVariant>(inputs.variant)) {}

  Head head(std::int64_t batch, std::int64_t head) const {
    const AttentionShape& s = inputs_.shape;
    const std::int64_t first = (batch * s.heads + head) * s.queries * table_.length;
    return {table_.values + first, d_values_ ? d_values_ + first : nullptr};
  }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&)[kTileKeys][kVecs]) const {
    const std::int64_t lambda = place.query - place.key;
    if (lambda + kPanel <= 0 || lambda - kTileKeys + 1 >= table_.length) return;
    HWY_ALIGN float bias[kTileKeys * kPanel];
    read_tile(head.values, place, bias);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        t[r][v] = hn::Add(t[r][v], load(bias + r * kPanel + v * kLanes));
      }
    }
  }

  /// An entry belongs to one pair, whose d score it gets.
  HWY_INLINE DotGradients gradient(const Head& head, const Tile&, const TilePlace& place, int r,
                                   int v, Vec d_score, Vec, Vec, float*) const {
    if (head.d_values && r < place.keys) write_vector(head.d_values, place, r, v, d_score);
    return {d_score, zero()};
  }

  void begin_gradients(const Gradients& gradients, std::int64_t) {
    const auto* wanted = std::get_if<QueryTableGradients>(&gradients.variant);
    if (!wanted || !wanted->values) return;
    const AttentionShape& s = inputs_.shape;
    d_values_ = wanted->values;
    std::fill_n(d_values_, s.batch * s.heads * s.queries * table_.length, 0.0f);
  }

  void keep_from_writing(Head& head) const { head.d_values = nullptr; }

 private:
  /// Of row r of a tile, the lanes that have an entry, begin .. end - 1, and where lane 0's would
  /// be; one lane on it is `step()` further.
  struct Diagonal {
    std::int64_t first;
    std::int64_t begin, end;
  };
  std::int64_t step() const { return table_.length + 1; }
  Diagonal diagonal(const TilePlace& place, int r) const {
    const std::int64_t lambda = place.query - place.key - r;
    const std::int64_t row = place.query - inputs_.shape.query_offset;
    const std::int64_t begin = std::max<std::int64_t>(0, -lambda);
    const std::int64_t end = std::min<std::int64_t>(place.queries, table_.length - lambda);
    return {row * table_.length + lambda, begin, std::max(begin, end)};
  }

  /// The biases of a tile in log2 units, (kTileKeys, kPanel); 0 where there is no entry.
  HWY_NOINLINE void read_tile(const float* values, const TilePlace& place, float* bias) const {
    std::fill_n(bias, kTileKeys * kPanel, 0.0f);
    for (int r = 0; r < kTileKeys; ++r) {
      const Diagonal at = diagonal(place, r);
      for (std::int64_t n = at.begin; n < at.end; ++n) {
        bias[r * kPanel + n] = values[at.first + n * step()] * kLog2e;
      }
    }
  }

  HWY_NOINLINE void write_vector(float* d_values, const TilePlace& place, int r, int v,
                                 Vec d_score) const {
    HWY_ALIGN float d[kLanes];
    store(d_score, d);
    const Diagonal at = diagonal(place, r);
    const std::int64_t first = v * kLanes, last = std::min<std::int64_t>(at.end, first + kLanes);
    for (std::int64_t n = std::max(at.begin, first); n < last; ++n) {
      d_values[at.first + n * step()] = d[n - first];
    }
  }

  const QueryTableVariant& table_;
  float* d_values_ = nullptr;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
