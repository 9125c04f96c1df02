#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids reverse_string_input(std::int64_t n, Random& random) { return even_symbols(n, 2, random); }

Ids reverse_string_target(const Ids& input) { return {input.rbegin(), input.rend()}; }

double reverse_string_blind(std::int64_t) { return 0.5; }

}  // namespace

std::unique_ptr<Task> reverse_string() {
  return chomsky_task({.key = "reverse_string",
                       .public_name = "reverse_string",
                       .title = "Reversal",
                       .help = "the symbols backwards",
                       .input_symbols = 2,
                       .output_symbols = 2,
                       .symbols = "01",
                       .input = reverse_string_input,
                       .target = reverse_string_target,
                       .blind = reverse_string_blind,
                       .formula = "1/2"});
}

}  // namespace phasescope::tasks
