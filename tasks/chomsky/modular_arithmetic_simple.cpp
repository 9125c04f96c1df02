#include <algorithm>
#include <array>

#include "formats/error.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

constexpr std::int64_t kPlus = 5, kMinus = 6, kTimes = 7;

// Digits with signs between them; an even length is shortened by one.
Ids modular_arithmetic_simple_input(std::int64_t n, Random& random) {
  const std::int64_t used = n % 2 == 0 ? n - 1 : n;
  Ids input;
  for (std::int64_t i = 0; i < used; ++i) {
    input.push_back(i % 2 == 0 ? random.below(5) : kPlus + random.below(3));
  }
  return input;
}

Ids modular_arithmetic_simple_target(const Ids& input) {
  if (input.size() % 2 == 0) throw formats::bad_input("an expression ends with a sign");
  std::int64_t sum = 0, term = 0;
  for (std::size_t i = 0; i < input.size(); i += 2) {
    const std::int64_t sign = i == 0 ? kPlus : input[i - 1], digit = input[i];
    if (digit > 4 || sign < kPlus || sign > kTimes) {
      throw formats::bad_input("an expression is not digits with signs between them");
    }
    if (sign != kTimes) sum += term;
    term = (sign == kTimes ? term * digit : sign == kMinus ? -digit : digit) % 5;
  }
  return {((sum + term) % 5 + 5) % 5};
}

// The distribution of (finished terms, last term), sign by sign.
double modular_arithmetic_simple_blind(std::int64_t n) {
  using Table = std::array<std::array<double, 5>, 5>;
  Table at{};
  at[0].fill(0.2);
  for (std::int64_t i = 2; i < n; i += 2) {
    Table next{};
    for (std::size_t sum = 0; sum < 5; ++sum) {
      for (std::size_t term = 0; term < 5; ++term) {
        for (std::size_t digit = 0; digit < 5; ++digit) {
          const double share = at[sum][term] / 15;
          next[(sum + term) % 5][digit] += share;
          next[(sum + term) % 5][(5 - digit) % 5] += share;
          next[sum][term * digit % 5] += share;
        }
      }
    }
    at = next;
  }
  std::array<double, 5> value{};
  for (std::size_t sum = 0; sum < 5; ++sum) {
    for (std::size_t term = 0; term < 5; ++term) value[(sum + term) % 5] += at[sum][term];
  }
  return *std::ranges::max_element(value);
}

}  // namespace

std::unique_ptr<Task> modular_arithmetic_simple() {
  return chomsky_task({.key = "modular_arithmetic_simple",
                       .public_name = "modular_arithmetic",
                       .title = "Modular arithmetic",
                       .help = "the value modulo 5 of digits with + - * between them",
                       .input_symbols = 9,
                       .output_symbols = 5,
                       .symbols = "01234+-*?",
                       .input = modular_arithmetic_simple_input,
                       .target = modular_arithmetic_simple_target,
                       .blind = modular_arithmetic_simple_blind,
                       .formula = "exact, over even digits and signs"});
}

}  // namespace phasescope::tasks
