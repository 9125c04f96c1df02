#pragma once
// ape.commutator: distinct branches do not commute (APE, arXiv 2312.16045, Section 3.3, corrected).
#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_commutator();

struct Commutator {
  double norm = 0;   // |W V - V W|, Frobenius
  double bound = 0;  // 2 |W - I|_2 |V - I|_F
  double most = 0;   // 2 sqrt d
};
Commutator commutator_of(const at::Tensor& w, const at::Tensor& v);

// The smallest must lie above 100 times rounding, 4 d 2^-53.
CheckResult judge_commutators(const Matrices& matrices);

}  // namespace phasescope::analysis
