#include <algorithm>
#include <array>

#include "tasks/chomsky/rule.h"
#include "tasks/factories.h"

namespace phasescope::tasks {
namespace {

Ids cycle_navigation_input(std::int64_t n, Random& random) { return even_symbols(n, 3, random); }

Ids cycle_navigation_target(const Ids& input) {
  std::int64_t place = 0;
  for (const std::int64_t step : input) place += step - 1;
  return {(place % 5 + 5) % 5};
}

// The likeliest place after n steps of the walk.
double cycle_navigation_blind(std::int64_t n) {
  std::array<double, 5> places{1};
  for (std::int64_t step = 0; step < n; ++step) {
    std::array<double, 5> next{};
    for (std::size_t p = 0; p < 5; ++p) {
      next[p] = (places[p] + places[(p + 1) % 5] + places[(p + 4) % 5]) / 3;
    }
    places = next;
  }
  return *std::ranges::max_element(places);
}

}  // namespace

std::unique_ptr<Task> cycle_navigation() {
  return chomsky_task({.key = "cycle_navigation",
                       .public_name = "cycle_navigation",
                       .title = "Cycle navigation",
                       .help = "where steps of -1, 0 and 1 on a circle of five end",
                       .input_symbols = 3,
                       .output_symbols = 5,
                       .symbols = "-0+",
                       .input = cycle_navigation_input,
                       .target = cycle_navigation_target,
                       .blind = cycle_navigation_blind,
                       .formula = "largest entry of the five-state walk after n steps"});
}

}  // namespace phasescope::tasks
