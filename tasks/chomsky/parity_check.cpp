#include <numeric>

#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids parity_check_input(std::int64_t n, Random& random) { return even_symbols(n, 2, random); }

Ids parity_check_target(const Ids& input) {
  return {std::accumulate(input.begin(), input.end(), std::int64_t{0}) % 2};
}

double parity_check_blind(std::int64_t) { return 0.5; }

}  // namespace

std::unique_ptr<Task> parity_check() {
  return chomsky_task({.key = "parity_check",
                       .public_name = "parity_check",
                       .title = "Parity",
                       .help = "is the number of 1s odd",
                       .input_symbols = 2,
                       .output_symbols = 2,
                       .symbols = "01",
                       .input = parity_check_input,
                       .target = parity_check_target,
                       .blind = parity_check_blind,
                       .formula = "1/2"});
}

}  // namespace phasescope::tasks
