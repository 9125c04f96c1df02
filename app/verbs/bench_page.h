#pragma once
// docs/benchmarks.md: a section a device (and one for the statistics of heads alone), written by
// `bench kernels --write`.
#include <cstdint>
#include <string>

#include "protocol/bench_results.h"

namespace phasescope::app {

// What it ran on: "AMD EPYC, avx3, 2 threads", "NVIDIA H200, cuda-unverified, bf16".
std::string bench_device(const protocol::AttentionBench& bench);
// One line for figures and tables: processor, threads, build, sizes in common, runs, `date`
// ("2026-11-22") and peak.
std::string bench_facts(const protocol::AttentionBench& bench, const std::string& date);

// The section of one run: heading, conditions, a table a pass, what is slower than aimed at.
std::string bench_section(const protocol::AttentionBench& bench, const std::string& command,
                          const std::string& date);

// What a device's script has measured (tools/device/first_minutes.py, ./dev carry), of the text of
// its file, and on which day. Throws Error "bad_input" for what is no such file, holds no times or
// is of the kernels' emulation.
struct CarriedBench {
  protocol::AttentionBench bench;
  std::string date;
};
CarriedBench carried_bench(const std::string& text, const std::string& path);

// Whether `page` may be written to: it is empty or begins with "# Benchmarks".
bool is_bench_page(const std::string& page);

// `page` with its introduction as it is now, and with the section that has the same heading
// replaced, or with a new one after all others; what is written by hand under "Why some are slower
// than aimed at" stays at the end. An empty page gets the introduction and the section.
std::string with_bench_section(std::string page, const std::string& section);

}  // namespace phasescope::app
