#pragma once
// What attention may cost, and which rows of a benchmark are slower: limits are data in
// bench_goals.cpp, a line each.
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/bench_results.h"

namespace phasescope::app {

// ---- ratios of a row -----------------------------------------------------------------------------
// NaN where one of the two numbers was not measured.

bool runs_on_gpu(const protocol::AttentionBench& bench);
// Processor time over that of plain without probes at the same size and pass; NaN for a model's
// heads.
double cpu_over_plain(const protocol::AttentionBench& bench,
                      const protocol::AttentionBenchRow& row);
// Part of the multiply-add peak: of all threads in wall time, and of what the processor time spent
// allows.
double wall_share_of_peak(const protocol::AttentionBench& bench,
                          const protocol::AttentionBenchRow& row);
double cpu_share_of_peak(const protocol::AttentionBench& bench,
                         const protocol::AttentionBenchRow& row);

// ---- limits --------------------------------------------------------------------------------------

// A limit as it applies to one row; numbers are rounded as they are printed, and compared so.
struct GoalCheck {
  std::string what;  // "table, forward, over plain"
  std::int64_t heads = 0, n = 0, d = 0;
  double wall = 0, cpu = 0;  // one of them NaN where there is no such clock
  double at_least = 0, aim = 0;
  bool more_is_better = false;
  std::string unit;  // "", " %", " TFLOP/s"
  int digits = 2;    // after the point
};

// Every limit that applies, those first whose least is missed, in the order of the rows. A row
// whose rival did not run has none.
std::vector<GoalCheck> goal_checks(const protocol::AttentionBench& bench);
// "" where both clocks reach the aim; else "at least" or "aim", whichever is missed, and ", by wall
// time alone" or ", by processor time alone" where the other clock reaches it.
std::string missed(const GoalCheck& check);

// "### Slower than aimed at": how many limits apply, and a table of those missed. Empty where none
// applies.
std::string goals_section(const protocol::AttentionBench& bench);

}  // namespace phasescope::app
