// What a variant tells the engine: the dot products a score is made of, the value streams its
// weight averages, how the score comes out of the dots, and the way back. The concept, and its
// defaults.
#if defined(PHASESCOPE_CPU_STREAMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_STREAMS_INL_H
#undef PHASESCOPE_CPU_STREAMS_INL_H
#else
#define PHASESCOPE_CPU_STREAMS_INL_H
#endif

#include <concepts>

#include "kernels/attention.h"
#include "kernels/cpu/problem.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/visibility.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Where a tile of scores stands: lane n is the query with key index query + n, row r the key
/// key + r; the first `keys` rows and `queries` lanes exist. And what hides pairs of it.
struct TilePlace {
  std::int64_t query;
  std::int64_t key;
  int keys;
  int queries;
  bool causal;
  std::int64_t window;
  const std::uint8_t* real;             ///< (keys of the call), 0 for padding; may be null
  const std::int32_t* query_documents;  ///< of the lanes; null where there are no documents
  const std::int32_t* key_documents;    ///< (keys of the call); null likewise
  DocumentRange documents;              ///< of the lanes that exist
};

/// Of `queries` queries from `row` of a batch entry and the keys from `key`; no rows yet.
inline TilePlace tile_place(const AttentionShape& shape, const Visibility& visibility,
                            std::int64_t batch, std::int64_t row, std::int64_t queries,
                            std::int64_t key) {
  TilePlace place{row + shape.query_offset,
                  key,
                  0,
                  static_cast<int>(queries),
                  shape.causal,
                  visibility.window(),
                  visibility.mask(batch),
                  nullptr,
                  nullptr,
                  {}};
  if (visibility.has_documents()) {
    place.query_documents = visibility.query_documents(batch, row);
    place.key_documents = visibility.key_documents(batch);
    place.documents = document_range(place.query_documents, queries);
  }
  return place;
}

/// Gradients of one vector of scores with respect to its dot products (natural units).
struct DotGradients {
  Vec first;
  Vec second;
};

/// A variant of attention where each head stands alone. Scores are in log2 units (score * log2 e).
/// One object serves a whole call and is shared by all threads; a Head is what one (batch, head)
/// needs, and `scratch` the sums of one work item of the backward pass.
template <class V>
concept HeadVariant = requires(V& v, std::int64_t i, const typename V::Head& head,
                               typename V::Head& own_head, const typename V::Tile& state,
                               float* scratch, const KeyRange& keys, const TilePlace& place, Vec x,
                               Vec (&tile)[kTileKeys][kVecs], const Gradients& gradients) {
  requires std::constructible_from<V, const AttentionInputs&>;
  { V::kDots } -> std::convertible_to<int>;  // 1 or 2
  // Whether the keys of the second are vectors by distance, which the variant has: it makes these
  // dots and their gradients itself (relative_keys-inl.h), and dot(1).k is not read.
  { V::kRelativeDots } -> std::convertible_to<bool>;
  { V::kValues } -> std::convertible_to<int>;  // 1 or 2
  { v.dot(0) } -> std::same_as<DotStream>;
  { v.value(0) } -> std::same_as<ValueStream>;
  // Whether queries are the heads of a group (heads_in_lanes.h), so that sinks are one a row.
  { V::kHeadsInLanes } -> std::convertible_to<bool>;
  { v.head(i, i) } -> std::same_as<typename V::Head>;
  // Whether score() gives kMaskedScore to all pairs of a head at a distance, and whether it ever
  // does.
  { v.masks(i, i) } -> std::same_as<bool>;
  { v.masks_some() } -> std::same_as<bool>;
  // The dot products of a tile (the first in log2 units) become its scores, in place.
  v.score(head, place, tile, tile);
  // Whether gradient() reads the dot products.
  { V::kReadsDots } -> std::convertible_to<bool>;
  // What gradient() needs to know of a tile, found once for it.
  { v.tile(place) } -> std::same_as<typename V::Tile>;
  // d score (of row r, vector n of the tile) -> d dots; a, b: the dots as score() had them, 0 where
  // it does not read them.
  { v.gradient(head, state, place, 0, 0, x, x, x, scratch) } -> std::same_as<DotGradients>;
  // Whether the gradients of the first dots, which gradient() gave, are wanted by distance, and
  // where in the scratch of an item distance 0 is then; null: not wanted.
  { V::kSumsByDistance } -> std::convertible_to<bool>;
  { v.by_distance(scratch) } -> std::same_as<float*>;
  // Scratch of an item (0 when it begins), where a block of queries' sums over some keys go from
  // there (head, slot, first query row), 0 staying behind, and what is left to do in the end.
  { v.scratch_size() } -> std::convertible_to<std::int64_t>;
  v.begin_gradients(gradients, i);
  v.flush(i, i, i, keys, scratch);
  v.finish_gradients(gradients);
  // Where gradient() writes more than its scratch: not with this head, whose pairs have another
  // pass that does.
  v.keep_from_writing(own_head);
  // Where the gradients of the dots' q and k go.
  { v.dot_gradient_q(gradients, 0) } -> std::same_as<OutputTensor>;
  { v.dot_gradient_k(gradients, 0) } -> std::same_as<OutputTensor>;
};

/// Dots whose keys are those of the call.
template <class V>
inline constexpr int kKeyDots = V::kRelativeDots ? 1 : V::kDots;

/// No-op defaults: one dot product, one value stream, the score is the dot product.
class VariantDefaults {
 public:
  static constexpr int kDots = 1;
  static constexpr bool kRelativeDots = false;
  static constexpr int kValues = 1;
  static constexpr bool kReadsDots = false;
  static constexpr bool kSumsByDistance = false;
  static constexpr bool kHeadsInLanes = false;
  struct Head {};
  struct Tile {};

  explicit VariantDefaults(const AttentionInputs& inputs) : inputs_(inputs) {}

  DotStream dot(int) const { return {inputs_.q, inputs_.k, inputs_.shape.head_dim, inputs_.scale}; }
  ValueStream value(int) const { return {inputs_.v, value_dim(inputs_.shape)}; }
  Head head(std::int64_t, std::int64_t) const { return {}; }
  bool masks(std::int64_t, std::int64_t) const { return false; }
  bool masks_some() const { return false; }

  template <class H>
  HWY_INLINE void score(const H&, const TilePlace&, Vec (&)[kTileKeys][kVecs],
                        const Vec (&)[kTileKeys][kVecs]) const {}
  /// One vector of what score() makes of its dot products: of row r and vector v of the tile.
  template <class H>
  HWY_INLINE Vec score_of(const H&, const TilePlace&, int, int, Vec dot, Vec) const {
    return dot;
  }
  Tile tile(const TilePlace&) const { return {}; }
  template <class H>
  HWY_INLINE DotGradients gradient(const H&, const Tile&, const TilePlace&, int, int, Vec d_score,
                                   Vec, Vec, float*) const {
    return {d_score, zero()};
  }

  float* by_distance(float*) const { return nullptr; }
  std::int64_t scratch_size() const { return 0; }
  void begin_gradients(const Gradients&, std::int64_t) {}
  void flush(std::int64_t, std::int64_t, std::int64_t, const KeyRange&, float*) {}
  void finish_gradients(const Gradients&) {}
  template <class H>
  void keep_from_writing(H&) const {}
  OutputTensor dot_gradient_q(const Gradients& gradients, int) const { return gradients.dq; }
  OutputTensor dot_gradient_k(const Gradients& gradients, int) const { return gradients.dk; }

 protected:
  const AttentionInputs& inputs_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
