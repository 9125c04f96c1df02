#pragma once
// ape.group_laws: positions are a group (APE, arXiv 2312.16045, Section 3.1, L1 to L3).
#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_group_laws();

// Largest entries of the differences, all float64.
struct GroupLaws {
  double associative = 0;  // (W V) W - W (V W)
  double neutral = 0;      // W I - W
  double inverse = 0;      // W W^T - I
  double powers = 0;       // W^100 W^-37 - W^63
  double tree = 0;         // W V - V W: two branches of a tree
  double grid = 0;         // the same of (W^a (+) V^b), two places of a grid
};
GroupLaws group_laws_of(const at::Tensor& w, const at::Tensor& v);

CheckResult judge_group_laws(const Generators& generators);

}  // namespace phasescope::analysis
