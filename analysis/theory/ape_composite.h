#pragma once
// ape.composite: a pair of structures is interpreted by the direct sum of its parts (APE, arXiv
// 2312.16045, Section 3.4, Equations 10 to 12, and Section 3.5).
#include <array>

#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_composite();

// A place (i, node, j) of a sequence under W0, a binary tree under W0 and W1, and a sequence under
// W1.
using CompositePlace = std::array<std::int64_t, 3>;

// Relative map of each part from `u` to `v`.
Matrices composite_parts(const Matrices& generators, const CompositePlace& u,
                         const CompositePlace& v);

}  // namespace phasescope::analysis
