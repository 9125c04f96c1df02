// What `bench kernels` times: our attention on random data beside its rivals (kernel_rivals.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/attention/attention.h"
#include "protocol/bench_results.h"
#include "worker/bench/bench_timing.h"
#include "worker/bench/kernel_problems.h"

namespace phasescope::worker {

// Something that gives the same result by other means.
struct Rival {
  std::string name;
  Preparation run;  // empty where it was left out; the name says why
};

struct KernelCase {
  protocol::AttentionBenchRow row;  // what is known before it runs; peak_mb too on a GPU
  Preparation ours;                 // empty where it was left out; the row's kernel says why
  std::vector<Rival> rivals;        // may be empty
  std::int64_t calls = 1;           // that what is timed makes, on a GPU many
  bool gpu = false;
};

struct KernelRequest {
  KernelSize size;
  std::vector<std::string> variants = {};  // all but "layer" and "heads" where none is named
  std::vector<std::string> passes = {};    // "forward", "backward"; both where none is named
  model::Backend backend = model::Backend::fused;  // or the CUDA kernels
  bool atomic_dq = false;                          // of their backward passes
  at::ScalarType dtype = at::kFloat;               // of q, k, v; bfloat16 for the CUDA kernels
  std::uint64_t seed = 0;                          // of all numbers
  Layout layout = Layout::contiguous;
};

// Names for `--variants`.
std::vector<std::string> kernel_variants();

// Before anything runs. Throws Error "bad_usage" for names that do not exist, and for "layer" and
// "heads" in anything but float32 on the processor; "out_of_memory" where operands and results of
// the cases of this size are more than is free.
void check_kernel_request(const KernelRequest& request);

// Cases at one size, causal, batch 1, of a request that was checked.
std::vector<KernelCase> kernel_cases(const KernelRequest& request);

}  // namespace phasescope::worker
