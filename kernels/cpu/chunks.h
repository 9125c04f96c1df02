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

/// Parts of keys begin at multiples of so many.
inline constexpr std::int64_t kPartKeys = 128;

/// How threads that outnumber the shares (heads of keys and values times their chunks) find work:
/// each share's dk and dv by parts of its keys, its dq apart from them by query head, and by block
/// of queries where nothing is summed over blocks.
struct BackwardParts {
  std::int64_t threads = 0;  ///< 0: shares stay whole
  std::int64_t keys = 0;     ///< of a part
  std::int64_t count = 0;    ///< of parts
};

/// chunks: backward_chunks(); bytes as for backward_ranges(). Every sum is added up in the
/// order that a whole share has, so that bits are the same either way. Scores are computed twice
/// then: 7 products of a pair instead of 5, so that it takes more than 7 threads for 5 shares, and
/// as many have to fit within backward_bytes() beside the sums of chunks.
inline BackwardParts backward_parts(std::int64_t threads, const AttentionShape& shape,
                                    std::int64_t chunks, std::int64_t row, std::int64_t buffer) {
  constexpr std::int64_t kItems = 128;  // of keys, so that the last of them are short
  const auto up = [](std::int64_t n, std::int64_t by) { return (n + by - 1) / by; };
  const std::int64_t shares = shape.batch * shape.kv_heads * chunks;
  const std::int64_t part = up(shape.keys, up(kItems, shares));
  BackwardParts plan;
  plan.keys = std::clamp(up(part, kPartKeys) * kPartKeys, kPartKeys, kRangeKeys);
  plan.count = up(shape.keys, plan.keys);
  const std::int64_t bytes = backward_bytes().load(std::memory_order_relaxed);
  const std::int64_t left = chunks > 1 ? bytes - shares * shape.keys * row : bytes;
  const std::int64_t own = buffer + (chunks > 1 ? 0 : plan.keys * row);
  const std::int64_t fit = std::clamp<std::int64_t>(left / own, 0, threads);
  if (5 * fit > 7 * shares) plan.threads = fit;
  return plan;
}

}  // namespace phasescope::kernels
