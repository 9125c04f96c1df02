#include <algorithm>

#include "formats/error.h"
#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

// ww with one symbol made 2; an odd length has a 3 at its end.
Ids missing_duplicate_input(std::int64_t n, Random& random) {
  if (n == 1) return {1};
  const auto half = static_cast<std::size_t>(n / 2);
  Ids input = even_symbols(n / 2, 2, random);
  for (std::size_t i = 0; i < half; ++i) input.push_back(input[i]);
  input[static_cast<std::size_t>(random.below(2 * static_cast<std::int64_t>(half)))] = 2;
  if (n % 2 == 1) input.push_back(3);
  return input;
}

Ids missing_duplicate_target(const Ids& input) {
  if (input.size() == 1) return {1};
  const auto gap = static_cast<std::size_t>(std::ranges::find(input, 2) - input.begin());
  const std::size_t half = input.size() / 2;
  if (gap >= 2 * half) throw formats::bad_input("an input of missing_duplicate has no gap (2)");
  return {input[(gap + half) % (2 * half)]};
}

}  // namespace

std::unique_ptr<Task> missing_duplicate() {
  return chomsky_task({.key = "missing_duplicate",
                       .public_name = "missing_duplicate_string",
                       .title = "Missing duplicate",
                       .help = "the symbol that a gap in a doubled string hides",
                       .input_symbols = 4,
                       .output_symbols = 2,
                       .symbols = "01?.",
                       .input = missing_duplicate_input,
                       .target = missing_duplicate_target,
                       .blind = half_from_two,
                       .formula = "1/2 from two symbols on"});
}

}  // namespace phasescope::tasks
