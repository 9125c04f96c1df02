#pragma once

#include "tasks/task.h"

namespace phasescope::tasks {

// Two numbers from 1 to 2^length - 1, lowest bit first, with a 2 between them: n symbols in all. Of
// one or two symbols: one number, from 0 up.
Ids two_numbers(std::int64_t n, Random& random);

// Bits of a number drawn evenly from 1..2^n - 1, lowest first.
Ids number_above_zero(std::int64_t n, Random& random);

struct TwoNumbers {
  Ids first, second;  // lowest bit first
  bool both = false;  // false: `first` is all there is
};
// Throws Error "bad_input" for symbols other than 0, 1 and one 2.
TwoNumbers read_two_numbers(const Ids& input);

// Without zeros on top; zero is one zero.
Ids trimmed(Ids bits);

}  // namespace phasescope::tasks
