#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

// A stack from its bottom, then actions: 2 pops, 3 pushes a 0, 4 a 1.
Ids stack_manipulation_input(std::int64_t n, Random& random) {
  if (n == 1) return even_symbols(1, 2, random);
  const std::int64_t height = random.between(1, n - 1);
  Ids input = even_symbols(height, 2, random);
  for (std::int64_t i = height; i < n; ++i) input.push_back(2 + random.below(3));
  return input;
}

Ids stack_manipulation_target(const Ids& input) {
  Ids stack;
  for (const std::int64_t symbol : input) {
    if (symbol < 2) stack.push_back(symbol);
    if (symbol > 2) stack.push_back(symbol - 3);
    if (symbol == 2 && !stack.empty()) stack.pop_back();
  }
  return terminated({stack.rbegin(), stack.rend()}, static_cast<std::int64_t>(input.size()) + 1);
}

}  // namespace

std::unique_ptr<Task> stack_manipulation() {
  return chomsky_task({.key = "stack_manipulation",
                       .public_name = "stack_manipulation",
                       .title = "Stack",
                       .help = "the stack, from its top, after pops and pushes",
                       .differs = "the loss of the public code trains the zeros after the "
                                  "terminator too; the metric leaves them out",
                       .input_symbols = 5,
                       .output_symbols = 3,
                       .symbols = "01-ab",
                       .input = stack_manipulation_input,
                       .target = stack_manipulation_target,
                       .terminated = true});
}

}  // namespace phasescope::tasks
