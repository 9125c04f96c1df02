#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids odds_first_input(std::int64_t n, Random& random) { return even_symbols(n, 2, random); }

Ids odds_first_target(const Ids& input) {
  Ids order;
  for (std::size_t begin : {1, 0}) {
    for (std::size_t n = begin; n < input.size(); n += 2) order.push_back(input[n]);
  }
  return order;
}

double odds_first_blind(std::int64_t) { return 0.5; }

}  // namespace

std::unique_ptr<Task> odds_first() {
  return chomsky_task({.key = "odds_first",
                       .public_name = "odds_first",
                       .title = "Odds first",
                       .help = "the second, fourth, ... symbols, then the first, third, ...",
                       .differs = "the public documentation says first, third, ... first; its "
                                  "code, which is followed, the reverse",
                       .input_symbols = 2,
                       .output_symbols = 2,
                       .symbols = "01",
                       .input = odds_first_input,
                       .target = odds_first_target,
                       .blind = odds_first_blind,
                       .formula = "1/2"});
}

}  // namespace phasescope::tasks
