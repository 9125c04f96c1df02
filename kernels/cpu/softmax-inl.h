// The running softmax of one panel of queries: mask, reference maximum, weights, normaliser, and
// the row probes that ride along.
#if defined(PHASESCOPE_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_SOFTMAX_INL_H
#undef PHASESCOPE_CPU_SOFTMAX_INL_H
#else
#define PHASESCOPE_CPU_SOFTMAX_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/moments-inl.h"
#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Row sums of a panel's probes, each kPanel floats. Entropy, distance and windows are relative to
/// the reference maximum and rescaled with it.
struct PanelProbes {
  float* entropy;   ///< sum p (t - reference)
  float* distance;  ///< sum p lambda; null: not wanted
  float* best;      ///< largest score so far (log2 units)
  float* best_key;  ///< null: not wanted
  float* top;       ///< the largest so far, largest first: a row of scores and one of keys each
  std::int64_t top_count;
  const float* bound;  ///< scores up to this change nothing: the last of `top`, or `best`
  float* first_score;  ///< score of key 0
  float* window[kMaxWindows];
  std::int64_t width[kMaxWindows];  ///< 0: not wanted
  std::int64_t widest;              ///< of them
  float* scores;   ///< where a block's scores are left, rows like its weights'; null: nowhere
  float* content;  ///< likewise its content scores
  /// Sums over a block's keys, of distances below `edge` and from there on: of weights (2 rows),
  /// then of scores (score_tally()); null: not wanted.
  float* tally;
  std::int64_t edge;
};

inline constexpr int kTallyRows = 2 + 2 * 4;  // of floats
/// A vector of ShiftedMoments of scores of one side: the shift, the two sums and the number of
/// scores, kPanel further each. 0 of lanes that have none yet.
HWY_INLINE float* score_tally(float* tally, int side) { return tally + (2 + 4 * side) * kPanel; }

/// The state of a panel: reference maximum and normaliser (kPanel floats each), accumulated values
/// (dim, kPanel) of each stream.
struct Panel {
  float* reference;
  float* normaliser;
  float* out[2];
  std::int64_t out_dim[2];
  PanelProbes probes;
};

inline constexpr int kProbeRows = 5 + kMaxWindows;

/// Weight of a score. lse: where the panel's Log2Lse::high of the lane lies, `low` kPanel further.
HWY_INLINE Vec weight_of(Vec score, const float* lse) {
  return exp2_any(hn::Sub(hn::Sub(score, load(lse)), load(lse + kPanel)));
}

HWY_INLINE void fill_panel(float* p, float value) {
  for (int v = 0; v < kVecs; ++v) store(set(value), p + v * kLanes);
}

HWY_INLINE void scale_rows(float* rows, std::int64_t count, const float* factor) {
  for (std::int64_t r = 0; r < count; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      float* at = rows + r * kPanel + v * kLanes;
      store(hn::Mul(load(at), load(factor + v * kLanes)), at);
    }
  }
}

/// Raises the reference to `maximum` where that is larger, and scales everything that is relative
/// to it: the first `rows` rows of `weights`, and the panel's sums. Called where some lane exceeds
/// the bound; the others are raised with it, or, where a bias grows towards the diagonal, every
/// tile would have a lane that is due (15 % of ALiBi's forward pass at 8192 tokens).
template <bool kProbes>
HWY_NOINLINE void raise_reference(Panel& panel, const float* maximum, float* weights,
                                  std::int64_t rows) {
  HWY_ALIGN float factor[kPanel];
  for (int v = 0; v < kVecs; ++v) {
    const Vec old = load(panel.reference + v * kLanes);
    const Vec tile = load(maximum + v * kLanes);
    const LaneMask raise = hn::Gt(tile, old);
    const Vec raised = hn::IfThenElse(raise, tile, old);
    const Vec f = hn::IfThenElse(raise, exp2_any(hn::Sub(old, raised)), set(1.0f));
    if constexpr (kProbes) {
      // sum p (t - new) = f (sum p (t - old) + (old - new) l); the first raise has l = 0.
      float* entropy = panel.probes.entropy + v * kLanes;
      const Vec l = load(panel.normaliser + v * kLanes);
      const Vec step = hn::IfThenElse(hn::Gt(l, zero()), hn::Sub(old, raised), zero());
      store(hn::MulAdd(step, l, load(entropy)), entropy);
    }
    store(raised, panel.reference + v * kLanes);
    store(f, factor + v * kLanes);
  }
  scale_rows(panel.normaliser, 1, factor);
  for (int n = 0; n < 2; ++n) scale_rows(panel.out[n], panel.out_dim[n], factor);
  scale_rows(weights, rows, factor);
  if constexpr (kProbes) {
    scale_rows(panel.probes.entropy, 1, factor);
    if (panel.probes.distance) scale_rows(panel.probes.distance, 1, factor);
    for (float* window : panel.probes.window) scale_rows(window, 1, factor);
    if (panel.probes.tally) scale_rows(panel.probes.tally, 2, factor);
  }
}

/// The lanes of row r that see its key: first .. last - 1. None of rows that do not exist and of
/// padding.
struct LaneRange {
  float first, last;
};
HWY_INLINE LaneRange seeing_lanes(const TilePlace& place, int r) {
  if (r >= place.keys || (place.real && !place.real[place.key + r])) return {1e9f, 0};
  const std::int64_t same = place.key + r - place.query;  // the lane at distance 0
  return {static_cast<float>(place.causal ? same : same - place.window + 1),
          static_cast<float>(same + place.window)};
}

/// Masks the pairs of different documents.
HWY_INLINE void mask_documents(const TilePlace& place, Vec (&t)[kTileKeys][kVecs]) {
  const IntTag di;
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    const auto queries = hn::LoadU(di, place.query_documents + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
      const std::int32_t key = place.key_documents[place.key + std::min(r, place.keys - 1)];
      const LaneMask same = hn::RebindMask(Tag(), hn::Eq(queries, hn::Set(di, key)));
      t[r][v] = hn::IfThenElse(same, t[r][v], set(kMaskedScore));
    }
  }
}

/// Vectors of queries before kFirst are masked already.
template <int kFirst = 0>
HWY_INLINE void mask_tile(const TilePlace& place, Vec (&t)[kTileKeys][kVecs]) {
#pragma GCC unroll 8
  for (int r = 0; r < kTileKeys; ++r) {
    const LaneRange seeing = seeing_lanes(place, r);
#pragma GCC unroll 4
    for (int v = kFirst; v < kVecs; ++v) {
      const Vec lane = iota(static_cast<float>(v * kLanes));
      const LaneMask seen =
          hn::And(hn::Ge(lane, set(seeing.first)), hn::Lt(lane, set(seeing.last)));
      t[r][v] = hn::IfThenElse(seen, t[r][v], set(kMaskedScore));
    }
  }
  if (HWY_UNLIKELY(place.key_documents != nullptr)) mask_documents(place, t);
}

/// Scores (log2 units) s to cap tanh(s / cap), cap in the same units; nothing where it is 0.
HWY_INLINE void cap_tile(float cap, Vec (&t)[kTileKeys][kVecs]) {
  if (HWY_LIKELY(cap == 0)) return;
  for (int r = 0; r < kTileKeys; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      t[r][v] = hn::Mul(set(cap), hyperbolic_tangent(hn::Div(t[r][v], set(cap))));
    }
  }
}

/// The slope of the cap where it gave the scores t, rows of kPanel.
HWY_INLINE void cap_slopes(float cap, const Vec (&t)[kTileKeys][kVecs], float* slopes) {
  for (int r = 0; r < kTileKeys; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      const Vec tangent = hn::Div(t[r][v], set(cap));
      store(hn::NegMulAdd(tangent, tangent, set(1.0f)), slopes + r * kPanel + v * kLanes);
    }
  }
}

HWY_INLINE void store_tile(const Vec (&t)[kTileKeys][kVecs], float* to) {
  for (int r = 0; r < kTileKeys; ++r) {
    for (int v = 0; v < kVecs; ++v) store(t[r][v], to + r * kPanel + v * kLanes);
  }
}

/// The largest score of each row so far and, where it is wanted, its key, the first among equals.
/// maximum: the tile's.
HWY_INLINE void probe_maximum(const TilePlace& place, const Vec (&t)[kTileKeys][kVecs],
                              const Vec (&maximum)[kVecs], PanelProbes& probes) {
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    float* best = probes.best + v * kLanes;
    const Vec old = load(best);
    const LaneMask better = hn::Gt(maximum[v], old);
    store(hn::IfThenElse(better, maximum[v], old), best);
    if (!probes.best_key) continue;
    float* best_key = probes.best_key + v * kLanes;
    Vec key = zero();
#pragma GCC unroll 8
    for (int r = kTileKeys - 1; r >= 0; --r) {
      key = hn::IfThenElse(hn::Eq(t[r][v], maximum[v]), set(static_cast<float>(r)), key);
    }
    key = hn::Add(key, set(static_cast<float>(place.key)));
    store(hn::IfThenElse(better, key, load(best_key)), best_key);
  }
}

// Versions, the 8 and the 32 largest over no probes (Zen 4, AVX-512, D 64, 2048 tokens, the machine
// busy): plain 1.3, 1.8, a table of ALiBi's kind 1.5, 2.3. Worse: keys that wait, lane by lane,
// until one has eight of them, for an insertion that serves all lanes (1.5, 2.0; 2.2, 2.3).

/// Puts one key's scores `x` of a vector of queries where they belong among the `count` largest;
/// last: the smallest of these. From there up, as far as any lane's score goes: equal ones stay
/// above, so that the lower key, which came first, is ahead.
HWY_INLINE void insert_key(Vec x, Vec key, float* last, std::int64_t count) {
  Vec score = load(last), own = load(last + kPanel);
  LaneMask in = hn::Gt(x, score);
  for (float* at = last; !hn::AllFalse(Tag(), in); at -= 2 * kPanel) {
    const bool first = --count == 0;
    const Vec above = first ? x : load(at - 2 * kPanel);
    const Vec above_key = first ? key : load(at - kPanel);
    const LaneMask passes = hn::Gt(x, above);
    store(hn::IfThenElse(passes, above, hn::IfThenElse(in, x, score)), at);
    store(hn::IfThenElse(passes, above_key, hn::IfThenElse(in, key, own)), at + kPanel);
    in = passes;
    score = above;
    own = above_key;
  }
}

/// The same for the keys from `key` of a tile of scores, rows of kPanel.
inline HWY_NOINLINE void insert_keys(const float* tile, std::int64_t key,
                                     const PanelProbes& probes) {
  float* last = probes.top + 2 * (probes.top_count - 1) * kPanel;
  for (int v = 0; v < kVecs; ++v) {
    for (int r = 0; r < kTileKeys; ++r) {
      insert_key(load(tile + r * kPanel + v * kLanes), set(static_cast<float>(key + r)),
                 last + v * kLanes, probes.top_count);
    }
  }
}

/// Weight within each window. Tiles wholly inside or outside a window need no mask.
HWY_INLINE void probe_windows(const TilePlace& place, const float* weights, const Vec (&sum)[kVecs],
                              PanelProbes& probes) {
  const std::int64_t nearest = place.query - place.key - (kTileKeys - 1);
  if (HWY_LIKELY(nearest >= probes.widest)) return;
  const std::int64_t farthest = place.query + kPanel - 1 - place.key;
  for (int w = 0; w < kMaxWindows; ++w) {
    const std::int64_t width = probes.width[w];
    if (width == 0 || nearest >= width || farthest <= -width) continue;
    const bool inside = farthest < width && nearest > -width;
    for (int v = 0; v < kVecs; ++v) {
      Vec mass = zero();
      if (inside) {
        mass = sum[v];
      } else {
        for (int r = 0; r < kTileKeys; ++r) {
          const Vec lambda = iota(static_cast<float>(place.query - place.key - r + v * kLanes));
          const LaneMask in = hn::Lt(hn::Abs(lambda), set(static_cast<float>(width)));
          mass = hn::Add(mass, hn::IfThenElseZero(in, load(weights + r * kPanel + v * kLanes)));
        }
      }
      float* at = probes.window[w] + v * kLanes;
      store(hn::Add(load(at), mass), at);
    }
  }
}

/// On which side of the edge a tile's distances lie: 0 below it, 1 from there on, 2 both.
HWY_INLINE int side_of_edge(const TilePlace& place, std::int64_t edge) {
  if (HWY_LIKELY(place.query + kPanel - 1 - place.key < edge)) return 0;
  return place.query - place.key - (kTileKeys - 1) >= edge ? 1 : 2;
}

/// The lanes of vector v whose queries are nearer to the tile's key r than the edge.
HWY_INLINE LaneMask nearer_lanes(const TilePlace& place, std::int64_t edge, int v, int r) {
  return hn::Lt(iota(static_cast<float>(v * kLanes)),
                set(static_cast<float>(edge + place.key + r - place.query)));
}

/// Scores of one vector of queries, of the lanes that are not hidden(row), to the tally of their
/// side. A lane's first score there is its shift: all of them belong to one bucket, and differ by
/// no more than scores of that bucket do, whose deviation is what counts.
template <bool kHides, class Score, class Hidden>
HWY_INLINE void add_to_tally(float* tally, const Score& score, const Hidden& hidden) {
  Vec shift = load(tally), count = load(tally + 3 * kPanel);
  const LaneMask none = hn::Eq(count, zero());
  if constexpr (kHides) {
#pragma GCC unroll 8
    for (int r = kTileKeys - 1; r >= 0; --r) {
      shift = hn::IfThenElse(hn::AndNot(hidden(r), none), score(r), shift);
    }
  } else {
    shift = hn::IfThenElse(none, score(0), shift);
  }
  ShiftedMoments moments{shift, load(tally + kPanel), load(tally + 2 * kPanel)};
#pragma GCC unroll 8
  for (int r = 0; r < kTileKeys; ++r) {
    if constexpr (kHides) {
      moments.add_unless(hidden(r), score(r));
      count = hn::Add(count, hn::IfThenZeroElse(hidden(r), set(1.0f)));
    } else {
      moments.add(score(r));
    }
  }
  store(shift, tally);
  store(moments.sum, tally + kPanel);
  store(moments.square, tally + 2 * kPanel);
  store(kHides ? count : hn::Add(count, set(kTileKeys)), tally + 3 * kPanel);
}

/// A NaN is none.
HWY_INLINE LaneMask is_masked_score(Vec score) { return hn::Le(score, set(kFirstMaximum)); }

/// The rows of a tile of scores, or of weights, to both sides of a tally.
inline HWY_NOINLINE void tally_scores_beside_edge(const TilePlace& place, const float* tile,
                                                  const PanelProbes& probes) {
  for (int v = 0; v < kVecs; ++v) {
    const auto score = [&](int r) { return load(tile + r * kPanel + v * kLanes); };
    const auto near = [&](int r) { return nearer_lanes(place, probes.edge, v, r); };
    add_to_tally<true>(score_tally(probes.tally, 0) + v * kLanes, score,
                       [&](int r) { return hn::Or(hn::Not(near(r)), is_masked_score(score(r))); });
    add_to_tally<true>(score_tally(probes.tally, 1) + v * kLanes, score,
                       [&](int r) { return hn::Or(near(r), is_masked_score(score(r))); });
  }
}
inline HWY_NOINLINE void tally_weights_beside_edge(const TilePlace& place, const float* tile,
                                                   const PanelProbes& probes) {
  for (int v = 0; v < kVecs; ++v) {
    Vec side[2] = {zero(), zero()};
    for (int r = 0; r < kTileKeys; ++r) {
      const Vec x = load(tile + r * kPanel + v * kLanes);
      const LaneMask near = nearer_lanes(place, probes.edge, v, r);
      side[0] = hn::Add(side[0], hn::IfThenElseZero(near, x));
      side[1] = hn::Add(side[1], hn::IfThenZeroElse(near, x));
    }
    for (int n = 0; n < 2; ++n) {
      float* at = probes.tally + n * kPanel + v * kLanes;
      store(hn::Add(load(at), side[n]), at);
    }
  }
}

/// Scores of a tile to the tally.
template <bool kMasked, int kFirst>
HWY_INLINE void tally_scores(const TilePlace& place, const Vec (&t)[kTileKeys][kVecs],
                             const PanelProbes& probes) {
  const int side = side_of_edge(place, probes.edge);
  if (HWY_UNLIKELY(side == 2)) {
    HWY_ALIGN float tile[kTileKeys * kPanel];
    store_tile(t, tile);
    tally_scores_beside_edge(place, tile, probes);
    return;
  }
#pragma GCC unroll 4
  for (int v = kFirst; v < kVecs; ++v) {
    add_to_tally<kMasked>(
        score_tally(probes.tally, side) + v * kLanes, [&](int r) { return t[r][v]; },
        [&](int r) { return is_masked_score(t[r][v]); });
  }
}

/// Weights of a tile likewise; sum: over its keys.
HWY_INLINE void tally_weights(const TilePlace& place, const float* weights, const Vec (&sum)[kVecs],
                              const PanelProbes& probes) {
  const int side = side_of_edge(place, probes.edge);
  if (HWY_UNLIKELY(side == 2)) {
    tally_weights_beside_edge(place, weights, probes);
    return;
  }
  for (int v = 0; v < kVecs; ++v) {
    float* at = probes.tally + side * kPanel + v * kLanes;
    store(hn::Add(load(at), sum[v]), at);
  }
}

/// True where some lane's maximum lies further above its reference than the bound.
HWY_INLINE bool exceeds_bound(const float* reference, const float* maximum) {
  for (int v = 0; v < kVecs; ++v) {
    const Vec bound = hn::Add(load(reference + v * kLanes), set(kRescaleBound));
    if (!hn::AllFalse(Tag(), hn::Gt(load(maximum + v * kLanes), bound))) return true;
  }
  return false;
}

// Versions, maximum and entropy over no probes (Zen, AVX-512, D 64; 512 and 2048 tokens): 1.060,
// 1.046; sums of distances made only where they are wanted, and no instruction for what has no
// weight: 1.056, 1.036; no search for the maximum's key where it is not wanted: 1.047, 1.026.
// Without gain: that search for the vectors alone that have a new maximum.

/// Weights of a tile's scores from vector kFirst on, and their sums over its keys, which are added
/// to the panel's; with kDistance to the sums of distances too.
template <bool kProbes, bool kDistance, int kFirst>
HWY_INLINE void weigh_scores(const TilePlace& place, const Vec (&t)[kTileKeys][kVecs],
                             float* weights, const Panel& panel, Vec (&sum)[kVecs]) {
#pragma GCC unroll 4
  for (int v = kFirst; v < kVecs; ++v) {
    const Vec reference = load(panel.reference + v * kLanes);
    Vec entropy = zero(), moment = zero();
    sum[v] = zero();
    // From the last key up: sum p r is then the sum of the sums on the way, additions alone, which
    // run beside the multiply-adds.
#pragma GCC unroll 8
    for (int r = kTileKeys - 1; r >= 0; --r) {
      const Vec x = hn::Sub(t[r][v], reference);
      const Vec p = exp2_any(x);
      store(p, weights + r * kPanel + v * kLanes);
      sum[v] = hn::Add(sum[v], p);
      // A masked score times its weight of 0 is to be none of -infinity's NaN.
      if constexpr (kProbes) entropy = add_times_power(p, x, entropy);
      if constexpr (kDistance) moment = r > 0 ? hn::Add(moment, sum[v]) : moment;
    }
    float* normaliser = panel.normaliser + v * kLanes;
    store(hn::Add(load(normaliser), sum[v]), normaliser);
    if constexpr (kProbes) {
      float* at = panel.probes.entropy + v * kLanes;
      store(hn::Add(load(at), entropy), at);
    }
    if constexpr (kDistance) {
      const Vec lambda = iota(static_cast<float>(place.query - place.key + v * kLanes));
      float* at = panel.probes.distance + v * kLanes;
      store(hn::Add(load(at), hn::MulSub(lambda, sum[v], moment)), at);
    }
  }
}

/// Turns a tile of scores into weights relative to the panel's reference, written to row `rows` and
/// up of `block` (rows of kPanel), and adds them to the normaliser and the row probes. Vectors of
/// queries before kFirst see none of the keys; their scores are masked already.
template <bool kProbes, bool kMasked, int kFirst = 0>
HWY_INLINE void softmax_tile(const TilePlace& place, Vec (&t)[kTileKeys][kVecs], float* block,
                             std::int64_t rows, Panel& panel) {
  if constexpr (kMasked) mask_tile<kFirst>(place, t);
  Vec maximum[kVecs];
  LaneMask exceeds[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kFirst; ++v) {
    maximum[v] = set(kMaskedScore);
    exceeds[v] = hn::Ne(maximum[v], maximum[v]);
  }
#pragma GCC unroll 4
  for (int v = kFirst; v < kVecs; ++v) {
    maximum[v] = t[0][v];
#pragma GCC unroll 8
    for (int r = 1; r < kTileKeys; ++r) maximum[v] = hn::Max(maximum[v], t[r][v]);
    // The largest score so far is never further than the bound above the reference, so that a tile
    // without a larger one (or one among the largest wanted) needs no second look.
    exceeds[v] = hn::Gt(maximum[v],
                        kProbes ? load(panel.probes.bound + v * kLanes)
                                : hn::Add(load(panel.reference + v * kLanes), set(kRescaleBound)));
  }
  if (HWY_UNLIKELY(!hn::AllFalse(Tag(), hn::Or(hn::Or(exceeds[0], exceeds[1]), exceeds[2])))) {
    if constexpr (kProbes) {
      probe_maximum(place, t, maximum, panel.probes);
      if (panel.probes.top) {
        HWY_ALIGN float tile[kTileKeys * kPanel];
        store_tile(t, tile);
        insert_keys(tile, place.key, panel.probes);
      }
    }
    HWY_ALIGN float tile_maximum[kPanel];
    for (int v = 0; v < kVecs; ++v) store(maximum[v], tile_maximum + v * kLanes);
    if (!kProbes || exceeds_bound(panel.reference, tile_maximum)) {
      raise_reference<kProbes>(panel, tile_maximum, block, rows);
    }
  }
  if constexpr (kProbes) {
    if (place.key == 0) {
      for (int v = 0; v < kVecs; ++v) store(t[0][v], panel.probes.first_score + v * kLanes);
    }
    if (panel.probes.tally) {
      tally_scores<kMasked, kFirst>(place, t, panel.probes);
    } else if (panel.probes.scores) {
      store_tile(t, panel.probes.scores + rows * kPanel);
    }
  }
  float* weights = block + rows * kPanel;
  Vec sum[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kFirst; ++v) {
    sum[v] = zero();
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) store(zero(), weights + r * kPanel + v * kLanes);
  }
  if (kProbes && panel.probes.distance) {
    weigh_scores<kProbes, kProbes, kFirst>(place, t, weights, panel, sum);
  } else {
    weigh_scores<kProbes, false, kFirst>(place, t, weights, panel, sum);
  }
  if constexpr (kProbes) {
    probe_windows(place, weights, sum, panel.probes);
    if (panel.probes.tally) tally_weights(place, weights, sum, panel.probes);
  }
}

/// Weights relative to a reference that is not raised any more, rows of kPanel.
HWY_INLINE void weigh_tile(const Vec (&t)[kTileKeys][kVecs], const float* reference,
                           float* weights) {
  for (int r = 0; r < kTileKeys; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      store(exp2_any(hn::Sub(t[r][v], load(reference + v * kLanes))),
            weights + r * kPanel + v * kLanes);
    }
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
