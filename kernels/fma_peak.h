#pragma once
// The machine's own float32 multiply-add speed, beside which the speed of the kernels stands.

namespace phasescope::kernels {

/// Floating-point operations a second of `threads` threads (at least 1) that run independent
/// multiply-adds in registers at the same time, with the vectors the kernels use; a multiply-add
/// counts as two. Counted in each thread's processor time, about 0.2 s of it, so that other
/// programs on the core do not count.
double fma_peak(int threads);

/// Vectors of multiply-adds, of the width that the kernels use, that a core begins in a cycle: 2
/// where two units take whole vectors, 1 where one does, or where two have half the width. From
/// the time of many chains beside that of one, each of whose steps waits for the one before: 4
/// cycles on x86-64 processors with AVX2 or AVX-512. Takes 2 ms; the shortest of many runs counts,
/// so that other programs on the core do not; what another hardware thread of the core does all the
/// while does count.
double fma_vectors_a_cycle();

}  // namespace phasescope::kernels
