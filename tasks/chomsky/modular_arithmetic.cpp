#include <algorithm>

#include "tasks/chomsky/arithmetic.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

constexpr Signs kModularSigns{};

Ids modular_arithmetic_input(std::int64_t n, Random& random) {
  return expression(n, kModularSigns, random);
}

Ids modular_arithmetic_target(const Ids& input) { return {value_of(input, kModularSigns)}; }

double modular_arithmetic_blind(std::int64_t n) {
  const auto values = values_with_times(n);
  return *std::ranges::max_element(values);
}

}  // namespace

std::unique_ptr<Task> modular_arithmetic() {
  return chomsky_task(
      {.key = "modular_arithmetic",
       .public_name = "modular_arithmetic_brackets with mult = true",
       .title = "Modular arithmetic with brackets",
       .help = "the value modulo 5 of an expression with brackets",
       .differs = "the paper shows signs in front of brackets, which the grammar never makes; the "
                  "generator of neural_networks_chomsky_hierarchy is empty after its first length",
       .input_symbols = 11,
       .output_symbols = 5,
       .symbols = "01234+-*()?",
       .input = modular_arithmetic_input,
       .target = modular_arithmetic_target,
       .blind = modular_arithmetic_blind,
       .formula = "exact recursion over the grammar: always answer 0"});
}

}  // namespace phasescope::tasks
