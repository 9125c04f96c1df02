#include "analysis/pairing.h"

#include <algorithm>
#include <limits>

namespace phasescope::analysis {
namespace {

using Costs = std::vector<std::vector<double>>;

// Which row each column is paired with, -1 for none; at most as many rows as columns. Rows are
// added one by one: a shortest path over reduced costs finds whose pair has to give way.
std::vector<std::int64_t> row_of_columns(const Costs& costs) {
  const std::size_t rows = costs.size(), columns = costs.front().size();
  constexpr double kFar = std::numeric_limits<double>::infinity();
  std::vector<double> of_row(rows + 1), of_column(columns + 1);  // potentials; entry 0 is no place
  std::vector<std::size_t> paired(columns + 1, 0), from(columns + 1, 0);
  for (std::size_t row = 1; row <= rows; ++row) {
    paired[0] = row;
    std::size_t column = 0;
    std::vector<double> shortest(columns + 1, kFar);
    std::vector<bool> seen(columns + 1, false);
    do {
      seen[column] = true;
      const std::size_t here = paired[column];
      std::size_t next = 0;
      double step = kFar;
      for (std::size_t c = 1; c <= columns; ++c) {
        if (seen[c]) continue;
        const double cost = costs[here - 1][c - 1] - of_row[here] - of_column[c];
        if (cost < shortest[c]) shortest[c] = cost, from[c] = column;
        if (shortest[c] < step) step = shortest[c], next = c;
      }
      for (std::size_t c = 0; c <= columns; ++c) {
        if (seen[c]) {
          of_row[paired[c]] += step, of_column[c] -= step;
        } else {
          shortest[c] -= step;
        }
      }
      column = next;
    } while (paired[column] != 0);
    for (; column != 0; column = from[column]) paired[column] = paired[from[column]];
  }
  std::vector<std::int64_t> out;
  for (std::size_t c = 1; c <= columns; ++c) {
    out.push_back(static_cast<std::int64_t>(paired[c]) - 1);
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> cheapest_pairs(std::span<const double> costs,
                                                                  std::int64_t rows,
                                                                  std::int64_t columns) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  if (rows == 0 || columns == 0) return pairs;
  const bool turned = rows > columns;
  const auto few = static_cast<std::size_t>(std::min(rows, columns));
  const auto many = static_cast<std::size_t>(std::max(rows, columns));
  Costs matrix(few, std::vector<double>(many));
  for (std::size_t r = 0; r < few; ++r) {
    for (std::size_t c = 0; c < many; ++c) {
      matrix[r][c] = turned ? costs[c * few + r] : costs[r * many + c];
    }
  }
  const std::vector<std::int64_t> paired = row_of_columns(matrix);
  for (std::size_t c = 0; c < many; ++c) {
    if (paired[c] < 0) continue;
    const auto column = static_cast<std::int64_t>(c);
    pairs.emplace_back(turned ? column : paired[c], turned ? paired[c] : column);
  }
  std::ranges::sort(pairs);
  return pairs;
}

}  // namespace phasescope::analysis
