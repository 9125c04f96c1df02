#pragma once
// docs/benchmarks.md: a section a device (and one for the statistics of heads alone), written by
// `bench kernels --write`.
#include <string>

#include "protocol/bench_results.h"

namespace phasescope::app {

// What it ran on: "AMD EPYC, avx3, 2 threads", "NVIDIA H200, cuda-unverified, bf16".
std::string bench_device(const protocol::AttentionBench& bench);
// "; multiply-add peak 221 GFLOP/s", nothing where it was not measured.
std::string bench_peak(const protocol::AttentionBench& bench);

// The section of one run: heading, facts, a table a pass.
std::string bench_section(const protocol::AttentionBench& bench, const std::string& command);

// `page` with the section that has the same heading replaced, or with the section at its end; an
// empty page gets its introduction first.
std::string with_bench_section(std::string page, const std::string& section);

}  // namespace phasescope::app
