// What `bench kernels` times: our attention on random data, and what somebody without it would
// call. To add a variant: a line in kernel_variants() with its program and its rivals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/bench_results.h"
#include "worker/bench_timing.h"

namespace phasescope::worker {

struct KernelSize {
  std::int64_t heads = 1, n = 1, d = 1;  // tokens; numbers a head
};

// Something that gives the same result by other means.
struct Rival {
  std::string name;
  Preparation run;  // empty where it was left out; the name says why
};

struct KernelCase {
  protocol::AttentionBenchRow row;  // what is known before it runs
  Preparation ours;
  std::vector<Rival> rivals;  // may be empty
};

// Names for `--variants`.
std::vector<std::string> kernel_variants();

// Cases of some variants (all but "heads" where none is named) and passes ("forward", "backward";
// both where none is named) at one size, causal, float32, batch 1. Throws Error "bad_usage" for
// names that do not exist.
std::vector<KernelCase> kernel_cases(const KernelSize& size,
                                     const std::vector<std::string>& variants,
                                     const std::vector<std::string>& passes);

}  // namespace phasescope::worker
