// Sums by distance of one panel of queries, beside its running softmax.
//
// Weights are relative to a reference maximum until the row's normaliser is known, and a diagonal
// crosses rows, so they wait: a block whose distances lie in wide buckets leaves one sum a query
// and bucket, with the reference it is relative to; of other blocks the weights themselves are kept
// until the end (a panel's rows x the keys of narrow buckets, never N x N), and what exceeds the
// memory for that is computed again then. Scores of one bucket or two are summed tile by tile while
// they are in registers (PanelProbes::tally), unless contents are wanted or the variant masks
// pairs; those of others are stored and summed block by block, distance by distance, relative to
// one score of each (moments-inl.h says why), or in float64 where a block lacks some pairs of a
// distance: documents, padding between real keys, its own ends.
//
// Versions, all probes over none with the log-sum-exp known (Zen 4, AVX-512, D 64, 512, 2048 and
// 8192 tokens):
//   sums by distance of a block at a time, scores and weights by themselves   1.25, 1.24, 1.17
//   the keys of larger scores looked for where there is one, mean distances
//     without multiplications (softmax-inl.h)                                 1.23, 1.21, 1.14
//   sums by distance of an item, all in one walk, drained into buckets once   1.18, 1.15, 1.11
// In one pass from nothing, least times, every distance below 2048 and 32 buckets an octave from
// there on; in brackets three buckets an octave:
//   everything in float64, weights kept wherever two edges cross a block
//                                 1.24, 1.18, 1.34 (1.20, 1.15, 1.19; D 128 at 8192: 1.16)
//   relative scores, weights of wide buckets summed by query
//                                 1.22, 1.16, 1.25 (1.19, 1.15, 1.09; D 128 at 8192: 1.06)
// No difference: two panels an item, so that what is kept fits the second cache.
#if defined(PHASESCOPE_CPU_BUCKETS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_BUCKETS_INL_H
#undef PHASESCOPE_CPU_BUCKETS_INL_H
#else
#define PHASESCOPE_CPU_BUCKETS_INL_H
#endif

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/buckets.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// kKeys: keys of a block, a multiple of kLanes and of kTileKeys.
template <int kKeys>
class BucketPanel {
 public:
  struct Block {
    std::int64_t key;
    std::int64_t keys;
  };

  /// Floats of a block of weights that is kept, with its reference.
  static constexpr std::int64_t kBlock = (kKeys + 1) * kPanel;
  /// Floats of memory for one panel of which `kept` blocks are kept.
  static std::int64_t size(const BucketPlan& plan, std::int64_t kept) {
    return plan.wanted() ? (plan.wide_count() * 2 + 2 + kTallyRows) * kPanel + kept * kBlock : 0;
  }

  /// `queries` queries from key index `query`; by_distance: their item's. holes: something else
  /// than their distance may mask some of their pairs with the keys of a block. lse: theirs, where
  /// it is known, or null; probes: where the block's scores and contents will be, kKeys rows each;
  /// at: size() floats.
  BucketPanel(const BucketPlan& plan, const DistanceSums& by_distance, std::int64_t query,
              std::int64_t queries, bool holes, const float* lse, const float* sink,
              std::int64_t kept, const PanelProbes& probes, float* at)
      : plan_(plan),
        by_distance_(by_distance),
        query_(query),
        queries_(queries),
        kept_limit_(kept),
        holes_(holes),
        scores_(probes.scores),
        content_(probes.content),
        wide_(at),
        lse_(lse ? at + plan.wide_count() * 2 * kPanel : nullptr),
        tally_(at + (plan.wide_count() * 2 + 2) * kPanel),
        kept_weights_(at + (plan.wide_count() * 2 + 2 + kTallyRows) * kPanel) {
    for (std::int64_t n = 0; lse_ && n < kPanel; ++n) {
      const Log2Lse split = n < queries ? log2_lse(lse[n], sink) : Log2Lse{};
      lse_[n] = split.high;
      lse_[kPanel + n] = split.low;
    }
    for (std::int64_t n = 0; n < plan.wide_count(); ++n) {
      fill_panel(wide_ + 2 * n * kPanel, kFirstMaximum);
      fill_panel(wide_ + (2 * n + 1) * kPanel, 0);
    }
  }

  /// Begins a block of `keys` keys; where its weights shall go: `spare`, or where they are kept.
  /// masks: the variant masks some of its pairs.
  float* open(PanelProbes& probes, std::int64_t key, std::int64_t keys, bool masks, float* spare) {
    block_ = {key, keys};
    weights_ = spare;
    keeps_ = false;
    run_count_ = plan_.runs(query_ - key - keys + 1, query_ + queries_ - 1 - key, runs_);
    counts_ = run_count_ == 0;
    for (int n = 0; n < run_count_; ++n) counts_ = counts_ || plan_.holds(runs_[n].place);
    tallies_ = counts_ && (run_count_ == 1 || run_count_ == 2) && !content_ && !masks;
    probes.scores = counts_ && !tallies_ ? scores_ : nullptr;
    probes.tally = tallies_ ? tally_ : nullptr;
    if (tallies_) {
      probes.edge = run_count_ == 2 ? runs_[0].first : std::numeric_limits<std::int64_t>::min();
      std::fill_n(tally_, kTallyRows * kPanel, 0.0f);
    }
    if (run_count_ > 0 || lse_) return weights_;
    const auto kept = static_cast<std::int64_t>(kept_.size());
    keeps_ = kept < kept_limit_;
    if (keeps_) {
      weights_ = kept_weights_ + kept * kBlock;
      kept_.push_back(block_);
    } else {
      skipped_.push_back(block_);
    }
    return weights_;
  }

  /// Ends the block: its scores and weights are there. masked: some of its pairs are.
  void close(const Panel& panel, bool masked, double* sums) {
    if (!counts_) return;
    if (tallies_) {
      add_tally(panel, sums);
      return;
    }
    shifts_ = !holes_ && !misses_pairs();
    if (masked && !shifts_) hide_masked();
    hide_missing(scores_);
    if (content_) add_content();
    if (run_count_ > 0) {
      add_scores(scores_, kScoreSum);
      add_runs(panel);
      return;
    }
    if (lse_ || keeps_) hide_missing(weights_);
    if (keeps_) std::copy_n(panel.reference, kPanel, weights_ + kKeys * kPanel);
    if (!lse_) {
      add_scores(scores_, kScoreSum);
      return;
    }
    HWY_ALIGN float factor[kPanel];
    for (int v = 0; v < kVecs; ++v) {
      store(weight_of(load(panel.reference + v * kLanes), lse_ + v * kLanes), factor + v * kLanes);
    }
    if (shifts_) {
      add_shifted<true>(scores_, kScoreSum, weights_, factor);
    } else {
      add_pairs(scores_, kScoreSum);
      add_weights(block_, weights_, factor);
    }
  }

  /// Ends the panel, whose normaliser is final now.
  void finish(const Panel& panel, double* sums) {
    HWY_ALIGN float factor[kPanel];
    for (std::int32_t b = 0; b < plan_.count(); ++b) {
      if (plan_.wide(b) < 0) continue;
      const float* at = wide_ + 2 * plan_.wide(b) * kPanel;
      find_factors(panel, at, factor);
      for (std::int64_t n = 0; n < queries_; ++n) {
        sums[b] += static_cast<double>(at[kPanel + n]) * static_cast<double>(factor[n]);
      }
    }
    for (std::size_t n = 0; n < kept_.size(); ++n) {
      const float* weights = kept_weights_ + static_cast<std::int64_t>(n) * kBlock;
      find_factors(panel, weights + kKeys * kPanel, factor);
      add_weights(kept_[n], weights, factor);
    }
  }

  /// Blocks whose weights were not kept: to be computed again, relative to the panel's reference,
  /// and given to add_again().
  const std::vector<Block>& skipped() const { return skipped_; }

  void add_again(const Block& block, float* weights, const Panel& panel) {
    HWY_ALIGN float factor[kPanel];
    block_ = block;
    hide_missing(weights);
    find_factors(panel, panel.reference, factor);
    add_weights(block, weights, factor);
  }

 private:
  /// Whether the block lacks pairs at distances that its other pairs are seen at: of queries that
  /// do not exist, or of keys in its last rows that causality does not hide.
  bool misses_pairs() const {
    if (queries_ < kPanel) return true;
    return rows() > block_.keys && !(plan_.causal() && query_ + kPanel <= block_.key + block_.keys);
  }

  /// Scores and contents of the block's masked pairs to 0.
  void hide_masked() {
    for (std::int64_t n = 0; n < block_.keys * kPanel; n += kLanes) {
      const Vec t = load(scores_ + n);
      const LaneMask hidden = is_masked_score(t);
      store(hn::IfThenZeroElse(hidden, t), scores_ + n);
      if (content_) store(hn::IfThenZeroElse(hidden, load(content_ + n)), content_ + n);
    }
  }

  /// Contents of a block like its scores, and then, in their place, its terms.
  void add_content() const {
    hide_missing(content_);
    add_scores(content_, kContentSum);
    if (!plan_.term()) return;
    for (std::int64_t n = 0; n < rows() * kPanel; n += kLanes) {
      store(hn::Sub(load(scores_ + n), load(content_ + n)), content_ + n);
    }
    add_scores(content_, kTermSum);
  }

  /// Scores of the block, its contents or its terms to the sums by distance; stat: of their sum,
  /// their squares' is the next.
  void add_scores(const float* scores, BucketStat stat) const {
    if (shifts_) {
      add_shifted<false>(scores, stat, nullptr, nullptr);
    } else {
      add_pairs(scores, stat);
    }
  }

  /// Rows of the block's keys, up to whole vectors of them.
  std::int64_t rows() const { return round_up(block_.keys, kLanes); }

  /// Rows of keys and lanes of queries that do not exist to 0, up to whole vectors of rows.
  void hide_missing(float* block) const {
    std::fill(block + block_.keys * kPanel, block + rows() * kPanel, 0.0f);
    for (std::int64_t r = 0; r < block_.keys && queries_ < kPanel; ++r) {
      std::fill(block + r * kPanel + queries_, block + (r + 1) * kPanel, 0.0f);
    }
  }

  /// What the tiles summed into their buckets.
  void add_tally(const Panel& panel, double* sums) {
    for (int n = 0; n < run_count_; ++n) {
      const std::int32_t place = runs_[n].place;
      if (!plan_.holds(place)) continue;
      const int side = 1 - n;  // from the edge on, or below it
      Moments all;
      for (int v = 0; v < kVecs; ++v) {
        add_to_wide(panel, place, v, load(tally_ + side * kPanel + v * kLanes));
        const float* at = score_tally(tally_, side) + v * kLanes;
        const LaneMask missing =
            hn::Ge(iota(static_cast<float>(v * kLanes)), set(static_cast<float>(queries_)));
        ShiftedMoments{load(at), load(at + kPanel), load(at + 2 * kPanel)}.add_to(
            load(at + 3 * kPanel), missing, all);
      }
      sums[kScoreSum * plan_.count() + place] += all.total_sum();
      sums[kScoreSquare * plan_.count() + place] += all.total_square();
    }
  }

  /// The weights of each query and run: rows whose distances a vector of queries has all in the
  /// run, and rows that the edge between two runs crosses.
  void add_runs(const Panel& panel) {
    for (int v = 0; v < kVecs; ++v) {
      const std::int64_t keys = block_.keys;
      const std::int64_t first = query_ + v * kLanes - block_.key;  // distance of row 0, lane 0
      std::int64_t r = 0;
      Vec sum = zero();
      for (int n = 0; n < run_count_; ++n) {
        const bool last = n + 1 == run_count_;
        const std::int64_t edge = runs_[n].first;
        const std::int64_t whole = last ? keys : std::clamp(first - edge + 1, r, keys);
        const std::int64_t crossed = last ? keys : std::clamp(first - edge + kLanes, whole, keys);
        Vec even = zero();
        for (; r + 1 < whole; r += 2) {
          sum = hn::Add(sum, load(weights_ + r * kPanel + v * kLanes));
          even = hn::Add(even, load(weights_ + (r + 1) * kPanel + v * kLanes));
        }
        if (r < whole) sum = hn::Add(sum, load(weights_ + r++ * kPanel + v * kLanes));
        Vec nearer = zero();
        for (; r < crossed; ++r) {
          const Vec p = load(weights_ + r * kPanel + v * kLanes);
          const LaneMask near = hn::Lt(iota(0), set(static_cast<float>(edge - first + r)));
          nearer = hn::Add(nearer, hn::IfThenElseZero(near, p));
          even = hn::Add(even, hn::IfThenZeroElse(near, p));
        }
        if (plan_.holds(runs_[n].place)) {
          add_to_wide(panel, runs_[n].place, v, hn::Add(sum, even));
        }
        sum = nearer;
      }
    }
  }

  /// Adds weights, relative to the panel's reference, to those of a bucket.
  void add_to_wide(const Panel& panel, std::int32_t place, int v, Vec sum) {
    float* reference = wide_ + 2 * plan_.wide(place) * kPanel + v * kLanes;
    const Vec old = load(reference), now = load(panel.reference + v * kLanes);
    store(hn::MulAdd(load(reference + kPanel), ratio(old, now), sum), reference + kPanel);
    store(now, reference);
  }

  /// 2^(from - to), exactly 1 where they are the same.
  static Vec ratio(Vec from, Vec to) {
    return hn::IfThenElse(hn::Eq(from, to), set(1.0f), exp2_any(hn::Sub(from, to)));
  }

  /// What turns weights relative to `reference` into a row's weights; 0 for rows that see no key.
  static void find_factors(const Panel& panel, const float* reference, float* factor) {
    for (int v = 0; v < kVecs; ++v) {
      const Vec l = load(panel.normaliser + v * kLanes);
      const Vec f = ratio(load(reference + v * kLanes), load(panel.reference + v * kLanes));
      store(hn::IfThenZeroElse(hn::Eq(l, zero()), hn::Div(f, l)), factor + v * kLanes);
    }
  }

  /// Distances of a block: the n-th is nearest() + n.
  static constexpr std::int64_t kDistances = kKeys + kPanel;
  std::int64_t nearest(const Block& block) const {
    return query_ - block.key - round_up(block.keys, kLanes) + 1;
  }

  /// Walks the pairs of a block along its diagonals. kLanes neighbouring distances are in lane v of
  /// row r + n kLanes, v = n + d: one sum, sums.begin(n), for every r and d, of the distances from
  /// the n-th on. No two of one r touch the same distance, so that sums in memory need not wait for
  /// each other.
  template <class Sums>
  HWY_INLINE static void walk(const Block& block, const Sums& sums) {
    const std::int64_t rows = round_up(block.keys, kLanes);
    if (rows == kKeys) {
      walk_steps(kKeys / kLanes, sums);
    } else {
      walk_steps(rows / kLanes, sums);
    }
  }
  /// Inlined twice: all counts are constants where a block is whole.
  template <class Sums>
  HWY_INLINE static void walk_steps(const std::int64_t steps, const Sums& sums) {
    for (std::int64_t r = 0; r < kLanes; ++r) {
#pragma GCC unroll 16
      for (std::int64_t d = 1 - steps; d < kVecs; ++d) {
        const std::int64_t n = (d + steps) * kLanes - r - 1;
        auto sum = sums.begin(n);
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          if (v < d || v >= steps + d) continue;
          sums.add(((v - d) * kLanes + r) * kPanel + v * kLanes, v, sum);
        }
        sums.end(n, sum);
      }
    }
  }

  static HWY_INLINE void add_at(float* to, Vec x) {
    store_unaligned(hn::Add(load_unaligned(to), x), to);
  }

  struct WeightWalk {
    const float *weights, *factor;
    float* to;

    HWY_INLINE Vec begin(std::int64_t) const { return zero(); }
    HWY_INLINE void add(std::int64_t at, int v, Vec& sum) const {
      sum = hn::MulAdd(load(weights + at), load(factor + v * kLanes), sum);
    }
    HWY_INLINE void end(std::int64_t n, Vec sum) const { add_at(to + n, sum); }
  };
  /// Adds a block's weights, each times the factor of its query, to the sums by distance.
  HWY_NOINLINE void add_weights(const Block& block, const float* weights,
                                const float* factor) const {
    walk(block, WeightWalk{weights, factor, by_distance_.weight(nearest(block))});
  }

  struct PairWalk {
    const float* scores;
    double *sums, *squares;

    HWY_INLINE Moments begin(std::int64_t) const { return Moments(); }
    HWY_INLINE void add(std::int64_t at, int, Moments& sum) const { sum.add(scores + at); }
    HWY_INLINE void end(std::int64_t n, const Moments& sum) const {
      sum.add_to(sums + n, squares + n);
    }
  };
  /// Adds the block's scores, 0 of masked pairs; stat: of their sum, their squares' is the next.
  HWY_NOINLINE void add_pairs(const float* scores, BucketStat stat) const {
    const std::int64_t first = nearest(block_);
    walk(block_, PairWalk{scores, by_distance_.at(stat, first), by_distance_.at(stat + 1, first)});
  }

  struct ShiftedSum {
    ShiftedMoments scores;
    Vec weights;
  };
  template <bool kWeights>
  struct ShiftedWalk {
    const float *scores, *shifts;
    float *sums, *squares;
    WeightWalk weights;

    HWY_INLINE ShiftedSum begin(std::int64_t n) const {
      return {{load_unaligned(shifts + n), zero(), zero()}, zero()};
    }
    HWY_INLINE void add(std::int64_t at, int v, ShiftedSum& sum) const {
      sum.scores.add(load(scores + at));
      if constexpr (kWeights) weights.add(at, v, sum.weights);
    }
    HWY_INLINE void end(std::int64_t n, const ShiftedSum& sum) const {
      add_at(sums + n, sum.scores.sum);
      add_at(squares + n, sum.scores.square);
      if constexpr (kWeights) weights.end(n, sum.weights);
    }
  };
  /// add_pairs() where a distance of the block is masked as a whole or not at all: relative to one
  /// score of each distance. With the block's weights, or without.
  template <bool kWeights>
  HWY_NOINLINE void add_shifted(const float* scores, BucketStat stat, const float* weights,
                                const float* factor) const {
    HWY_ALIGN float shifts[kDistances], masks[kDistances];
    HWY_ALIGN float sums[kDistances] = {}, squares[kDistances] = {};
    copy_samples(scores, shifts);
    copy_samples(scores_, masks);
    const std::int64_t first = nearest(block_);
    walk(block_, ShiftedWalk<kWeights>{
                     scores, shifts, sums, squares, {weights, factor, by_distance_.weight(first)}});
    for (std::int64_t n = 0; n < rows() + kPanel; n += kLanes) {
      // Of a distance, the lane in row 0; it has as many pairs as lanes and rows from there on.
      const Vec lane = iota(static_cast<float>(n - rows() + 1));
      const Vec pairs =
          hn::Sub(hn::Min(set(static_cast<float>(block_.keys)), hn::Sub(set(kPanel), lane)),
                  hn::Max(hn::Neg(lane), zero()));
      Moments moments;
      ShiftedMoments{load(shifts + n), load(sums + n), load(squares + n)}.add_to(
          pairs, is_masked_score(load(masks + n)), moments);
      moments.add_to(by_distance_.at(stat, first + n), by_distance_.at(stat + 1, first + n));
    }
  }
  /// One of a block's scores for each distance: those of the last row, of the first lanes of a row
  /// in kLanes, and of row 0.
  void copy_samples(const float* scores, float* samples) const {
    const std::int64_t last = rows() - 1;
    store(load(scores + last * kPanel), samples);
    for (std::int64_t n = kLanes - 1; n < last; n += kLanes) {
      store_unaligned(load(scores + (last - n) * kPanel), samples + n);
    }
    for (int v = 0; v < kVecs; ++v) {
      store_unaligned(load(scores + v * kLanes), samples + last + v * kLanes);
    }
    samples[last + kPanel] = 0;
  }

  const BucketPlan& plan_;
  const DistanceSums& by_distance_;
  std::int64_t query_, queries_, kept_limit_;
  bool holes_;
  float* scores_;
  float* content_;  ///< null where no sums of it are wanted
  float* wide_;     ///< for every wide bucket: reference and sum, kPanel each
  float* lse_;      ///< Log2Lse::high of the panel, then `low`; null where it is not known yet
  float* tally_;    ///< PanelProbes::tally
  float* kept_weights_;
  std::vector<Block> kept_, skipped_;
  Block block_{};
  float* weights_ = nullptr;
  bool keeps_ = false;
  bool tallies_ = false;  ///< the block's tiles are summed one by one
  bool shifts_ = false;   ///< its distances are masked as a whole or not at all: add_shifted()
  bool counts_ = false;   ///< some of its distances are in a bucket
  int run_count_ = 0;     ///< 0: its buckets are narrow, weights are summed distance by distance
  BucketRun runs_[BucketPlan::kMostRuns];
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
