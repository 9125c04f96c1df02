// The machine's own float32 multiply-add speed, beside which benchmark figures stand.
#pragma once

namespace phasescope::worker {

// GFLOP/s of `threads` threads running independent multiply-adds in registers with the widest
// vectors the processor has, over about `seconds`. A multiply-add counts as two.
double fma_peak_gflops(int threads, double seconds = 0.2);

}  // namespace phasescope::worker
