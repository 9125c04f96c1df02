#pragma once
// tape.shift: positions may start anywhere (TAPE, arXiv 2501.00712, Proposition 4.2).
#include "analysis/theory/equality.h"

namespace phasescope::analysis {

TheoryCheck tape_shift();

// What was measured for one shift.
struct ShiftMeasurement {
  std::int64_t shift = 0;
  Residuals float64;                    // the model in float64
  Residuals float64_on_float32_angles;  // and from the float32 model's initial state
  Residuals float32;
};

// max(1e-10, 64 s 2^-53): an angle grows with s, and its rounding with it.
double shift_bound(std::int64_t shift);

// holds where every float64 residual is below shift_bound and every float32 one below 3 times what
// rounding of angles, of their sines and cosines (the float64 model on float32's) and that of sums,
// `noise`, explain together.
CheckResult judge_shift(const std::vector<ShiftMeasurement>& measured, const Residuals& noise);

}  // namespace phasescope::analysis
