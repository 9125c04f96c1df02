#include "kernels/variants/fire_pieces.h"

#include <algorithm>

#include "kernels/cpu/problem.h"

namespace phasescope::kernels {

FloatBuffer padded_distance(const FireVariant& fire, const DistanceRange& range) {
  FloatBuffer copy(range.size());
  for (std::int64_t n = 0; n < range.size(); ++n) {
    const std::int64_t distance = std::min(range.first + n, fire.length - 1);
    copy.data()[n] = distance < 0 ? 0 : fire.distance[distance];
  }
  return copy;
}

FloatBuffer padded_factor(const FireVariant& fire, std::int64_t queries, std::int64_t panel) {
  FloatBuffer copy(queries + panel, queries > 0 ? fire.factor[queries - 1] : 0);
  std::copy_n(fire.factor, queries, copy.data());
  return copy;
}

FloatBuffer log2_pieces(const FireVariant& fire, const float* from, std::int64_t heads) {
  FloatBuffer copy(heads * fire.segments);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t n = 0; n < fire.segments; ++n) {
      copy.data()[h * fire.segments + n] = from[h * fire.head_stride + n] * kLog2e;
    }
  }
  return copy;
}

FireSums::FireSums(const AttentionInputs& inputs, const DistanceRange& range, std::int64_t block,
                   std::int64_t slots)
    : inputs_(&inputs),
      range_(range),
      block_(block),
      slots_(slots),
      diagonals_(range, inputs.shape.heads, slots) {
  const AttentionShape& s = inputs.shape;
  const std::int64_t segments = std::get<FireVariant>(inputs.variant).segments;
  pieces_.resize(static_cast<std::size_t>(s.heads * slots * segments * 2));
  rows_.resize(static_cast<std::size_t>(s.heads * s.batch * s.queries));
}

void FireSums::take(std::int64_t head, std::int64_t slot, std::int64_t query, const KeyRange& keys,
                    float* scratch) {
  if (!inputs_) return;
  const AttentionShape& s = inputs_->shape;
  const auto& fire = std::get<FireVariant>(inputs_->variant);
  const std::int64_t count = std::min(block_, s.queries - query);
  const std::int64_t batch = slot / (slots_ / s.batch);
  double* pieces = pieces_.data() + (head * slots_ + slot) * fire.segments * 2;
  double* rows = rows_.data() + (head * s.batch + batch) * s.queries + query;
  const float* factor = fire.factor + query;
  const DistanceRange part = touched_distances(range_, query + s.query_offset, block_, keys);
  // The segments that these distances have with the first and the last factor; see FireScore.
  const auto distance = [&](std::int64_t lambda) {
    return lambda < 0 ? 0.0f : fire.distance[std::min(lambda, fire.length - 1)];
  };
  const float* const end = fire.knots + (fire.segments - 1);
  const float* const first =
      std::lower_bound(fire.knots, end, distance(part.first) * factor[count - 1]);
  const std::int64_t last =
      std::lower_bound(first, end, distance(part.last) * factor[0]) - fire.knots;
  for (std::int64_t n = first - fire.knots; n <= last; ++n) {
    float* const by_query = scratch + n * 2 * block_;
    const double slope = static_cast<double>(fire.slope[head * fire.head_stride + n]);
    for (std::int64_t i = 0; i < count; ++i) {
      const double by_distance = static_cast<double>(by_query[block_ + i]);
      pieces[2 * n] += by_distance * static_cast<double>(factor[i]);
      pieces[2 * n + 1] += static_cast<double>(by_query[i]);
      rows[i] += slope * by_distance;
    }
    std::fill(by_query, by_query + 2 * block_, 0.0f);
  }
  diagonals_.take(head, slot, part, scratch + fire.segments * 2 * block_);
}

void FireSums::write(const FireGradients& gradients) const {
  if (!inputs_) return;
  const AttentionShape& s = inputs_->shape;
  const auto& fire = std::get<FireVariant>(inputs_->variant);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    for (std::int64_t n = 0; n < fire.segments; ++n) {
      double slope = 0, intercept = 0;
      for (std::int64_t slot = 0; slot < slots_; ++slot) {
        const double* pieces = pieces_.data() + ((h * slots_ + slot) * fire.segments + n) * 2;
        slope += pieces[0];
        intercept += pieces[1];
      }
      const std::int64_t at = h * gradients.head_stride + n;
      if (gradients.slope) gradients.slope[at] = static_cast<float>(slope);
      if (gradients.intercept) gradients.intercept[at] = static_cast<float>(intercept);
    }
  }
  for (std::int64_t i = 0; i < s.queries && gradients.factor; ++i) {
    double sum = 0;
    for (std::int64_t n = 0; n < s.heads * s.batch; ++n) {
      sum += rows_[static_cast<std::size_t>(n * s.queries + i)];
    }
    gradients.factor[i] = static_cast<float>(sum);
  }
  if (gradients.distance) diagonals_.write_total(gradients.distance, fire.length);
}

}  // namespace phasescope::kernels
