#include "kernels/cpu/buckets.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <numbers>

namespace phasescope::kernels {
namespace {

std::atomic<std::int64_t>& kept_limit() {
  static std::atomic<std::int64_t> bytes{kKeptBytes};
  return bytes;
}

// Narrower buckets would cost more by themselves than distance by distance.
constexpr std::int64_t kLeastWide = 16;

}  // namespace

std::int64_t kept_bytes() { return kept_limit().load(std::memory_order_relaxed); }
void set_kept_bytes(std::int64_t bytes) { kept_limit().store(bytes, std::memory_order_relaxed); }

BucketPlan::BucketPlan(const BucketProbes& buckets, const AttentionShape& shape,
                       const BucketWalk& walk)
    : causal_(shape.causal),
      content_(buckets.content || buckets.content_square || buckets.term || buckets.term_square),
      term_(buckets.term || buckets.term_square),
      count_(buckets.count),
      edges_(buckets.edges),
      keys_(shape.keys),
      walk_(walk) {
  if (!wants_buckets(buckets)) return;
  // Panels and blocks reach past the queries and keys that exist.
  const std::int64_t longest = std::max(std::abs(shape.query_offset + shape.queries + walk.panel),
                                        std::abs(shape.query_offset - shape.keys - walk.keys)) +
                               walk.panel + walk.keys;
  const std::int64_t last = std::min(longest, edges_[count_] - 1);
  place_.resize(static_cast<std::size_t>(last + 1));
  std::int32_t place = -1;
  for (std::int64_t distance = 0; distance <= last; ++distance) {
    while (place < count_ && edges_[place + 1] <= distance) ++place;
    place_[static_cast<std::size_t>(distance)] = place;
  }
  // The widest, if not all have room.
  const std::int64_t bytes = 2 * walk.panel * walk.panels * std::int64_t{sizeof(float)};
  for (std::int64_t least = std::max(walk.lanes, kLeastWide);
       wide_.empty() || wide_count_ * bytes > kept_bytes(); least *= 2) {
    wide_.assign(static_cast<std::size_t>(count_), -1);
    wide_count_ = 0;
    for (std::int64_t b = 0; b < count_; ++b) {
      if (std::min(edges_[b + 1], longest) - edges_[b] < least) continue;
      wide_[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(wide_count_++);
    }
  }
}

int BucketPlan::runs(std::int64_t first, std::int64_t last, BucketRun* runs) const {
  std::int64_t distance = last;
  for (int count = 0; count < kMostRuns;) {
    const std::int32_t here = place(distance);
    if (holds(here) && wide(here) < 0) return 0;
    const std::int64_t next = farthest_after(distance);
    if (next < first) {
      runs[count] = {here, first};
      return count + 1;
    }
    if (count > 0 && distance - next < walk_.lanes) return 0;
    runs[count++] = {here, next + 1};
    distance = next;
  }
  return 0;
}

std::int64_t BucketPlan::farthest_after(std::int64_t distance) const {
  const std::int32_t here = place(distance);
  if (distance >= 0 && here >= 0 && edges_[here] > 0) return edges_[here] - 1;
  return causal_ || here >= count_ ? std::numeric_limits<std::int64_t>::min() : -edges_[here + 1];
}

std::int64_t BucketPlan::kept_blocks(std::int64_t block) const {
  if (!wanted()) return 0;
  const std::int64_t all = (keys_ + walk_.keys - 1) / walk_.keys;
  return std::min(all, kept_bytes() / (walk_.panels * block * std::int64_t{sizeof(float)}));
}

void DistanceSums::drain(const BucketPlan& plan, double* buckets) const {
  // Neighbours mostly share a bucket; its sums in memory are touched once.
  std::int32_t place = -1;
  const int stats = plan.stats();
  double sum[kStats] = {};
  const auto flush = [&] {
    for (int stat = 0; stat < stats && plan.holds(place); ++stat) {
      buckets[stat * plan.count() + place] += sum[stat];
    }
  };
  for (std::int64_t n = plan.causal() ? std::max<std::int64_t>(0, -first_) : 0; n < count_; ++n) {
    const std::int32_t here = plan.place(first_ + n);
    const bool same = here == place;
    if (!same) flush();
    place = here;
    for (int stat = 0; stat < stats; ++stat) {
      const double here_sum =
          stat == kWeightSum ? static_cast<double>(weights_[n]) : sums_[(stat - 1) * count_ + n];
      sum[stat] = (same ? sum[stat] : 0) + here_sum;
    }
  }
  flush();
}

BucketSums::BucketSums(const BucketPlan& plan, std::int64_t heads, std::int64_t together,
                       std::int64_t blocks)
    : heads_(heads), slots_(blocks), stats_(plan.stats()), count_(plan.count()) {
  if (!plan.wanted()) return;
  constexpr std::int64_t kItems = 64;
  constexpr std::int64_t kBudget = std::int64_t{32} << 20;
  const std::int64_t bytes = heads * stats_ * count_ * std::int64_t{sizeof(double)};
  const std::int64_t items = heads / together;
  const std::int64_t wanted = std::min((kItems + items - 1) / items, kBudget / bytes);
  slots_ = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(blocks, 1));
  sums_.resize(static_cast<std::size_t>(heads * slots_ * stats_ * count_));
}

void BucketSums::write(const BucketProbes& buckets) const {
  if (sums_.empty()) return;
  constexpr double kNatural = std::numbers::ln2;
  constexpr double kSquare = kNatural * kNatural;
  double* const to[] = {buckets.weight,     buckets.score,          buckets.score_square,
                        buckets.content,    buckets.content_square, buckets.term,
                        buckets.term_square};
  const double unit[] = {1, kNatural, kSquare, kNatural, kSquare, kNatural, kSquare};
  for (std::int64_t h = 0; h < heads_; ++h) {
    for (std::int64_t n = 0; n < stats_ * count_; ++n) {
      const std::int64_t stat = n / count_;
      if (!to[stat]) continue;
      double sum = 0;
      for (std::int64_t s = 0; s < slots_; ++s) {
        sum += sums_[static_cast<std::size_t>((h * slots_ + s) * stats_ * count_ + n)];
      }
      to[stat][h * count_ + n % count_] = sum * unit[stat];
    }
  }
}

}  // namespace phasescope::kernels
