#include "analysis/theory/tape_wy.h"

#include <algorithm>
#include <cmath>

#include "analysis/random.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kTapeWyBound = 1e-12;
constexpr int kTapeWyDraws = 20;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t n = 0; n < a.size(); ++n) sum += a[n] * b[n];
  return sum;
}

std::vector<double> identity(std::size_t size) {
  std::vector<double> matrix(size * size, 0);
  for (std::size_t n = 0; n < size; ++n) matrix[n * size + n] = 1;
  return matrix;
}

// Vectors of any norm: their factors are reflections for |xi|^2 = 2 alone, the identity holds for
// all.
Vectors drawn(Random& random, std::size_t count, std::size_t size) {
  Vectors xi;
  for (std::size_t n = 0; n < count; ++n) {
    const double scale = 0.3 + 1.2 * random.uniform();
    std::vector<double>& row = xi.emplace_back();
    for (std::size_t c = 0; c < size; ++c) {
      row.push_back(scale * random.normal() / std::sqrt(static_cast<double>(size)));
    }
  }
  return xi;
}

// e_a - e_b: how far I - xi xi^T is from the matrix that exchanges a and b, over all pairs.
double worst_transposition(std::size_t size) {
  double worst = 0;
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = a + 1; b < size; ++b) {
      std::vector<double> xi(size, 0);
      xi[a] = 1, xi[b] = -1;
      std::vector<double> swap = identity(size);
      std::swap_ranges(swap.begin() + static_cast<std::ptrdiff_t>(a * size),
                       swap.begin() + static_cast<std::ptrdiff_t>((a + 1) * size),
                       swap.begin() + static_cast<std::ptrdiff_t>(b * size));
      worst = worst_of(worst, largest_difference(product_of_reflections({xi}), swap));
    }
  }
  return worst;
}

CheckResult run_tape_wy(const CheckContext& context) {
  Random random(context.seed);
  double worst = 0, control = 1e300;
  CheckCurve curve = curve_of("largest difference", {"factors", "difference", false, true}, {}, {});
  for (int n = 0; n < kTapeWyDraws; ++n) {
    const auto factors = static_cast<std::size_t>(n + 2);
    const Vectors xi = drawn(random, factors, 5);
    const std::vector<double> product = product_of_reflections(xi);
    double size = 1;
    for (const double x : product) size = std::max(size, std::abs(x));
    const double residual = largest_difference(wy_form(xi, wy_factors(xi)), product) / size;
    const double broken = largest_difference(wy_form(xi, wy_factors(xi, true)), product) / size;
    worst = worst_of(worst, residual), control = std::min(control, broken);
    curve.x.push_back(static_cast<double>(factors)), curve.y.push_back(residual);
    curve.bound.push_back(kTapeWyBound);
  }
  Parts parts;
  parts.below("largest difference of the two forms", worst, kTapeWyBound);
  parts.below("of a factor from its transposition", worst_transposition(6), kTapeWyBound);
  parts.control("with the diagonal kept at least", control, kTapeWyBound);
  CheckResult result = parts.result();
  result.samples = kTapeWyDraws;
  result.curves = {std::move(curve)};
  return result;
}

}  // namespace

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t n = 0; n < a.size(); ++n) worst = worst_of(worst, std::abs(a[n] - b[n]));
  return worst;
}

Vectors wy_factors(const Vectors& xi, bool diagonal) {
  Vectors w;
  for (const std::vector<double>& row : xi) {
    std::vector<double> next = row;
    for (std::size_t j = 0; j < w.size(); ++j) {
      const double factor = dot(xi[j], row);
      for (std::size_t c = 0; c < next.size(); ++c) next[c] -= factor * w[j][c];
    }
    if (diagonal) {
      for (double& x : next) x /= 1 + dot(row, row);
    }
    w.push_back(std::move(next));
  }
  return w;
}

std::vector<double> product_of_reflections(const Vectors& xi) {
  const std::size_t size = xi.at(0).size();
  std::vector<double> product = identity(size);
  for (const std::vector<double>& v : xi) {
    for (std::size_t r = 0; r < size; ++r) {
      double along = 0;
      for (std::size_t c = 0; c < size; ++c) along += product[r * size + c] * v[c];
      for (std::size_t c = 0; c < size; ++c) product[r * size + c] -= along * v[c];
    }
  }
  return product;
}

std::vector<double> wy_form(const Vectors& xi, const Vectors& w) {
  const std::size_t size = xi.at(0).size();
  std::vector<double> form = identity(size);
  for (std::size_t j = 0; j < xi.size(); ++j) {
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t c = 0; c < size; ++c) form[r * size + c] -= w[j][r] * xi[j][c];
    }
  }
  return form;
}

TheoryCheck tape_wy() {
  return {{.id = "tape.wy",
           .statement = "prod (I - xi_i xi_i^T) = I - sum w_j xi_j^T, w_i = xi_i - sum_{j<i} "
                        "(xi_j.xi_i) w_j; with xi = e_a - e_b each factor exchanges a and b.",
           .source = "arXiv 2501.00712, Lemmas B.7 and B.8",
           .title = "Products of reflections as one sum",
           .needs = "nothing",
           .rule = "holds where both forms agree to 1e-12 in float64, and differ by more with the "
                   "diagonal kept in the triangular matrix"},
          &run_tape_wy,
          On::construction};
}

}  // namespace phasescope::analysis
