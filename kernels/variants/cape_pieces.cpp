#include "kernels/variants/cape_pieces.h"

#include <algorithm>

#include "kernels/variants/cape_tables.h"
#include "kernels/variants/fire_pieces.h"

namespace phasescope::kernels {
namespace {

std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

void write(float* to, const std::vector<double>& from) {
  for (std::size_t n = 0; n < from.size() && to; ++n) to[n] = static_cast<float>(from[n]);
}

}  // namespace

CapePieces::CapePieces(const AttentionInputs& inputs, const DistanceRange& range,
                       std::int64_t panel)
    : fire_(*std::get<CapeVariant>(inputs.variant).fire),
      range_(range),
      rows_(std::get<CapeVariant>(inputs.variant).hidden + inputs.shape.heads),
      distance_(padded_distance(fire_, range)),
      factor_(padded_factor(fire_, inputs.shape.queries, panel)),
      slope_(fire_.segments * rows_),
      intercept_(fire_.segments * rows_) {
  fill(std::get<CapeVariant>(inputs.variant), inputs.shape.heads);
}

void CapePieces::fill(const CapeVariant& cape, std::int64_t heads) {
  const CapeLayout layout = cape_layout(cape, heads);
  for (std::int64_t n = 0; n < fire_.segments; ++n) {
    float* slope = slope_.data() + n * rows_;
    float* intercept = intercept_.data() + n * rows_;
    for (std::int64_t d = 0; d < cape.hidden; ++d) {
      const float* w = cape.w1 + d * layout.width + layout.bias_column;
      double a = 0, b = static_cast<double>(cape.b1[d]);
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t at = h * fire_.head_stride + n;
        a += static_cast<double>(w[h]) * static_cast<double>(fire_.slope[at]);
        b += static_cast<double>(w[h]) * static_cast<double>(fire_.intercept[at]);
      }
      *slope++ = static_cast<float>(a);
      *intercept++ = static_cast<float>(b);
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t at = h * fire_.head_stride + n;
      *slope++ = layout.adds_bias ? fire_.slope[at] : 0;
      *intercept++ = (layout.adds_bias ? fire_.intercept[at] : 0) + cape.b2[h];
    }
  }
}

CapePieceSums::CapePieceSums(const CapePieces& pieces, const DistanceRange& range,
                             std::int64_t queries)
    : d_rows(index(pieces.rows() * pieces.fire().segments * 2)),
      d_distance(index(range.size())),
      d_factor(index(queries)) {}

void CapePieceSums::add(const CapePieceSums& other) {
  const auto sum = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t n = 0; n < to.size(); ++n) to[n] += from[n];
  };
  sum(d_rows, other.d_rows);
  sum(d_distance, other.d_distance);
  sum(d_factor, other.d_factor);
}

void add_piece_gradients(const AttentionInputs& inputs, const DistanceRange& range,
                         const CapePieceSums& sums, const FireGradients& gradients,
                         std::vector<double>& d_w1, std::vector<double>& d_b1,
                         std::vector<double>& d_b2) {
  const auto& cape = std::get<CapeVariant>(inputs.variant);
  const FireVariant& fire = *cape.fire;
  const std::int64_t heads = inputs.shape.heads;
  const CapeLayout layout = cape_layout(cape, heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t n = 0; n < fire.segments; ++n) {
      const std::int64_t at = h * fire.head_stride + n;
      const double* own = sums.d_rows.data() + ((cape.hidden + h) * fire.segments + n) * 2;
      d_b2[index(h)] += own[0];
      double intercept = layout.adds_bias ? own[0] : 0, slope = layout.adds_bias ? own[1] : 0;
      for (std::int64_t d = 0; d < cape.hidden; ++d) {
        const double* unit = sums.d_rows.data() + (d * fire.segments + n) * 2;
        const std::int64_t weight = d * layout.width + layout.bias_column + h;
        d_w1[index(weight)] += unit[0] * static_cast<double>(fire.intercept[at]) +
                               unit[1] * static_cast<double>(fire.slope[at]);
        intercept += unit[0] * static_cast<double>(cape.w1[weight]);
        slope += unit[1] * static_cast<double>(cape.w1[weight]);
        if (h == 0) d_b1[index(d)] += unit[0];
      }
      const std::int64_t to = h * gradients.head_stride + n;
      if (gradients.slope) gradients.slope[to] = static_cast<float>(slope);
      if (gradients.intercept) gradients.intercept[to] = static_cast<float>(intercept);
    }
  }
  write(gradients.factor, sums.d_factor);
  for (std::int64_t n = 0; n < fire.length && gradients.distance; ++n) {
    const bool read = n >= range.first && n <= range.last;
    gradients.distance[n] =
        read ? static_cast<float>(sums.d_distance[index(n - range.first)]) : 0.0f;
  }
}

}  // namespace phasescope::kernels
