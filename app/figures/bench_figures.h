#pragma once
// Figures of benchmarks.
#include <string>
#include <vector>

#include "protocol/bench_results.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// For each pass, head dimension and number of heads, over the number of tokens: GFLOP/s of every
// variant below the multiply-add peak, with plain attention's products counted for all; times the
// rivals' speed; and the time of plain attention with probes over that without. Medians of wall
// times. A figure that would have no point is left out. `note` stands below each: what it ran on.
std::vector<widgets::PlotSpec> bench_figures(const protocol::AttentionBench& bench,
                                             const std::string& note);

}  // namespace phasescope::app
