#pragma once
// What sums of scores should be.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {

/// ScoreSums by the reference: shift (B, heads, queries), `length` distances.
struct TrueScoreSums {
  TrueScoreSums(const Reference<double>& truth, const std::vector<double>& shift,
                std::int64_t length) {
    const AttentionShape& s = truth.s;
    const auto heads = static_cast<std::size_t>(s.batch * s.heads);
    row.resize(shift.size()), pairs.resize(shift.size());
    column.resize(heads * static_cast<std::size_t>(s.keys));
    distance.resize(heads * static_cast<std::size_t>(length));
    square.resize(heads);
    for (std::size_t n = 0; n < truth.score.size(); ++n) {
      if (std::isinf(truth.score[n])) continue;
      const auto pair = static_cast<std::int64_t>(n);
      const std::int64_t j = pair % s.keys, i = pair / s.keys % s.queries,
                         head = pair / truth.pairs;
      const auto of_row = static_cast<std::size_t>(head * s.queries + i);
      const double value = truth.score[n] - shift[of_row];
      const std::int64_t lambda = std::abs(truth.distance(i, j));
      row[of_row] += value, pairs[of_row] += 1;
      column[static_cast<std::size_t>(head * s.keys + j)] += value;
      square[static_cast<std::size_t>(head)] += value * value;
      if (lambda < length) distance[static_cast<std::size_t>(head * length + lambda)] += value;
    }
  }

  std::vector<double> row, column, distance, square;
  std::vector<std::int64_t> pairs;
};

}  // namespace phasescope::kernels::testing
