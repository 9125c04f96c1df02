#include "kernels/cpu/diagonals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/problem.h"

namespace phasescope::kernels {
namespace {

// Rows a tile may reach past the keys that exist.
constexpr std::int64_t kTileReach = 8;

}  // namespace

DistanceRange distance_range(const AttentionShape& shape, std::int64_t panel) {
  std::int64_t first = shape.query_offset - shape.keys - kTileReach;
  // Tiles wholly above the diagonal are never visited.
  if (shape.causal) first = std::max(first, -panel - kTileReach);
  const std::int64_t last = shape.query_offset + shape.queries + panel + kTileReach;
  return {first, std::max(first, last)};
}

DistanceRange touched_distances(const DistanceRange& range, std::int64_t query,
                                std::int64_t queries, const KeyRange& keys) {
  return {std::max(range.first, query - keys.end - kTileReach),
          std::min(range.last, query + queries - 1 - keys.begin)};
}

std::int64_t table_index(std::int64_t distance, std::int64_t length, std::int64_t first_distance) {
  const std::int64_t index = first_distance == 0 ? std::abs(distance) : distance - first_distance;
  return index >= 0 && index < length ? index : -1;
}

FloatBuffer padded_table(const AttentionInputs& inputs, const DistanceRange& range) {
  const auto& table = std::get<TableVariant>(inputs.variant);
  const float unit = table.multiplies ? 1 : kLog2e;
  const float none = -std::numeric_limits<float>::infinity();
  FloatBuffer copy(inputs.shape.heads * range.size());
  for (std::int64_t h = 0; h < inputs.shape.heads; ++h) {
    const float* values = table.values + h * table.head_stride;
    float* row = copy.data() + h * range.size();
    for (std::int64_t n = 0; n < range.size(); ++n) {
      const std::int64_t index = table_index(range.first + n, table.length, table.first_distance);
      const float value = index < 0 ? 0 : values[index];
      row[n] = !table.multiplies && value == none ? kMaskedScore : value * unit;
    }
  }
  return copy;
}

DiagonalSums::DiagonalSums(const DistanceRange& range, std::int64_t heads, std::int64_t slots)
    : range_(range),
      heads_(heads),
      slots_(slots),
      sums_(static_cast<std::size_t>(heads * slots * range.size())) {}

void DiagonalSums::take(std::int64_t head, std::int64_t slot, const DistanceRange& part,
                        float* scratch) {
  if (!wanted()) return;
  double* sums = sums_.data() + (head * slots_ + slot) * range_.size();
  for (std::int64_t n = part.first - range_.first; n <= part.last - range_.first; ++n) {
    sums[n] += static_cast<double>(scratch[n]);
    scratch[n] = 0;
  }
}

void DiagonalSums::take_all(std::int64_t head, std::int64_t slot, DiagonalSums& other) {
  double* to = sums_.data() + (head * slots_ + slot) * range_.size();
  double* from = other.sums_.data() + head * other.range_.size();
  const std::int64_t shift = other.range_.first - range_.first;
  for (std::int64_t n = 0; n < other.range_.size(); ++n) {
    const std::int64_t at = n + shift;
    if (at >= 0 && at < range_.size()) to[at] += from[n];
    from[n] = 0;
  }
}

void DiagonalSums::add_head(std::int64_t head, const Slots& slots, std::int64_t first_distance,
                            std::vector<double>& entries) const {
  const auto length = static_cast<std::int64_t>(entries.size());
  for (std::int64_t s = slots.begin; s < slots.end; ++s) {
    const double* sums = sums_.data() + (head * slots_ + s) * range_.size();
    for (std::int64_t n = 0; n < range_.size(); ++n) {
      const std::int64_t index = table_index(range_.first + n, length, first_distance);
      if (index >= 0) entries[static_cast<std::size_t>(index)] += sums[n];
    }
  }
}

void DiagonalSums::write(float* values, std::int64_t head_stride, std::int64_t length,
                         std::int64_t first_distance) const {
  std::vector<double> row(static_cast<std::size_t>(length));
  for (std::int64_t h = 0; h < heads_; ++h) {
    std::fill(row.begin(), row.end(), 0.0);
    add_head(h, {0, slots_}, first_distance, row);
    std::transform(row.begin(), row.end(), values + h * head_stride,
                   [](double sum) { return static_cast<float>(sum); });
  }
}

void DiagonalSums::write_total(float* values, std::int64_t length) const {
  std::vector<double> row(static_cast<std::size_t>(length));
  for (std::int64_t h = 0; h < heads_; ++h) add_head(h, {0, slots_}, 0, row);
  std::transform(row.begin(), row.end(), values,
                 [](double sum) { return static_cast<float>(sum); });
}

void DiagonalSums::write_texts(double* values, std::int64_t texts, std::int64_t length) const {
  std::vector<double> row(static_cast<std::size_t>(length));
  const std::int64_t own = slots_ / texts;
  for (std::int64_t n = 0; n < texts * heads_; ++n) {
    const std::int64_t text = n / heads_;
    std::fill(row.begin(), row.end(), 0.0);
    add_head(n % heads_, {text * own, (text + 1) * own}, 0, row);
    std::copy(row.begin(), row.end(), values + n * length);
  }
}

}  // namespace phasescope::kernels
