#pragma once
// How the backward pass is divided. Depends on the shape alone, never on the number of threads, so
// that sums are always added in the same order.

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Shares of the query blocks of one key/value head, each with its own sums of dk and dv
/// (`row_floats` for every key): enough for a few threads. More than one only within 128 MB in all;
/// with one, as many sums are held as there are threads, whatever they take.
inline std::int64_t backward_chunks(const AttentionShape& shape, std::int64_t blocks,
                                    std::int64_t row_floats) {
  constexpr std::int64_t kItems = 16;
  constexpr std::int64_t kBudget = std::int64_t{128} << 20;
  const std::int64_t heads = shape.batch * shape.kv_heads;
  const std::int64_t bytes = std::max<std::int64_t>(1, shape.keys * row_floats * 4 * heads);
  const std::int64_t wanted = std::min((kItems + heads - 1) / heads, kBudget / bytes);
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, blocks));
}

}  // namespace phasescope::kernels
