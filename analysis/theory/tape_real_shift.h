#pragma once
// tape.real_shift: positions may be moved by any real number (TAPE, arXiv 2501.00712, Proposition
// B.9, corrected).
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/equality.h"

namespace phasescope::analysis {

TheoryCheck tape_real_shift();

// The state that a model starts from at real positions (N): its own start, turned by the angle that
// each token stands off its whole number. (1, H or 1, N, 2, d/2). Exchanged by tests for one that
// drops the fraction.
using StartAt = at::Tensor (*)(const model::Decoder& decoder, const at::Tensor& positions);
at::Tensor start_at(const model::Decoder& decoder, const at::Tensor& positions);

struct RealShift {
  double shift = 0;
  Residuals moved;       // outputs, attention, PE products, whole positions
  double irregular = 0;  // the largest of those for irregular positions
  // The state that enters and the one that leaves, against themselves turned by shift theta_m.
  double enters = 0, leaves = 0;
  double largest() const;
};
RealShift measure_real_shift(const std::shared_ptr<const model::Model>& model,
                             const at::Tensor& ids, double shift, StartAt start,
                             std::uint64_t seed);
// max(1e-10, 64 |shift| 2^-53)
double real_shift_bound(double shift);

CheckResult judge_real_shifts(const std::vector<RealShift>& shifts);

}  // namespace phasescope::analysis
