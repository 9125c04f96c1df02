#include "kernels/variants/cape_tables.h"

#include <algorithm>
#include <utility>

namespace phasescope::kernels {
namespace {

std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Bias of a head at a distance; 0 past the table (masked pairs) and where the form reads none.
double bias(const CapeVariant& cape, std::int64_t head, std::int64_t distance) {
  const std::int64_t lambda = std::max<std::int64_t>(distance, 0);
  if (cape.form == CapeForm::content || lambda >= cape.length) return 0;
  return static_cast<double>(cape.values[head * cape.head_stride + lambda]);
}

}  // namespace

CapeLayout cape_layout(const CapeVariant& cape, std::int64_t heads) {
  switch (cape.form) {
    case CapeForm::concat_residual:
      return {2 * heads, heads, true, true};
    case CapeForm::concat:
      return {2 * heads, heads, true, false};
    case CapeForm::add_residual:
      return {heads, 0, true, true};
    case CapeForm::content:
      break;
  }
  return {heads, 0, false, false};
}

bool is_on_fire(const CapeVariant& cape) { return cape.fire && cape.form != CapeForm::content; }

CapeTables::CapeTables(const AttentionInputs& inputs, const DistanceRange& range) : range_(range) {
  const auto& cape = std::get<CapeVariant>(inputs.variant);
  const std::int64_t heads = inputs.shape.heads;
  const CapeLayout layout = cape_layout(cape, heads);
  // Vectors that are copied may begin within the last row and end behind it.
  constexpr std::int64_t kSlack = 16;
  hidden_ = FloatBuffer(cape.hidden * range.size() + kSlack, 0);
  base_ = FloatBuffer(heads * range.size() + kSlack, 0);
  for (std::int64_t n = 0; n < range.size(); ++n) {
    const std::int64_t distance = range.first + n;
    for (std::int64_t h = 0; h < heads; ++h) {
      const double added = layout.adds_bias ? bias(cape, h, distance) : 0;
      base_.data()[h * range.size() + n] =
          static_cast<float>(added + static_cast<double>(cape.b2[h]));
    }
  }
  for (std::int64_t d = 0; d < cape.hidden; ++d) {
    float* row = hidden_.data() + d * range.size();
    const float* w = cape.w1 + d * layout.width + layout.bias_column;
    for (std::int64_t n = 0; n < range.size(); ++n) {
      double sum = static_cast<double>(cape.b1[d]);
      for (std::int64_t h = 0; h < heads && layout.reads_bias; ++h) {
        sum += static_cast<double>(w[h]) * bias(cape, h, range.first + n);
      }
      row[n] = static_cast<float>(sum);
    }
  }
}

CapeSums::CapeSums(const AttentionInputs& inputs, const DistanceRange& range,
                   const CapePieces* pieces)
    : range(range) {
  const std::int64_t heads = inputs.shape.heads;
  const std::int64_t hidden = std::get<CapeVariant>(inputs.variant).hidden;
  d_w1.resize(index(hidden * heads));
  d_w2.resize(index(heads * hidden));
  if (pieces) {
    d_pieces = CapePieceSums(*pieces, range, inputs.shape.queries);
    return;
  }
  d_hidden.resize(index(hidden * range.size()));
  d_score.resize(index(heads * range.size()));
}

void CapeSums::take_row(CapeSums& other, std::int64_t row) {
  const auto hidden = static_cast<std::int64_t>(d_hidden.size()) / range.size();
  const bool of_head = row >= hidden;
  const std::int64_t n = of_head ? row - hidden : row;
  double* to = (of_head ? d_score : d_hidden).data() + n * range.size();
  double* from = (of_head ? other.d_score : other.d_hidden).data() + n * other.range.size();
  const std::int64_t first = std::max(range.first, other.range.first);
  const std::int64_t last = std::min(range.last, other.range.last);
  for (std::int64_t d = first; d <= last; ++d) {
    to[d - range.first] += std::exchange(from[d - other.range.first], 0.0);
  }
}

void CapeSums::add_rest(const CapeSums& other) {
  const auto sum = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t n = 0; n < to.size(); ++n) to[n] += from[n];
  };
  sum(d_w1, other.d_w1);
  sum(d_w2, other.d_w2);
  d_pieces.add(other.d_pieces);
}

namespace {

/// Through the first layer's bias part: d b1, d w1_B, and what reaches the bias.
void first_layer_gradients(const CapeVariant& cape, std::int64_t heads, const DistanceRange& range,
                           const CapeSums& sums, std::vector<double>& d_w1,
                           std::vector<double>& d_b1, std::vector<double>& d_values) {
  const CapeLayout layout = cape_layout(cape, heads);
  for (std::int64_t d = 0; d < cape.hidden; ++d) {
    const double* row = sums.d_hidden.data() + d * range.size();
    for (std::int64_t n = 0; n < range.size(); ++n) {
      d_b1[index(d)] += row[n];
      const std::int64_t lambda = std::max<std::int64_t>(range.first + n, 0);
      if (!layout.reads_bias || lambda >= cape.length || row[n] == 0) continue;
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t weight = d * layout.width + layout.bias_column + h;
        d_w1[index(weight)] += row[n] * bias(cape, h, lambda);
        d_values[index(h * cape.length + lambda)] += row[n] * static_cast<double>(cape.w1[weight]);
      }
    }
  }
}

/// What is added to the content score besides the network's output: d b2, and what reaches the
/// bias.
void base_gradients(const CapeVariant& cape, std::int64_t heads, const DistanceRange& range,
                    const CapeSums& sums, std::vector<double>& d_b2,
                    std::vector<double>& d_values) {
  const CapeLayout layout = cape_layout(cape, heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t n = 0; n < range.size(); ++n) {
      const double g = sums.d_score[index(h * range.size() + n)];
      d_b2[index(h)] += g;
      const std::int64_t lambda = std::max<std::int64_t>(range.first + n, 0);
      if (layout.adds_bias && lambda < cape.length) d_values[index(h * cape.length + lambda)] += g;
    }
  }
}

void write(float* to, const std::vector<double>& from) {
  for (std::size_t n = 0; n < from.size() && to; ++n) to[n] = static_cast<float>(from[n]);
}

}  // namespace

void write_cape_gradients(const AttentionInputs& inputs, const DistanceRange& range,
                          const CapeSums& sums, const CapeGradients& gradients) {
  const auto& cape = std::get<CapeVariant>(inputs.variant);
  const std::int64_t heads = inputs.shape.heads;
  const CapeLayout layout = cape_layout(cape, heads);
  std::vector<double> d_w1(index(cape.hidden * layout.width)), d_b1(index(cape.hidden)),
      d_b2(index(heads));
  for (std::int64_t d = 0; d < cape.hidden; ++d) {
    for (std::int64_t h = 0; h < heads; ++h) {
      d_w1[index(d * layout.width + h)] = sums.d_w1[index(d * heads + h)];
    }
  }
  if (is_on_fire(cape)) {
    add_piece_gradients(inputs, range, sums.d_pieces, gradients.fire, d_w1, d_b1, d_b2);
  } else {
    std::vector<double> d_values(index(heads * cape.length));
    first_layer_gradients(cape, heads, range, sums, d_w1, d_b1, d_values);
    base_gradients(cape, heads, range, sums, d_b2, d_values);
    for (std::int64_t h = 0; h < heads && gradients.values; ++h) {
      for (std::int64_t n = 0; n < cape.length; ++n) {
        gradients.values[h * gradients.head_stride + n] =
            static_cast<float>(d_values[index(h * cape.length + n)]);
      }
    }
  }
  write(gradients.w1, d_w1);
  write(gradients.b1, d_b1);
  write(gradients.w2, sums.d_w2);
  write(gradients.b2, d_b2);
}

}  // namespace phasescope::kernels
