#pragma once
// The angles of a model that rotates by base^(-2d/D), for checks that are compiled without
// LibTorch.
#include <cstdint>
#include <string>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

struct GeometricAngles {
  double base = 0;
  std::int64_t dim = 0;  // D, twice the planes
  std::string missing;   // the premise that is not met, where base and dim say nothing
};
// The angles of the context's model, from the frequencies that its rotation has: a geometric series
// that starts with 1 up to the rounding of float32.
GeometricAngles geometric_angles_of(const CheckContext& context);

// Mean A_d and B_d over planes of each head of every layer, over the pairs of the first text.
struct HeadCoefficients {
  std::int64_t layer = 0, head = 0;
  double mu = 0, nu = 0;
};
std::vector<HeadCoefficients> coefficients_of(const CheckContext& context);

}  // namespace phasescope::analysis
