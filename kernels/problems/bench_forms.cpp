#include "kernels/problems/bench_forms.h"

#include <algorithm>

namespace phasescope::kernels::problems {

std::vector<BenchForm> bench_forms(std::int64_t tokens, std::int64_t head_dim) {
  constexpr std::int64_t kFireUnits = 32;  // of its network, each of which is a knot
  // So many near distances that no array of N x N is an input.
  constexpr std::int64_t kQueryDistances = 256;
  return {{"plain", {}},
          {"table", {.kind = Kind::table, .sloping_table = true}},
          {"tapa", {.kind = Kind::tapa}},
          // A state of d numbers a token: d/2 cosines and d/2 sines.
          {"tape", {.kind = Kind::tape, .state_dim = head_dim}},
          {"cape", {.kind = Kind::cape, .sloping_table = true, .hidden = 32}},
          {"fire", {.kind = Kind::fire, .knots = kFireUnits}},
          {"sinks", {.sinks = Sinks::even}},
          {"gates", {.gates = Gates::by_channel}},
          {"forgetting", {.kind = Kind::forgetting}},
          {"query_table",
           {.kind = Kind::query_table, .query_distances = std::min(kQueryDistances, tokens)}},
          // The same with the products that make such a table in the kernel.
          {"relative_keys",
           {.kind = Kind::relative_keys,
            .query_distances = std::min(kQueryDistances, tokens),
            .rank = 16}},
          {"clamp", {.kind = Kind::clamp}}};
}

}  // namespace phasescope::kernels::problems
