#pragma once
// The machine's own float32 multiply-add speed, beside which the speed of the kernels stands.

namespace phasescope::kernels {

/// Floating-point operations a second of `threads` threads (at least 1) that run independent
/// multiply-adds in registers at the same time, with the vectors the kernels use; a multiply-add
/// counts as two. Counted in each thread's processor time, about 0.2 s of it, so that other
/// programs on the core do not count.
double fma_peak(int threads);

}  // namespace phasescope::kernels
