#pragma once
// Products of plain float64 matrices for files that are compiled without LibTorch.
#include <cstdint>
#include <vector>

namespace phasescope::analysis {

// a (rows, inner) times b (inner, columns), row-major.
std::vector<double> matrix_product(const std::vector<double>& a, const std::vector<double>& b,
                                   std::int64_t rows, std::int64_t inner, std::int64_t columns);

// x of least squares |A x - b|, A (rows, columns) row-major, by the singular values of A.
std::vector<double> least_squares(const std::vector<double>& a, const std::vector<double>& b,
                                  std::int64_t rows, std::int64_t columns);

// Descending.
std::vector<double> singular_values(const std::vector<double>& a, std::int64_t rows,
                                    std::int64_t columns);

}  // namespace phasescope::analysis
