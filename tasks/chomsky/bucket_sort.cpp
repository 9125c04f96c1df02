#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids bucket_sort_input(std::int64_t n, Random& random) { return even_symbols(n, 5, random); }

Ids bucket_sort_target(const Ids& input) {
  Ids sorted = input;
  std::ranges::sort(sorted);
  return sorted;
}

// P(Bin(n, p) = k).
double binomial(std::int64_t n, std::int64_t k, double p) {
  if (p >= 1) return k == n ? 1 : 0;
  const auto total = static_cast<double>(n), some = static_cast<double>(k);
  return std::exp(std::lgamma(total + 1) - std::lgamma(some + 1) - std::lgamma(total - some + 1) +
                  some * std::log(p) + (total - some) * std::log1p(-p));
}

// Mean over places of the likeliest order statistic of n even symbols: the i-th smallest is at most
// s where at least i symbols are.
double bucket_sort_blind(std::int64_t n) {
  std::vector<std::array<double, 6>> at_most(static_cast<std::size_t>(n) + 1);  // by i, 1 + s
  for (std::size_t s = 1; s <= 5; ++s) {
    double above = 0;
    for (std::int64_t i = n; i >= 1; --i) {
      above += binomial(n, i, static_cast<double>(s) / 5);
      at_most[static_cast<std::size_t>(i)][s] = above;
    }
  }
  double sum = 0;
  for (std::size_t i = 1; i < at_most.size(); ++i) {
    double likeliest = 0;
    for (std::size_t s = 1; s <= 5; ++s) {
      likeliest = std::max(likeliest, at_most[i][s] - at_most[i][s - 1]);
    }
    sum += likeliest;
  }
  return sum / static_cast<double>(n);
}

}  // namespace

std::unique_ptr<Task> bucket_sort() {
  return chomsky_task({.key = "bucket_sort",
                       .public_name = "bucket_sort",
                       .title = "Sorting",
                       .help = "the symbols in order",
                       .input_symbols = 5,
                       .output_symbols = 5,
                       .symbols = "01234",
                       .input = bucket_sort_input,
                       .target = bucket_sort_target,
                       .blind = bucket_sort_blind,
                       .formula = "mean over places of the likeliest order statistic"});
}

}  // namespace phasescope::tasks
