#pragma once
// tape.orthogonal: one orthogonal matrix for all tokens and heads leaves f alone and turns g (TAPE,
// arXiv 2501.00712, Proposition 3.1, Equation 5).
#include <ATen/core/Tensor.h>

#include <vector>

#include "analysis/random.h"
#include "analysis/theory/general_tape.h"

namespace phasescope::analysis {

TheoryCheck tape_orthogonal();

// Matrices on the right of e (N, H, M, L, R): (R, R) for all, (M, R, R) by plane; these may turn
// it. (H, 1, R, R) by head and (N, 1, 1, R, R) by token may not.
struct TurnResidual {
  double x = 0, e = 0;  // relative
  double largest() const;
};
TurnResidual turn_residual(const GeneralTape& tape, const GeneralInput& input,
                           const at::Tensor& turn);

// Three rotations and three reflections for all planes, then by plane as drawn.
std::vector<at::Tensor> orthogonal_turns(Random& random, std::int64_t planes, std::int64_t columns);

// Bounds: 1e-12 in float64; float32 against `noise`.
CheckResult judge_turns(const GeneralTape& tape, const GeneralInput& input, double float32,
                        double noise, std::uint64_t seed);

}  // namespace phasescope::analysis
