// CAPE's network on a block of pairs: all heads of one panel of queries and a few keys.
#if defined(PHASESCOPE_VARIANTS_CAPE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_INL_H
#endif

#include "kernels/cpu/panel-inl.h"
#include "kernels/cpu/softmax-inl.h"
#include "kernels/variants/cape_tables.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

// Keys of a block. Every array of a block is (rows, kCapeKeys, kPanel): heads or hidden units, keys,
// queries; small enough for the second-level cache at 12 heads.
inline constexpr int kCapeKeys = 16;
inline constexpr std::int64_t kCapeRow = kCapeKeys * kPanel;

/// Network and tables of one call.
struct CapeNetwork {
  CapeNetwork(const AttentionInputs& inputs)
      : cape(std::get<CapeVariant>(inputs.variant)),
        heads(inputs.shape.heads),
        layout(cape_layout(cape, heads)),
        tables(inputs, distance_range(inputs.shape, kPanel)) {}

  const CapeVariant& cape;
  std::int64_t heads;
  CapeLayout layout;
  CapeTables tables;
};

/// Content scores (natural units) of `keys` keys from place.key, one head, to a (kCapeKeys, kPanel)
/// row of the block; rows up to the next whole tile are written too.
HWY_INLINE void cape_content(const TilePlace& place, std::int64_t keys, const float* q,
                             const InputTensor& k, std::int64_t dim, float* to) {
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

/// u = w1_A a + (w1_B B + b1)(lambda), of one key; hidden: where unit 0 of the key goes.
HWY_INLINE void cape_first_layer(const CapeNetwork& net, std::int64_t distance,
                                 const float* content, float* hidden) {
  for (std::int64_t d = 0; d < net.cape.hidden; ++d) {
    const float* table = net.tables.hidden(d) + distance;
    for (int v = 0; v < kVecs; ++v) {
      store(load_unaligned(table + v * kLanes), hidden + d * kCapeRow + v * kLanes);
    }
  }
  multiply_panel({net.cape.w1, net.layout.width, 1, content, kCapeRow, hidden, kCapeRow,
                  net.heads},
                 net.cape.hidden);
}

HWY_INLINE Vec leaky(Vec x) { return hn::Max(x, hn::Mul(x, set(0.01f))); }

/// scores = a + base(lambda) + w2 leaky(u), of one key. active: (hidden, kCapeKeys, kPanel) like
/// hidden, gets leaky(u); may be hidden itself. scores may be content itself.
HWY_INLINE void cape_second_layer(const CapeNetwork& net, std::int64_t distance,
                                  const float* content, const float* hidden, float* active,
                                  float* scores) {
  for (std::int64_t d = 0; d < net.cape.hidden; ++d) {
    for (int v = 0; v < kVecs; ++v) {
      const std::int64_t at = d * kCapeRow + v * kLanes;
      store(leaky(load(hidden + at)), active + at);
    }
  }
  for (std::int64_t h = 0; h < net.heads; ++h) {
    const float* base = net.tables.base(h) + distance;
    for (int v = 0; v < kVecs; ++v) {
      const std::int64_t at = h * kCapeRow + v * kLanes;
      store(hn::Add(load(content + at), load_unaligned(base + v * kLanes)), scores + at);
    }
  }
  multiply_panel({net.cape.w2, net.cape.hidden, 1, active, kCapeRow, scores, kCapeRow,
                  net.cape.hidden},
                 net.heads);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
