#pragma once
// Figures of benchmarks.
#include "protocol/bench_results.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// GFLOP/s against the number of tokens, one line for each variant and head dimension of a pass,
// plain attention's products counted for all; the multiply-add peak across.
widgets::PlotSpec kernel_speed_figure(const protocol::AttentionBench& bench,
                                      const std::string& pass);
// How many times the rivals' speed, the same way.
widgets::PlotSpec rival_figure(const protocol::AttentionBench& bench, const std::string& pass);

}  // namespace phasescope::app
