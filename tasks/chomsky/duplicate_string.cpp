#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids duplicate_string_input(std::int64_t n, Random& random) { return even_symbols(n, 2, random); }

Ids duplicate_string_target(const Ids& input) {
  Ids twice = input;
  twice.insert(twice.end(), input.begin(), input.end());
  return twice;
}

double duplicate_string_blind(std::int64_t) { return 0.5; }

}  // namespace

std::unique_ptr<Task> duplicate_string() {
  return chomsky_task({.key = "duplicate_string",
                       .public_name = "duplicate_string",
                       .title = "Duplication",
                       .help = "the symbols twice",
                       .input_symbols = 2,
                       .output_symbols = 2,
                       .symbols = "01",
                       .input = duplicate_string_input,
                       .target = duplicate_string_target,
                       .blind = duplicate_string_blind,
                       .formula = "1/2"});
}

}  // namespace phasescope::tasks
