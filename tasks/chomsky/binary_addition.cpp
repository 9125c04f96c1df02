#include "tasks/chomsky/binary.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids sum_of(const Ids& a, const Ids& b) {
  Ids sum;
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < a.size() || i < b.size() || carry > 0; ++i) {
    carry += (i < a.size() ? a[i] : 0) + (i < b.size() ? b[i] : 0);
    sum.push_back(carry % 2);
    carry /= 2;
  }
  return sum;
}

Ids binary_addition_target(const Ids& input) {
  const TwoNumbers numbers = read_two_numbers(input);
  return terminated(trimmed(sum_of(numbers.first, numbers.second)),
                    static_cast<std::int64_t>(input.size()) + 1);
}

}  // namespace

std::unique_ptr<Task> binary_addition() {
  return chomsky_task(
      {.key = "binary_addition",
       .public_name = "binary_addition",
       .title = "Binary addition",
       .help = "the sum of two binary numbers, lowest bit first",
       .differs = "the paper's Table 4 shows the highest bit first; the public code, which is "
                  "followed, has the lowest first",
       .input_symbols = 3,
       .output_symbols = 3,
       .symbols = "01+",
       .input = two_numbers,
       .target = binary_addition_target,
       .terminated = true});
}

}  // namespace phasescope::tasks
