#pragma once
// How the backward pass of variants whose heads stand alone is divided. Chunks depend on the shape
// alone, so that sums are always added in the same order; ranges of keys change no such order, and
// may depend on the number of threads.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Shares of the query blocks of one key/value head, each with its own sums of dk and dv
/// (`row_floats` for every key): enough for a few threads. More than one only within 128 MB in all.
inline std::int64_t backward_chunks(const AttentionShape& shape, std::int64_t blocks,
                                    std::int64_t row_floats) {
  constexpr std::int64_t kItems = 16;
  constexpr std::int64_t kBudget = std::int64_t{128} << 20;
  const std::int64_t heads = shape.batch * shape.kv_heads;
  const std::int64_t bytes = std::max<std::int64_t>(1, shape.keys * row_floats * 4 * heads);
  const std::int64_t wanted = std::min((kItems + heads - 1) / heads, kBudget / bytes);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, blocks));
}

/// Bytes that all threads may hold together: backward_ranges(). Tests set less.
inline constexpr std::int64_t kBackwardBytes = std::int64_t{192} << 20;
inline std::atomic<std::int64_t>& backward_bytes() {
  static std::atomic<std::int64_t> bytes{kBackwardBytes};
  return bytes;
}

/// A range has so many keys or a multiple, and sums by distance are added up after as many: in the
/// same parts, whatever the ranges.
inline constexpr std::int64_t kRangeKeys = 512;

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
