#include "tasks/chomsky/binary.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids product_of(const Ids& a, const Ids& b) {
  Ids product(a.size() + b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) product[i + j] += a[i] * b[j];
  }
  for (std::size_t i = 0; i + 1 < product.size(); ++i) {
    product[i + 1] += product[i] / 2;
    product[i] %= 2;
  }
  return product;
}

Ids binary_multiplication_target(const Ids& input) {
  const TwoNumbers numbers = read_two_numbers(input);
  const auto places = static_cast<std::int64_t>(input.size());
  // One number alone is multiplied by nothing: as many zeros as fit before the terminator.
  if (!numbers.both) return terminated(Ids(input.size() - 1), places);
  return terminated(trimmed(product_of(numbers.first, numbers.second)), places);
}

}  // namespace

std::unique_ptr<Task> binary_multiplication() {
  return chomsky_task({.key = "binary_multiplication",
                       .public_name = "binary_multiplication",
                       .title = "Binary multiplication",
                       .help = "the product of two binary numbers, lowest bit first",
                       .differs = "in the public code, not in CAPE's table",
                       .input_symbols = 3,
                       .output_symbols = 3,
                       .symbols = "01*",
                       .input = two_numbers,
                       .target = binary_multiplication_target,
                       .terminated = true});
}

}  // namespace phasescope::tasks
