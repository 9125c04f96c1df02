// Panels of queries: packing them lanes-last, scores of a tile, and writing rows back.
#if defined(PHASESCOPE_CPU_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_PANEL_INL_H
#undef PHASESCOPE_CPU_PANEL_INL_H
#else
#define PHASESCOPE_CPU_PANEL_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/gates.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Rows of one head as float32: where they lie, or widened.
struct FloatRows {
  const float* data;
  std::int64_t row;    ///< from one to the next
  std::int64_t first;  ///< which row is at `data`

  const float* at(std::int64_t n) const { return data + (n - first) * row; }
};

inline HWY_NOINLINE void widen_rows(const InputTensor& tensor, std::int64_t batch,
                                    std::int64_t head, std::int64_t first, std::int64_t count,
                                    std::int64_t dim, float* to) {
  for (std::int64_t n = 0; n < count; ++n) {
    read_numbers(tensor.storage, row_pointer(tensor, batch, head, first + n), dim, to + n * dim);
  }
}

/// Rows first .. first + count - 1 of a head of `dim` channels. spare: count * dim floats, which
/// 16-bit rows are widened into.
inline FloatRows float_rows(const InputTensor& tensor, std::int64_t batch, std::int64_t head,
                            std::int64_t first, std::int64_t count, std::int64_t dim,
                            float* spare) {
  if (HWY_LIKELY(tensor.storage == Storage::float32)) {
    return {static_cast<const float*>(row_pointer(tensor, batch, head, first)), tensor.row, first};
  }
  widen_rows(tensor, batch, head, first, count, dim, spare);
  return {spare, dim, first};
}

inline HWY_NOINLINE void store_row(const float* from, std::int64_t dim, const OutputTensor& to,
                                   std::int64_t batch, std::int64_t head, std::int64_t row) {
  write_numbers(to.storage, from, dim, row_pointer(to, batch, head, row));
}

/// `count` rows of what comes in for an output times their gates, in `spare` (count * dim floats,
/// where the rows may lie already).
inline HWY_NOINLINE FloatRows gated_rows(const AttentionInputs& inputs, std::int64_t batch,
                                         std::int64_t head, std::int64_t count, std::int64_t dim,
                                         const FloatRows& rows, float* spare) {
  for (std::int64_t n = 0; n < count; ++n) {
    float* to = spare + n * dim;
    if (rows.data != spare) std::copy_n(rows.data + n * rows.row, dim, to);
    times_gate(inputs, batch, head, rows.first + n, dim, to);
  }
  return {spare, dim, rows.first};
}

using Quad = hn::FixedTag<float, 4>;

/// x[m][n] to x[n][m].
HWY_INLINE void transpose(hn::Vec<Quad> (&x)[4]) {
  const Quad d;
  const auto lower02 = hn::InterleaveLower(d, x[0], x[1]),
             lower13 = hn::InterleaveUpper(d, x[0], x[1]);
  const auto upper02 = hn::InterleaveLower(d, x[2], x[3]),
             upper13 = hn::InterleaveUpper(d, x[2], x[3]);
  x[0] = hn::ConcatLowerLower(d, upper02, lower02);
  x[1] = hn::ConcatUpperUpper(d, upper02, lower02);
  x[2] = hn::ConcatLowerLower(d, upper13, lower13);
  x[3] = hn::ConcatUpperUpper(d, upper13, lower13);
}

/// to[d][lane] = scale * from[lane][d] for `count` rows of `dim` channels; other lanes 0. All rows
/// at a time, so that their cache lines are on the way together.
inline HWY_NOINLINE void pack_panel(const float* from, std::int64_t row_stride, std::int64_t count,
                                    std::int64_t dim, float scale, float* to) {
  const Quad quad;
  const std::int64_t quads = std::max<std::int64_t>(count, 0) / 4 * 4;
  for (std::int64_t d = 0; d + 4 <= dim; d += 4) {
    for (std::int64_t n = 0; n < quads; n += 4) {
      hn::Vec<Quad> x[4];
      for (int m = 0; m < 4; ++m) x[m] = hn::LoadU(quad, from + (n + m) * row_stride + d);
      transpose(x);
      for (int m = 0; m < 4; ++m) {
        hn::Store(hn::Mul(hn::Set(quad, scale), x[m]), quad, to + (d + m) * kPanel + n);
      }
    }
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    float* lanes = to + d * kPanel;
    for (std::int64_t n = d < dim / 4 * 4 ? quads : 0; n < count; ++n) {
      lanes[n] = scale * from[n * row_stride + d];
    }
    std::fill(lanes + std::max<std::int64_t>(count, 0), lanes + kPanel, 0.0f);
  }
}

/// to[lane][d] = factor[lane] * from[d][lane] for the first `count` lanes.
inline HWY_NOINLINE void unpack_rows(const float* from, const float* factor, std::int64_t count,
                                     std::int64_t dim, float* to, std::int64_t row_stride) {
  const Quad quad;
  const std::int64_t quads = count / 4 * 4;
  for (std::int64_t d = 0; d + 4 <= dim; d += 4) {
    for (std::int64_t n = 0; n < quads; n += 4) {
      hn::Vec<Quad> x[4];
      for (int m = 0; m < 4; ++m) x[m] = hn::LoadU(quad, from + (d + m) * kPanel + n);
      transpose(x);
      for (int m = 0; m < 4; ++m) {
        hn::StoreU(hn::Mul(hn::Set(quad, factor[n + m]), x[m]), quad,
                   to + (n + m) * row_stride + d);
      }
    }
  }
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t d = n < quads ? dim / 4 * 4 : 0; d < dim; ++d) {
      to[n * row_stride + d] = factor[n] * from[d * kPanel + n];
    }
  }
}

/// The same to the rows `first` and up of a head.
inline void unpack_panel(const float* from, const float* factor, std::int64_t count,
                         std::int64_t dim, const OutputTensor& to, std::int64_t batch,
                         std::int64_t head, std::int64_t first) {
  if (HWY_LIKELY(to.storage == Storage::float32)) {
    unpack_rows(from, factor, count, dim, static_cast<float*>(row_pointer(to, batch, head, first)),
                to.row);
    return;
  }
  float values[4][kMaxChannels];
  for (std::int64_t n = 0; n < count; n += 4) {
    const std::int64_t rows = std::min<std::int64_t>(4, count - n);
    unpack_rows(from + n, factor + n, rows, dim, values[0], kMaxChannels);
    for (std::int64_t m = 0; m < rows; ++m) {
      store_row(values[m], dim, to, batch, head, first + n + m);
    }
  }
}

/// The values of a panel as unpack_panel() writes them, times their rows' gates to `out`, and as
/// they are to `ungated` where it has data. spare: count * dim floats.
inline HWY_NOINLINE void unpack_gated(const float* from, const float* factor, std::int64_t count,
                                      std::int64_t dim, const AttentionInputs& inputs,
                                      const ForwardOutputs& outputs, std::int64_t batch,
                                      std::int64_t head, std::int64_t first, float* spare) {
  if (outputs.ungated.data) {
    unpack_panel(from, factor, count, dim, outputs.ungated, batch, head, first);
  }
  unpack_rows(from, factor, count, dim, spare, dim);
  for (std::int64_t n = 0; n < count; ++n) {
    times_gate(inputs, batch, head, first + n, dim, spare + n * dim);
    store_row(spare + n * dim, dim, outputs.out, batch, head, first + n);
  }
}

/// Rows of the tile's keys; rows past the last key repeat it.
HWY_INLINE void tile_rows(const TilePlace& place, const FloatRows& keys,
                          const float* (&rows)[kTileKeys]) {
  for (int r = 0; r < kTileKeys; ++r) rows[r] = keys.at(place.key + std::min(r, place.keys - 1));
}

/// The dot products of one tile against one panel. q[n]: packed queries of dot n (dim[n], kPanel);
/// k[n]: the keys of its block. `second` is set by variants with two dots alone. Vectors of queries
/// before kFirst are left at 0.
template <int kFirst = 0, class V>
HWY_INLINE void dot_tiles(const V& variant, const typename V::Head& head, const TilePlace& place,
                          const float* const (&q)[2], const FloatRows (&k)[2],
                          const std::int64_t (&dim)[2], Vec (&first)[kTileKeys][kVecs],
                          Vec (&second)[kTileKeys][kVecs]) {
  const float* rows[kTileKeys];
  for (int n = kKeyDots<V> - 1; n >= 0; --n) {
    tile_rows(place, k[n], rows);
    Vec(&acc)[kTileKeys][kVecs] = n == 1 ? second : first;
    for (int r = 0; r < kTileKeys; ++r) {
      for (int v = 0; v < kVecs; ++v) acc[r][v] = zero();
    }
    dot_tile<kFirst>(rows, q[n], dim[n], acc);
  }
  if constexpr (V::kRelativeDots) variant.relative_dots(head, place, q[1], second);
}

/// The documents of the tile's keys.
HWY_INLINE DocumentRange key_documents(const TilePlace& place) {
  return document_range(place.key_documents + place.key, place.keys);
}

/// True where all pairs of the tile are of one document.
HWY_INLINE bool is_one_document(const TilePlace& place) {
  const DocumentRange keys = key_documents(place);
  return place.documents.least == place.documents.most && keys.least == keys.most &&
         keys.least == place.documents.least;
}

/// True where causality or documents surely hide every pair of the tile.
HWY_INLINE bool is_hidden(const TilePlace& place) {
  if (place.causal && place.key >= place.query + kPanel) return true;
  if (HWY_LIKELY(!place.key_documents)) return false;
  const DocumentRange keys = key_documents(place);
  return keys.least > place.documents.most || keys.most < place.documents.least;
}

/// The first vector of queries that causality does not hide from the tile's keys, of which some
/// query of the panel sees one.
HWY_INLINE int first_vector(const TilePlace& place) {
  if (!kTriangles || !place.causal) return 0;
  int first = 0;
  while (first + 1 < kVecs && place.key >= place.query + (first + 1) * kLanes) ++first;
  return first;
}

/// True where some pair of the tile is masked.
HWY_INLINE bool is_masked(const TilePlace& place) {
  if (place.keys < kTileKeys) return true;
  const std::int64_t nearest = place.query - (place.key + kTileKeys - 1);
  const std::int64_t farthest = place.query + kPanel - 1 - place.key;
  if (nearest < (place.causal ? 0 : 1 - place.window) || farthest >= place.window) return true;
  if (HWY_UNLIKELY(place.real != nullptr) &&
      std::find(place.real + place.key, place.real + place.key + kTileKeys, 0) !=
          place.real + place.key + kTileKeys) {
    return true;
  }
  return HWY_UNLIKELY(place.key_documents != nullptr) && !is_one_document(place);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
