// CAPE's network on a block of pairs: all heads of one panel of queries and a few keys.
#if defined(PHASESCOPE_VARIANTS_CAPE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_INL_H
#endif

#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/softmax-inl.h"
#include "kernels/variants/cape_pieces-inl.h"
#include "kernels/variants/cape_tables.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

// Every array of a block is (rows, keys, kPanel): heads or hidden units, keys, queries. One key
// more than a block has lies between rows, so that the rows of a key do not share their cache sets.
constexpr std::int64_t cape_row(std::int64_t keys) { return (keys + 1) * kPanel; }
// Keys of a block of the forward pass and of regions. The values a head accumulates are read and
// written once a block, and do not fit the first-level cache.
inline constexpr int kCapeKeys = 64;
inline constexpr std::int64_t kCapeRow = cape_row(kCapeKeys);

/// What the biases add to the numbers of one key and a panel of queries: rows of the hidden units
/// (w1_B B + b1) and of the heads' scores (B + b2), `row` apart.
struct CapeBiases {
  const float* hidden;
  const float* base;
  std::int64_t row;
};

/// Network of one call, and its tables or, over FIRE, its pieces.
struct CapeNetwork {
  CapeNetwork(const AttentionInputs& inputs)
      : cape(std::get<CapeVariant>(inputs.variant)),
        heads(inputs.shape.heads),
        query_offset(inputs.shape.query_offset),
        layout(cape_layout(cape, heads)),
        range(distance_range(inputs.shape, kPanel)) {
    if (is_on_fire(cape)) {
      pieces.emplace(inputs, range, kPanel);
    } else {
      tables.emplace(inputs, range);
    }
  }

  /// Floats that biases() may write, with rows kPanel apart.
  std::int64_t biases_size() const { return pieces ? pieces->rows() * kPanel : 0; }

  /// Of the queries from key index `query` and one key; `memory`: biases_size() floats.
  CapeBiases biases(std::int64_t query, std::int64_t key, float* memory) const {
    const std::int64_t distance = query - key;
    if (tables) return {tables->hidden(0) + distance, tables->base(0) + distance, range.size()};
    fill_pieces(*pieces, distance, query - query_offset, memory, kPanel);
    return {memory, memory + cape.hidden * kPanel, kPanel};
  }

  const CapeVariant& cape;
  std::int64_t heads;
  std::int64_t query_offset;
  CapeLayout layout;
  DistanceRange range;
  std::optional<CapeTables> tables;
  std::optional<CapePieces> pieces;
};

/// Content scores (natural units) of `keys` keys from place.key, one head, to (keys, kPanel); rows
/// up to the next whole tile are written too.
inline HWY_NOINLINE void cape_content(const TilePlace& place, std::int64_t keys, const float* q,
                                      const FloatRows& k, std::int64_t dim, float* to) {
  TilePlace tile = place;
  for (std::int64_t n = 0; n < keys; n += kTileKeys) {
    tile.key = place.key + n;
    tile.keys = static_cast<int>(std::min<std::int64_t>(kTileKeys, keys - n));
    const float* rows[kTileKeys];
    tile_rows(tile, k, rows);
    Vec acc[kTileKeys][kVecs];
    for (int r = 0; r < kTileKeys; ++r) {
      for (int v = 0; v < kVecs; ++v) acc[r][v] = zero();
    }
    dot_tile(rows, q, dim, acc);
    for (int r = 0; r < kTileKeys; ++r) {
      for (int v = 0; v < kVecs; ++v) store(acc[r][v], to + (n + r) * kPanel + v * kLanes);
    }
  }
}

HWY_INLINE Vec leaky(Vec x) { return hn::Max(x, hn::Mul(x, set(0.01f))); }

/// acc[r] += sum_n weights[r * stride + n] * x[n], rows of x `x_row` apart; kTransposed: of
/// weights[n * stride + r].
template <bool kTransposed = false, int R>
HWY_INLINE void cape_sums(const float* weights, std::int64_t stride, const float* x,
                          std::int64_t x_row, std::int64_t count, Vec (&acc)[R][kVecs]) {
  for (std::int64_t n = 0; n < count; ++n) {
    Vec xs[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) xs[v] = load(x + n * x_row + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec w = set(weights[kTransposed ? n * stride + r : r * stride + n]);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) acc[r][v] = hn::MulAdd(w, xs[v], acc[r][v]);
    }
  }
}

/// Calls tile(first row, rows as a constant) for all rows, in tiles of kTileKeys and smaller ones.
template <class Tile>
HWY_INLINE void cape_tiles(std::int64_t rows, const Tile& tile) {
  std::int64_t row = 0;
  for (; row + kTileKeys <= rows; row += kTileKeys) {
    tile(row, std::integral_constant<int, kTileKeys>());
  }
  for (; row + 4 <= rows; row += 4) tile(row, std::integral_constant<int, 4>());
  for (; row < rows; ++row) tile(row, std::integral_constant<int, 1>());
}

/// Where the numbers of one key are: its heads' content scores, and its hidden units after the
/// rectifier. content_row, hidden_row: from one head or unit to the next.
struct CapeKey {
  CapeBiases biases;
  const float* content;
  std::int64_t content_row;
  float* active;
  std::int64_t hidden_row;
};

/// leaky(u), u = w1_A a + w1_B B + b1, of one key.
inline HWY_NOINLINE void cape_first_layer(const CapeNetwork& net, const CapeKey& key) {
  const std::int64_t width = net.layout.width, heads = net.heads, row = key.hidden_row;
  const std::int64_t size = key.biases.row;
  const float* tables = key.biases.hidden;
  cape_tiles(
      net.cape.hidden, [&](std::int64_t d, auto rows) __attribute__((always_inline)) {
        constexpr int kRows = decltype(rows)::value;
        const float* table = tables + d * size;
        Vec u[kRows][kVecs];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) {
            u[r][v] = load_unaligned(table + r * size + v * kLanes);
          }
        }
        cape_sums(net.cape.w1 + d * width, width, key.content, key.content_row, heads, u);
        float* active = key.active + d * row;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) {
            store(leaky(u[r][v]), active + r * row + v * kLanes);
          }
        }
      });
}

/// scores = a + base + w2 leaky(u), of one key, rows like the content scores'; may be
/// these.
inline HWY_NOINLINE void cape_second_layer(const CapeNetwork& net, const CapeKey& key,
                                           float* scores) {
  const std::int64_t hidden = net.cape.hidden, row = key.content_row;
  const std::int64_t size = key.biases.row;
  const float* bases = key.biases.base;
  cape_tiles(
      net.heads, [&](std::int64_t h, auto rows) __attribute__((always_inline)) {
        constexpr int kRows = decltype(rows)::value;
        Vec f[kRows][kVecs];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) f[r][v] = zero();
        }
        cape_sums(net.cape.w2 + h * hidden, hidden, key.active, key.hidden_row, hidden, f);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const float* base = bases + (h + r) * size;
          const float* content = key.content + (h + r) * row;
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) {
            const Vec linear =
                hn::Add(load(content + v * kLanes), load_unaligned(base + v * kLanes));
            store(hn::Add(linear, f[r][v]), scores + (h + r) * row + v * kLanes);
          }
        }
      });
}

// Up to so many heads the network of a vector of pairs stays in registers: content scores and sums
// of all heads, and a hidden unit. More go layer by layer through memory, in the same order of
// additions: the backward pass gets the bits of the forward pass's scores, or a row's d scores
// would not sum to 0.
inline constexpr int kCapeRegisterHeads = kLanes >= 16 ? 12 : 5;
// Distances of a block of keys and a panel, whole vectors.
inline constexpr std::int64_t kCapeWindow = kCapeKeys + kPanel;

/// scores = a + base + w2 leaky(u) of one key, both layers at once, V vectors of queries at
/// a time, as many as fit the registers. pairs: for every hidden unit its weights w1_A of the
/// heads, then w2. tables: rows of kCapeWindow with what the biases add to the key's hidden units,
/// then to its heads.
template <int H>
inline HWY_NOINLINE void cape_in_registers(std::int64_t hidden, const float* HWY_RESTRICT pairs,
                                           const float* HWY_RESTRICT tables, float* scores) {
  constexpr int kRegisters = kLanes >= 16 ? 30 : 14;
  constexpr int V = kVecs * (2 * H + 1) <= kRegisters ? kVecs : 1;
  for (int first = 0; first < kVecs; first += V) {
    const float* table = tables + first * kLanes;
    const float* weights = pairs;
    Vec a[H][V], sum[H][V];
#pragma GCC unroll 16
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        a[h][v] = load(scores + h * kCapeRow + (first + v) * kLanes);
        sum[h][v] = zero();
      }
    }
    for (std::int64_t d = 0; d < hidden; ++d, table += kCapeWindow, weights += 2 * H) {
      Vec u[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) u[v] = load_unaligned(table + v * kLanes);
#pragma GCC unroll 16
      for (int h = 0; h < H; ++h) {
        const Vec w = set(weights[h]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) u[v] = hn::MulAdd(w, a[h][v], u[v]);
      }
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) u[v] = leaky(u[v]);
#pragma GCC unroll 16
      for (int h = 0; h < H; ++h) {
        const Vec w = set(weights[H + h]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[h][v] = hn::MulAdd(w, u[v], sum[h][v]);
      }
    }
#pragma GCC unroll 16
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Vec linear = hn::Add(a[h][v], load_unaligned(table + h * kCapeWindow + v * kLanes));
        store(hn::Add(linear, sum[h][v]), scores + h * kCapeRow + (first + v) * kLanes);
      }
    }
  }
}

/// Turns the content scores of a block, all heads, into CAPE's.
class CapeScorer {
 public:
  explicit CapeScorer(const CapeNetwork& net) : net_(net) {
    if (net.heads > kCapeRegisterHeads) return;
    pairs_ = FloatBuffer(net.cape.hidden * 2 * net.heads);
    float* at = pairs_.data();
    for (std::int64_t d = 0; d < net.cape.hidden; ++d) {
      for (std::int64_t h = 0; h < net.heads; ++h) *at++ = net.cape.w1[d * net.layout.width + h];
      for (std::int64_t h = 0; h < net.heads; ++h) *at++ = net.cape.w2[h * net.cape.hidden + d];
    }
    in_registers_ = pick(std::make_integer_sequence<int, kCapeRegisterHeads>());
  }

  /// Floats of memory for one thread, aligned.
  std::int64_t scratch_size() const {
    return in_registers_ ? (net_.cape.hidden + net_.heads) * kCapeWindow
                         : net_.cape.hidden * kPanel + net_.biases_size();
  }

  /// scores: (heads, kCapeRow), up to kCapeKeys keys; query: the key index of the first query. The
  /// tables must hold the distances of all `keys` keys.
  void score(std::int64_t query, std::int64_t key, std::int64_t keys, float* scores,
             float* scratch) const {
    if (in_registers_ && net_.tables) copy_tables(query - key - keys + 1, keys, scratch);
    for (std::int64_t r = 0; r < keys; ++r, scores += kPanel) {
      if (in_registers_ && net_.tables) {
        in_registers_(net_.cape.hidden, pairs_.data(), scratch + keys - 1 - r, scores);
      } else if (in_registers_) {
        fill_pieces(*net_.pieces, query - key - r, query - net_.query_offset, scratch, kCapeWindow);
        in_registers_(net_.cape.hidden, pairs_.data(), scratch, scores);
      } else {
        float* memory = scratch + net_.cape.hidden * kPanel;
        const CapeKey numbers{net_.biases(query, key + r, memory), scores, kCapeRow, scratch,
                              kPanel};
        cape_first_layer(net_, numbers);
        cape_second_layer(net_, numbers, scores);
      }
    }
  }

 private:
  using InRegisters = void (*)(std::int64_t, const float*, const float*, float*);

  /// The tables' entries of a block from distance `from`. So many rows so far apart, each read a
  /// line further every 16 keys, are foreseen by no prefetcher; one copy a block waits for all at
  /// once.
  void copy_tables(std::int64_t from, std::int64_t keys, float* to) const {
    const std::int64_t count = round_up(keys - 1 + kPanel, kLanes);
    const auto copy = [&](const float* row) {
      for (std::int64_t n = 0; n < count; n += kLanes) store(load_unaligned(row + n), to + n);
      to += kCapeWindow;
    };
    for (std::int64_t d = 0; d < net_.cape.hidden; ++d) copy(net_.tables->hidden(d) + from);
    for (std::int64_t h = 0; h < net_.heads; ++h) copy(net_.tables->base(h) + from);
  }

  template <int... kHeads>
  InRegisters pick(std::integer_sequence<int, kHeads...>) const {
    constexpr std::array<InRegisters, sizeof...(kHeads)> kAll{&cape_in_registers<kHeads + 1>...};
    return kAll[static_cast<std::size_t>(net_.heads - 1)];
  }

  const CapeNetwork& net_;
  FloatBuffer pairs_;
  InRegisters in_registers_ = nullptr;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
