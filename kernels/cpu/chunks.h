#pragma once
// How the backward pass of variants whose heads stand alone is divided. Shares depend on the shape
// alone, so that sums are always added in the same order; ranges of keys change no such order, and
// may depend on the number of threads.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// A range has so many keys or a multiple, and sums by distance are added up after as many: in the
/// same parts, whatever the ranges.
inline constexpr std::int64_t kRangeKeys = 512;

/// Shares of the query blocks of each key/value head, each with its own sums of dk and dv of a
/// range of keys.
struct BackwardShares {
  std::int64_t count = 1;
  std::int64_t keys = 0;  ///< of a range; all where there is one share
};

/// Bytes that all shares may hold together. Tests set less.
inline constexpr std::int64_t kShareBytes = std::int64_t{128} << 20;
inline std::atomic<std::int64_t>& share_bytes() {
  static std::atomic<std::int64_t> bytes{kShareBytes};
  return bytes;
}

/// So many that 64 threads have work with 8 heads, and 16 with one; more would cost more to add up
/// than there are heads to gain from it. `row_floats` for every key; what all hold of a range stays
/// within share_bytes(), or there are fewer. waits: whether dq may wait between ranges; there is
/// one range otherwise.
inline BackwardShares backward_shares(const AttentionShape& shape, std::int64_t blocks,
                                      std::int64_t row_floats, bool waits) {
  constexpr std::int64_t kItems = 64, kShares = 8, kFewItems = 16;
  const std::int64_t bytes = share_bytes().load(std::memory_order_relaxed);
  const std::int64_t heads = std::max<std::int64_t>(1, shape.batch * shape.kv_heads);
  const auto shares = [heads](std::int64_t items) { return (items + heads - 1) / heads; };
  const std::int64_t wanted = std::min(shares(kItems), std::max(kShares, shares(kFewItems)));
  const std::int64_t key_bytes = 4 * row_floats * heads;  // of one share
  const std::int64_t fewest = waits ? std::min(shape.keys, kRangeKeys) : shape.keys;
  const std::int64_t fit = bytes / std::max<std::int64_t>(1, key_bytes * fewest);
  const std::int64_t count =
      std::clamp<std::int64_t>(std::min(wanted, fit), 1, std::max<std::int64_t>(1, blocks));
  const std::int64_t most = bytes / (key_bytes * count);
  if (count == 1 || most >= shape.keys) return {count, shape.keys};
  return {count, most / kRangeKeys * kRangeKeys};
}

/// Bytes that all threads may hold together: backward_ranges(). Tests set less.
inline constexpr std::int64_t kBackwardBytes = std::int64_t{192} << 20;
inline std::atomic<std::int64_t>& backward_bytes() {
  static std::atomic<std::int64_t> bytes{kBackwardBytes};
  return bytes;
}

/// Threads that go through a head of keys and values each, a range of keys at a time.
struct BackwardRanges {
  std::int64_t threads = 1;
  std::int64_t keys = 0;  ///< of a range
  /// Whether dq waits between ranges as a partial sum; otherwise it comes from a pass of its own.
  bool keeps_dq = true;
};

/// Bytes: `row` of a key's sums of dk and dv, `buffer` of what else a thread needs, `dq` of a
/// head's (and its group's) partial sums, 0 where these have memory. All threads together stay
/// within backward_bytes(); where so many would not even with the shortest ranges, fewer run.
inline BackwardRanges backward_ranges(std::int64_t threads, std::int64_t keys, std::int64_t row,
                                      std::int64_t buffer, std::int64_t dq) {
  const std::int64_t bytes = backward_bytes().load(std::memory_order_relaxed);
  const std::int64_t shortest = std::min(keys, kRangeKeys) * row;
  BackwardRanges plan;
  plan.threads = std::clamp<std::int64_t>(bytes / (buffer + shortest), 1, threads);
  plan.keys = keys;
  const std::int64_t own = bytes / plan.threads - buffer;
  if (keys <= kRangeKeys || keys * row <= own) return plan;
  plan.keeps_dq = dq == 0 || dq + shortest <= own;
  const std::int64_t left = own - (plan.keeps_dq ? dq : 0);
  plan.keys = std::max<std::int64_t>(1, left / row / kRangeKeys) * kRangeKeys;
  return plan;
}

}  // namespace phasescope::kernels
