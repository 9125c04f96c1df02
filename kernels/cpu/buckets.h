#pragma once
// Sums by distance that ride along with the forward pass: what is known before it runs, and how the
// sums of its work items come together.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/visibility.h"

namespace phasescope::kernels {

/// Neighbouring distances of a block in one place (BucketPlan::place()), the farthest first: down
/// to `first` from where the run before ends.
struct BucketRun {
  std::int32_t place;
  std::int64_t first;
};

/// How the forward pass walks a problem.
struct BucketWalk {
  std::int64_t panel;   ///< queries of one
  std::int64_t keys;    ///< of a block
  std::int64_t lanes;   ///< queries of a vector
  std::int64_t panels;  ///< whose sums a thread holds at a time
};

/// Which bucket every distance belongs to.
class BucketPlan {
 public:
  BucketPlan(const BucketProbes& buckets, const AttentionShape& shape, const BucketWalk& walk);

  bool wanted() const { return !place_.empty(); }
  bool causal() const { return causal_; }
  std::int64_t count() const { return count_; }
  /// Sums of a bucket: weight, score and its square; where wanted, content and its square; where
  /// wanted, the term and its square behind these.
  int stats() const { return term_ ? 7 : content_ ? 5 : 3; }
  /// Whether content scores are needed.
  bool content() const { return content_; }
  /// Whether sums of the positional term are wanted.
  bool term() const { return term_; }

  /// Place of |lambda| among the buckets: -1 before the first, count() after the last.
  std::int32_t place(std::int64_t distance) const {
    const auto n = static_cast<std::size_t>(distance < 0 ? -distance : distance);
    return n < place_.size() ? place_[n] : static_cast<std::int32_t>(count_);
  }
  bool holds(std::int32_t place) const { return place >= 0 && place < count_; }

  /// The runs of the distances first .. last (those below 0 masked, if causal, and part of the last
  /// run). Their number, at most kMostRuns; 0 where a bucket among them is not wide(), or a run
  /// between others is narrower than a vector.
  int runs(std::int64_t first, std::int64_t last, BucketRun* runs) const;
  static constexpr int kMostRuns = 48;

  /// Number of a bucket among those that have sums of their own for each query; -1 for others.
  std::int32_t wide(std::int32_t place) const { return wide_[static_cast<std::size_t>(place)]; }
  std::int64_t wide_count() const { return wide_count_; }

  /// Blocks of weights (of `block` floats) that each panel may keep until its rows' sums are known.
  /// Others are computed again: the same numbers, more time.
  std::int64_t kept_blocks(std::int64_t block) const;

 private:
  /// The next distance below this one in another place; the least there is if there is none.
  std::int64_t farthest_after(std::int64_t distance) const;

  bool causal_ = true;
  bool content_ = false, term_ = false;
  std::int64_t count_ = 0;
  const std::int64_t* edges_ = nullptr;
  std::int64_t keys_ = 0;  ///< of the shape
  BucketWalk walk_;
  std::int64_t wide_count_ = 0;
  std::vector<std::int32_t> place_, wide_;
};

/// Bytes of weights a thread may keep (BucketPlan::kept_blocks()), and as many of sums of wide
/// buckets. For tests, which set less.
std::int64_t kept_bytes();
void set_kept_bytes(std::int64_t bytes);
inline constexpr std::int64_t kKeptBytes = std::int64_t{8} << 20;

/// The sums of a bucket or distance, in this order; see BucketPlan::stats().
enum BucketStat {
  kWeightSum,
  kScoreSum,
  kScoreSquare,
  kContentSum,
  kContentSquare,
  kTermSum,
  kTermSquare,
  kStats
};

/// Sums of one head and work item by distance, of BucketPlan::stats() kinds; scores in log2 units.
/// Those of weights, of a few hundred pairs a distance at most, in float32, the others in float64.
/// Drained into buckets when the item ends.
class DistanceSums {
 public:
  DistanceSums() = default;
  /// Of `queries` queries from key index `query` and the keys [keys.begin, keys.end), whose last
  /// block may be `slack` keys longer; at: size(stats, queries, all keys, slack) floats.
  DistanceSums(int stats, std::int64_t query, std::int64_t queries, const KeyRange& keys,
               std::int64_t slack, float* at)
      : first_(query - keys.end - slack),
        count_(distances(queries, keys.end - keys.begin, slack)),
        weights_(at),
        sums_(reinterpret_cast<double*>(at + count_)) {
    for (std::int64_t n = 0; n < count_; ++n) weights_[n] = 0;
    for (std::int64_t n = 0; n < (stats - 1) * count_; ++n) sums_[n] = 0;
  }
  static std::int64_t size(int stats, std::int64_t queries, std::int64_t keys, std::int64_t slack) {
    return (2 * stats - 1) * distances(queries, keys, slack);
  }

  /// From the sum of a distance upwards.
  float* weight(std::int64_t distance) const { return weights_ + distance - first_; }
  /// The same of the other sums.
  double* at(int stat, std::int64_t distance) const {
    return sums_ + (stat - 1) * count_ + distance - first_;
  }
  /// Adds all sums to `buckets`, plan.stats() x plan.count() of them.
  void drain(const BucketPlan& plan, double* buckets) const;

 private:
  static std::int64_t distances(std::int64_t queries, std::int64_t keys, std::int64_t slack) {
    constexpr std::int64_t kWhole = 16;  // so that what follows is aligned as before
    return ((queries + keys + slack) / kWhole + 1) * kWhole;
  }

  std::int64_t first_ = 0, count_ = 0;
  float* weights_ = nullptr;
  double* sums_ = nullptr;
};

/// Float64 sums of every head and slot (a share of a head's queries that one thread walks in
/// order): plan.stats() kinds, count() each, scores in log2 units. Slots depend on the shape alone
/// and are added in order, so that results do not depend on the threads.
class BucketSums {
 public:
  /// heads: batch entries x heads; together: of these, how many a work item holds; blocks: items a
  /// head is divided into where no sums are wanted.
  BucketSums(const BucketPlan& plan, std::int64_t heads, std::int64_t together,
             std::int64_t blocks);

  std::int64_t slots() const { return slots_; }
  double* at(std::int64_t head, std::int64_t slot) {
    return sums_.data() + (head * slots_ + slot) * stats_ * count_;
  }
  void write(const BucketProbes& buckets) const;

 private:
  std::int64_t heads_, slots_, stats_, count_;
  std::vector<double> sums_;
};

/// Writes BucketProbes::pairs; masked(head, lambda) says which distances of a head the variant
/// masks.
template <class Masked>
void write_pairs(const BucketProbes& buckets, const BucketPlan& plan, const AttentionShape& shape,
                 const Visibility& visibility, const Masked& masked) {
  if (!buckets.pairs || !plan.wanted()) return;
  std::int64_t* pairs = buckets.pairs;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    const std::vector<std::int64_t> counts = visibility.pairs(batch);
    for (std::int64_t head = 0; head < shape.heads; ++head, pairs += plan.count()) {
      for (std::int64_t b = 0; b < plan.count(); ++b) pairs[b] = 0;
      for (std::size_t n = 0; n < counts.size(); ++n) {
        const std::int64_t lambda = visibility.least_distance() + static_cast<std::int64_t>(n);
        const std::int32_t place = plan.place(lambda);
        if (counts[n] > 0 && plan.holds(place) && !masked(head, lambda)) pairs[place] += counts[n];
      }
    }
  }
}

}  // namespace phasescope::kernels
