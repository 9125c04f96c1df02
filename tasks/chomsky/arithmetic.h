#pragma once
// Expressions with brackets, modulo 5: a digit, -digit, (digit), (-digit), or (L op R).
#include <array>

#include "tasks/task.h"

namespace phasescope::tasks {

// Ids of the signs of a grammar; digits are 0..4. -1: the grammar has no such sign.
struct Signs {
  std::int64_t plus = 5, minus = 6, times = 7, open = 8, close = 9, unknown = -1;
};

// An expression of exactly n symbols, n at least 1, each split even; `times` only where there is
// that sign.
Ids expression(std::int64_t n, const Signs& signs, Random& random);

// Its value, the unknown being `unknown`. Throws Error "bad_input" for what the grammar does not
// make.
std::int64_t value_of(const Ids& expression, const Signs& signs, std::int64_t unknown = 0);

// The probability of each value of an expression of n symbols with + - *, by the recursion over
// the grammar.
std::array<double, 5> values_with_times(std::int64_t n);

}  // namespace phasescope::tasks
