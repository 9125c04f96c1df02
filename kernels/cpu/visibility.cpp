#include "kernels/cpu/visibility.h"

#include <algorithm>
#include <cstdlib>

namespace phasescope::kernels {

Visibility::Visibility(const AttentionInputs& inputs)
    : shape_(inputs.shape),
      window_(inputs.shape.window > 0 ? inputs.shape.window : kNoWindow),
      mask_(inputs.key_mask) {
  real_.assign(static_cast<std::size_t>(shape_.batch), {0, shape_.keys});
  for (std::int64_t b = 0; mask_ && b < shape_.batch; ++b) {
    const std::uint8_t* row = mask(b);
    KeyRange& real = real_[static_cast<std::size_t>(b)];
    while (real.end > 0 && !row[real.end - 1]) --real.end;
    while (real.begin < real.end && !row[real.begin]) ++real.begin;
    before_.push_back(0);
    for (std::int64_t j = 0; j < shape_.keys; ++j)
      before_.push_back(before_.back() + (row[j] != 0));
  }
}

KeyRange Visibility::keys(std::int64_t batch, std::int64_t first, std::int64_t last) const {
  const KeyRange real = real_[static_cast<std::size_t>(batch)];
  const std::int64_t before = first + shape_.query_offset - window_ + 1;
  const std::int64_t after = last + shape_.query_offset + (shape_.causal ? 1 : window_);
  const std::int64_t begin = std::clamp(before, real.begin, real.end);
  return {begin, std::clamp(after, begin, real.end)};
}

std::int64_t Visibility::pairs(std::int64_t batch, std::int64_t distance) const {
  if ((shape_.causal && distance < 0) || std::abs(distance) >= window_) return 0;
  // Keys i + query_offset - distance of the queries i.
  const std::int64_t first = shape_.query_offset - distance;
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, shape_.keys);
  const std::int64_t end = std::clamp(first + shape_.queries, begin, shape_.keys);
  if (!mask_) return end - begin;
  const std::int64_t* before = before_.data() + batch * (shape_.keys + 1);
  return before[end] - before[begin];
}

}  // namespace phasescope::kernels
