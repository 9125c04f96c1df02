#pragma once
// tape.softmax_per_plane: Equation 7 as printed, a softmax of each plane, against the shared one
// (TAPE, arXiv 2501.00712, Section 3.2).
#include <ATen/core/Tensor.h>

#include <vector>

#include "analysis/theory/general_tape.h"

namespace phasescope::analysis {

TheoryCheck tape_softmax_per_plane();

// One layer of both programs, each on its own state.
struct PlaneComparison {
  double product = 0;   // |prod_m a_ijm / sum_j prod_m a_ijm - a_ij|: an identity
  double bound = 0;     // |e~ - e~ shared| over TV times the largest distance of visible e: <= 1
  double averaged = 0;  // |e~ - e~ shared| over |e~ shared|
  double x = 0, attention = 0;    // of the two programs after this layer: 0 in the first
  std::vector<double> variation;  // total variation by plane
  double shared_entropy = 0, plane_entropy = 0;  // nats, means
  double spread = 0;                             // of a plane's scores over that of their sum
};
std::vector<PlaneComparison> compare_softmaxes(const GeneralTape& tape, const GeneralInput& input);

CheckResult judge_softmaxes(const std::vector<PlaneComparison>& layers);

}  // namespace phasescope::analysis
