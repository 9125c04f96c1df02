#include <algorithm>

#include "formats/error.h"
#include "tasks/chomsky/arithmetic.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

constexpr Signs kEquationSigns{
    .plus = 5, .minus = 6, .times = -1, .open = 7, .close = 8, .unknown = 9};
constexpr std::int64_t kEquals = 10;

// An expression of n - 2 symbols with one digit hidden, "=" and its value.
Ids solve_equation_input(std::int64_t n, Random& random) {
  if (n < 3) return Ids(static_cast<std::size_t>(n));
  Ids input = expression(n - 2, kEquationSigns, random);
  const std::int64_t value = value_of(input, kEquationSigns);
  std::vector<std::size_t> digits;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i] < 5) digits.push_back(i);
  }
  const auto place =
      static_cast<std::size_t>(random.below(static_cast<std::int64_t>(digits.size())));
  input[digits[place]] = kEquationSigns.unknown;
  input.push_back(kEquals);
  input.push_back(value);
  return input;
}

// The hidden digit occurs once, with a factor of 1 or -1, so that one value fits.
Ids solve_equation_target(const Ids& input) {
  if (input.size() < 3) return {0};
  const Ids left(input.begin(), input.end() - 2);
  if (input[input.size() - 2] != kEquals || std::ranges::count(left, kEquationSigns.unknown) != 1) {
    throw formats::bad_input("an equation is not an expression with one unknown, = and a digit");
  }
  std::int64_t digit = 0;
  while (digit < 4 && value_of(left, kEquationSigns, digit) != input.back()) ++digit;
  return {digit};
}

double solve_equation_blind(std::int64_t n) { return n < 3 ? 1 : 0.2; }

}  // namespace

std::unique_ptr<Task> solve_equation() {
  return chomsky_task({.key = "solve_equation",
                       .public_name = "solve_equation",
                       .title = "Equation",
                       .help = "the digit that x stands for, modulo 5",
                       .input_symbols = 11,
                       .output_symbols = 5,
                       .symbols = "01234+-()x=",
                       .input = solve_equation_input,
                       .target = solve_equation_target,
                       .blind = solve_equation_blind,
                       .formula = "the hidden digit is even: 1/5"});
}

}  // namespace phasescope::tasks
