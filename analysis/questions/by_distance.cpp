#include "analysis/questions/by_distance.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace phasescope::analysis {

void add_by_distance(const at::Tensor& block, std::int64_t first, at::Tensor& sums) {
  const std::int64_t heads = block.size(0), rows = block.size(1), keys = block.size(2);
  // With the keys in reverse, a row that is moved by one place more than the row above has equal
  // distances under each other: rows of K + R numbers read as rows of K + R - 1.
  const at::Tensor reversed =
      at::constant_pad_nd(block.to(sums.scalar_type()).flip({2}), {0, rows});
  const at::Tensor moved = reversed.flatten(1)
                               .narrow(1, 0, rows * (keys + rows - 1))
                               .view({heads, rows, keys + rows - 1});
  const at::Tensor by_place = moved.sum(1);  // place p is lambda = p - (keys - 1 - first)
  const std::int64_t zero = keys - 1 - first;
  const std::int64_t begin = std::max<std::int64_t>(0, zero);
  const std::int64_t count = std::min(keys + rows - 1, zero + sums.size(1)) - begin;
  if (count > 0) sums.narrow(1, begin - zero, count).add_(by_place.narrow(1, begin, count));
}

std::int64_t rows_of_block(std::int64_t heads, std::int64_t tokens) {
  return std::clamp<std::int64_t>((std::int64_t{32} << 20) / (heads * tokens * 8), 1, tokens);
}

at::Tensor seen_pairs(std::int64_t first, std::int64_t rows, std::int64_t keys,
                      std::int64_t within) {
  const at::Tensor distance = at::arange(first, first + rows, at::kLong).unsqueeze(1) -
                              at::arange(keys, at::kLong).unsqueeze(0);
  return (distance >= 0) & (distance < within);
}

}  // namespace phasescope::analysis
