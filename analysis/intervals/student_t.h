#pragma once
// Student's t distribution.

namespace phasescope::analysis {

// x with P(T <= x) = p. p in (0, 1), degrees > 0.
double student_t_quantile(double p, double degrees);

// The quantile of .975 with this many degrees of freedom, kept: intervals of one result share it.
double two_sided_t(int degrees);

}  // namespace phasescope::analysis
