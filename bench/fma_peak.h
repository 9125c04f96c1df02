#pragma once
// The float32 multiply-add rate of one core, measured beside the kernels so that a busy or throttled
// machine shows.

namespace phasescope::bench {

/// Floating-point operations a second of independent multiply-adds in registers, one thread.
double fma_peak();

}  // namespace phasescope::bench
