#pragma once
// The cheapest pairing of two sets.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace phasescope::analysis {

// Pairs (row, column) of a matrix of costs (rows x columns, row-major, finite), no row and no
// column twice, min(rows, columns) of them, of the smallest sum: the Hungarian method (Kuhn 1955,
// Munkres 1957) with potentials. In the order of rows. Time rows^2 columns, or columns^2 rows.
std::vector<std::pair<std::int64_t, std::int64_t>> cheapest_pairs(std::span<const double> costs,
                                                                  std::int64_t rows,
                                                                  std::int64_t columns);

}  // namespace phasescope::analysis
