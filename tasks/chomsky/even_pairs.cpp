#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids even_pairs_input(std::int64_t n, Random& random) { return even_symbols(n, 2, random); }

Ids even_pairs_target(const Ids& input) { return {input.front() != input.back() ? 1 : 0}; }

}  // namespace

std::unique_ptr<Task> even_pairs() {
  return chomsky_task({.key = "even_pairs",
                       .public_name = "even_pairs",
                       .title = "Even pairs",
                       .help = "is the number of 01 and 10 odd (first and last symbol differ)",
                       .input_symbols = 2,
                       .output_symbols = 2,
                       .symbols = "01",
                       .input = even_pairs_input,
                       .target = even_pairs_target,
                       .blind = half_from_two,
                       .formula = "1/2 from two symbols on"});
}

}  // namespace phasescope::tasks
