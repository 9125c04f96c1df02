#include "analysis/theory/matrix_product.h"

#include <ATen/ATen.h>

#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

// A view of a vector's memory.
at::Tensor view_of(const std::vector<double>& values, std::int64_t rows, std::int64_t columns) {
  return at::from_blob(const_cast<double*>(values.data()), {rows, columns}, at::kDouble);
}

}  // namespace

std::vector<double> matrix_product(const std::vector<double>& a, const std::vector<double>& b,
                                   std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  std::vector<double> out(static_cast<std::size_t>(rows * columns));
  at::Tensor product = view_of(out, rows, columns);
  at::mm_out(product, view_of(a, rows, inner), view_of(b, inner, columns));
  return out;
}

std::vector<double> least_squares(const std::vector<double>& a, const std::vector<double>& b,
                                  std::int64_t rows, std::int64_t columns) {
  const at::Tensor inverse = at::linalg_pinv(view_of(a, rows, columns), 1e-14);
  return to_vector<double>(at::matmul(inverse, view_of(b, rows, 1)));
}

std::vector<double> singular_values(const std::vector<double>& a, std::int64_t rows,
                                    std::int64_t columns) {
  return to_vector<double>(at::linalg_svdvals(view_of(a, rows, columns)));
}

}  // namespace phasescope::analysis
