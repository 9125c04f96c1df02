// Sums by distance of one panel of queries, beside its running softmax.
//
// Weights are relative to a reference maximum until the row's normaliser is known, and a diagonal
// crosses rows, so they wait: a block whose distances share one bucket leaves one sum a query, with
// the reference it is relative to, and one that the edge of two wide buckets crosses leaves two; of
// other blocks the weights themselves are kept until the end (a panel's rows x the keys of narrow
// buckets, never N x N), and what exceeds the memory for that is computed again then. Scores of the
// former are summed tile by tile while they are in registers (PanelProbes::tally), unless contents
// are wanted or the variant masks pairs; those of the others are stored and summed block by block.
//
// Versions, all probes over none with the log-sum-exp known (Zen 4, AVX-512, D 64, 512, 2048 and
// 8192 tokens):
//   sums by distance of a block at a time, scores and weights by themselves   1.25, 1.24, 1.17
//   the keys of larger scores looked for where there is one, mean distances
//     without multiplications (softmax-inl.h)                                 1.23, 1.21, 1.14
//   sums by distance of an item, all in one walk, drained into buckets once   1.18, 1.15, 1.11
// In one pass from nothing, at 8192 tokens (three runs each): weights kept wherever an edge crosses
// a block 1.14, 1.14, 1.25; sums on both sides of the edge 1.05, 1.12, 1.16; scores of wide buckets
// summed while they are in registers 0.97 of that (eight buckets an octave); in float64, without
// which deviations under a large bias are wrong, 1.03 of it again, but 1.2 with 32 buckets an
// octave, where each distance is summed by itself (1.17 to 1.40 over none).
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

  /// `queries` queries from key index `query`; by_distance: their item's. lse: theirs, where it is
  /// known, or null; probes: where the block's scores and contents will be, kKeys rows each; at:
  /// size() floats.
  BucketPanel(const BucketPlan& plan, const DistanceSums& by_distance, std::int64_t query,
              std::int64_t queries, const float* lse, std::int64_t kept, const PanelProbes& probes,
              float* at)
      : plan_(plan),
        by_distance_(by_distance),
        query_(query),
        queries_(queries),
        kept_limit_(kept),
        scores_(probes.scores),
        content_(probes.content),
        wide_(at),
        lse_(lse ? at + plan.wide_count() * 2 * kPanel : nullptr),
        tally_(at + (plan.wide_count() * 2 + 2) * kPanel),
        kept_weights_(at + (plan.wide_count() * 2 + 2 + kTallyRows) * kPanel) {
    for (std::int64_t n = 0; lse_ && n < kPanel; ++n) {
      const Log2Lse split = n < queries ? log2_lse(lse[n]) : Log2Lse{};
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
    place_ = plan_.common_place(query_ - key - keys + 1, query_ + queries_ - 1 - key);
    if (plan_.holds(place_) && plan_.wide(place_) < 0) place_ = BucketPlan::kSeveral;
    const std::int64_t nearest = query_ - key - keys + 1;
    edge_ = place_ == BucketPlan::kSeveral && nearest >= 0
                ? plan_.edge_within(nearest, query_ + queries_ - 1 - key)
                : -1;
    const bool counts = place_ == BucketPlan::kSeveral || plan_.holds(place_);
    tallies_ = counts && (place_ != BucketPlan::kSeveral || edge_ >= 0) && !content_ && !masks;
    probes.scores = counts && !tallies_ ? scores_ : nullptr;
    probes.tally = tallies_ ? tally_ : nullptr;
    if (tallies_) {
      probes.edge = edge_ >= 0 ? edge_ : std::numeric_limits<std::int64_t>::max();
      std::fill_n(tally_, kTallyRows * kPanel, 0.0f);
    }
    if (place_ != BucketPlan::kSeveral || edge_ >= 0 || lse_) return weights_;
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
    if (place_ != BucketPlan::kSeveral && !plan_.holds(place_)) return;
    if (tallies_) {
      add_tally(panel, sums);
      return;
    }
    const std::int64_t rows = round_up(block_.keys, kLanes);
    if (masked) hide_masked();
    hide_missing(scores_);
    if (content_) add_content(rows, sums);
    if (place_ != BucketPlan::kSeveral) {
      add_scores(scores_, kScoreSum, rows, sums);
      hide_missing(weights_);
      add_wide(panel, rows);
      return;
    }
    if (edge_ >= 0) {
      add_split_scores(scores_, kScoreSum, rows, sums);
      hide_missing(weights_);
      add_split_wide(panel, rows);
      return;
    }
    if (lse_) {
      hide_missing(weights_);
      HWY_ALIGN float factor[kPanel];
      for (int v = 0; v < kVecs; ++v) {
        store(weight_of(load(panel.reference + v * kLanes), lse_ + v * kLanes),
              factor + v * kLanes);
      }
      add_diagonals<true, true>(block_, scores_, kScoreSum, weights_, factor);
      return;
    }
    add_diagonals<true, false>(block_, scores_, kScoreSum, nullptr, nullptr);
    if (!keeps_) return;
    hide_missing(weights_);
    std::copy_n(panel.reference, kPanel, weights_ + kKeys * kPanel);
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
      add_diagonals<false, true>(kept_[n], nullptr, kScoreSum, weights, factor);
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
    add_diagonals<false, true>(block, nullptr, kScoreSum, weights, factor);
  }

 private:
  /// Scores and contents of the block's masked pairs to 0. A NaN is no masked score.
  void hide_masked() {
    for (std::int64_t n = 0; n < block_.keys * kPanel; n += kLanes) {
      const Vec t = load(scores_ + n);
      const LaneMask hidden = hn::Le(t, set(kFirstMaximum));
      store(hn::IfThenZeroElse(hidden, t), scores_ + n);
      if (content_) store(hn::IfThenZeroElse(hidden, load(content_ + n)), content_ + n);
    }
  }

  /// Contents of a block like its scores, and then, in their place, its terms.
  void add_content(std::int64_t rows, double* sums) const {
    hide_missing(content_);
    add_moments(kContentSum, rows, sums);
    if (!plan_.term()) return;
    for (std::int64_t n = 0; n < rows * kPanel; n += kLanes) {
      store(hn::Sub(load(scores_ + n), load(content_ + n)), content_ + n);
    }
    add_moments(kTermSum, rows, sums);
  }

  /// What is in the place of the block's contents; stat: of their sum.
  void add_moments(BucketStat stat, std::int64_t rows, double* sums) const {
    if (place_ != BucketPlan::kSeveral) {
      add_scores(content_, stat, rows, sums);
    } else if (edge_ >= 0) {
      add_split_scores(content_, stat, rows, sums);
    } else {
      add_diagonals<true, false>(block_, content_, stat, nullptr, nullptr);
    }
  }

  /// Rows of keys and lanes of queries that do not exist to 0, up to whole vectors of rows.
  void hide_missing(float* block) const {
    const std::int64_t rows = round_up(block_.keys, kLanes);
    std::fill(block + block_.keys * kPanel, block + rows * kPanel, 0.0f);
    for (std::int64_t r = 0; r < block_.keys && queries_ < kPanel; ++r) {
      std::fill(block + r * kPanel + queries_, block + (r + 1) * kPanel, 0.0f);
    }
  }

  /// What the tiles summed into their buckets.
  void add_tally(const Panel& panel, double* sums) {
    for (int n = 0; n < (edge_ >= 0 ? 2 : 1); ++n) {
      const std::int32_t place = edge_ >= 0 ? place_beside_edge(n) : place_;
      if (!plan_.holds(place)) continue;
      for (int v = 0; v < kVecs; ++v) {
        add_to_wide(panel, place, v, load(tally_ + n * kPanel + v * kLanes));
      }
      const double* at = score_tally(tally_) + 2 * n * kPanel;
      for (std::int64_t lane = 0; lane < queries_; ++lane) {
        sums[kScoreSum * plan_.count() + place] += at[lane];
        sums[kScoreSquare * plan_.count() + place] += at[kPanel + lane];
      }
    }
  }

  /// All scores into the block's one bucket; stat: of their sum, their squares' is the next.
  void add_scores(const float* scores, BucketStat stat, std::int64_t rows, double* sums) const {
    for (int v = 0; v < kVecs; ++v) {
      Moments part[2];
      for (std::int64_t r = 0; r < rows; r += 2) {
        for (int n = 0; n < 2; ++n) part[n].add(scores + (r + n) * kPanel + v * kLanes);
      }
      sums[stat * plan_.count() + place_] += part[0].total_sum() + part[1].total_sum();
      sums[(stat + 1) * plan_.count() + place_] += part[0].total_square() + part[1].total_square();
    }
  }

  void add_wide(const Panel& panel, std::int64_t rows) {
    for (int v = 0; v < kVecs; ++v) {
      Vec sum[2] = {zero(), zero()};
      for (std::int64_t r = 0; r < rows; r += 2) {
        for (int n = 0; n < 2; ++n) {
          sum[n] = hn::Add(sum[n], load(weights_ + (r + n) * kPanel + v * kLanes));
        }
      }
      add_to_wide(panel, place_, v, hn::Add(sum[0], sum[1]));
    }
  }

  /// Adds weights, relative to the panel's reference, to those of a bucket.
  void add_to_wide(const Panel& panel, std::int32_t place, int v, Vec sum) {
    float* reference = wide_ + 2 * plan_.wide(place) * kPanel + v * kLanes;
    const Vec old = load(reference), now = load(panel.reference + v * kLanes);
    store(hn::MulAdd(load(reference + kPanel), ratio(old, now), sum), reference + kPanel);
    store(now, reference);
  }

  /// The queries of a vector that are nearer to the block's key r than the edge.
  LaneMask nearer(int v, std::int64_t r) const {
    const auto lanes = static_cast<float>(edge_ + block_.key + r - query_);
    return hn::Lt(iota(static_cast<float>(v * kLanes)), set(lanes));
  }
  /// Places on both sides of the edge.
  std::int32_t place_beside_edge(int side) const { return plan_.place(edge_ - 1 + side); }

  /// add_scores() of a block with an edge within.
  void add_split_scores(const float* scores, BucketStat stat, std::int64_t rows,
                        double* sums) const {
    for (int v = 0; v < kVecs; ++v) {
      Moments side[2];
      for (std::int64_t r = 0; r < rows; ++r) {
        const Vec t = load(scores + r * kPanel + v * kLanes);
        const LaneMask near = nearer(v, r);
        side[0].add(hn::IfThenElseZero(near, t));
        side[1].add(hn::IfThenZeroElse(near, t));
      }
      for (int n = 0; n < 2; ++n) {
        const std::int32_t place = place_beside_edge(n);
        if (!plan_.holds(place)) continue;
        sums[stat * plan_.count() + place] += side[n].total_sum();
        sums[(stat + 1) * plan_.count() + place] += side[n].total_square();
      }
    }
  }

  /// add_wide() of such a block.
  void add_split_wide(const Panel& panel, std::int64_t rows) {
    for (int v = 0; v < kVecs; ++v) {
      Vec sum[2] = {zero(), zero()};
      for (std::int64_t r = 0; r < rows; ++r) {
        const Vec p = load(weights_ + r * kPanel + v * kLanes);
        const LaneMask near = nearer(v, r);
        sum[0] = hn::Add(sum[0], hn::IfThenElseZero(near, p));
        sum[1] = hn::Add(sum[1], hn::IfThenZeroElse(near, p));
      }
      for (int n = 0; n < 2; ++n) {
        const std::int32_t place = place_beside_edge(n);
        if (plan_.holds(place)) add_to_wide(panel, place, v, sum[n]);
      }
    }
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

  /// Adds a block's scores (stat: of their sum, their squares' is the next) and weights times
  /// `factor` to the sums by distance. kLanes neighbouring distances are in lane v of row r + n
  /// kLanes, v = n + d: a vector of sums for every r and d. No two of one r touch the same
  /// distance, so that sums in memory need not wait for each other.
  template <bool kScores, bool kWeights>
  HWY_NOINLINE void add_diagonals(const Block& block, const float* scores, BucketStat stat,
                                  const float* weights, const float* factor) const {
    const std::int64_t rows = round_up(block.keys, kLanes);
    if (rows == kKeys) {
      add_diagonals<kScores, kWeights>(block.key, kKeys / kLanes, scores, stat, weights, factor);
    } else {
      add_diagonals<kScores, kWeights>(block.key, rows / kLanes, scores, stat, weights, factor);
    }
  }

  /// Inlined twice: all counts are constants where a block is whole.
  template <bool kScores, bool kWeights>
  HWY_INLINE void add_diagonals(std::int64_t key, const std::int64_t steps, const float* scores,
                                BucketStat stat, const float* weights, const float* factor) const {
    const std::int64_t nearest = query_ - key - steps * kLanes + 1;
    float* const weight = by_distance_.weight(nearest);
    double* const score = by_distance_.at(stat, nearest);
    double* const square = by_distance_.at(stat + 1, nearest);
    for (std::int64_t r = 0; r < kLanes; ++r) {
#pragma GCC unroll 16
      for (std::int64_t d = 1 - steps; d < kVecs; ++d) {
        Vec w = zero();
        Moments moments;
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          if (v < d || v >= steps + d) continue;
          const std::int64_t at = ((v - d) * kLanes + r) * kPanel + v * kLanes;
          if constexpr (kWeights) w = hn::MulAdd(load(weights + at), load(factor + v * kLanes), w);
          if constexpr (kScores) moments.add(scores + at);
        }
        const std::int64_t to = (d + steps) * kLanes - r - 1;
        if constexpr (kWeights) {
          store_unaligned(hn::Add(load_unaligned(weight + to), w), weight + to);
        }
        if constexpr (kScores) moments.add_to(score + to, square + to);
      }
    }
  }

  const BucketPlan& plan_;
  const DistanceSums& by_distance_;
  std::int64_t query_, queries_, kept_limit_;
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
  std::int32_t place_ = 0;
  std::int64_t edge_ = -1;  ///< within the block: BucketPlan::edge_within()
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
