#include "tasks/chomsky/binary.h"

#include <algorithm>

#include "formats/error.h"
#include "tasks/chomsky/rule.h"

namespace phasescope::tasks {

Ids number_above_zero(std::int64_t n, Random& random) {
  while (true) {
    Ids bits = even_symbols(n, 2, random);
    if (std::ranges::find(bits, 1) != bits.end()) return bits;
  }
}

Ids two_numbers(std::int64_t n, Random& random) {
  if (n <= 2) return even_symbols(n, 2, random);
  const std::int64_t first = random.between(1, n - 2);
  Ids input = number_above_zero(first, random);
  input.push_back(2);
  const Ids second = number_above_zero(n - 1 - first, random);
  input.insert(input.end(), second.begin(), second.end());
  return input;
}

TwoNumbers read_two_numbers(const Ids& input) {
  const auto gap = std::ranges::find(input, 2);
  TwoNumbers numbers{{input.begin(), gap}, {}, gap != input.end()};
  if (numbers.both) numbers.second.assign(gap + 1, input.end());
  for (const Ids* bits : {&numbers.first, &numbers.second}) {
    if (std::ranges::find(*bits, 2) != bits->end()) {
      throw formats::bad_input("an input of two numbers has more than one operator (2)");
    }
  }
  return numbers;
}

Ids trimmed(Ids bits) {
  while (bits.size() > 1 && bits.back() == 0) bits.pop_back();
  if (bits.empty()) bits.push_back(0);
  return bits;
}

}  // namespace phasescope::tasks
