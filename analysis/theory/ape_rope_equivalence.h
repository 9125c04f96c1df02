#pragma once
// ape.rope_equivalence: APE on sequences is RoPE with angles of its own, and RoPE is APE (APE,
// arXiv 2312.16045, Section 3.2 and Appendix A.2).
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_rope_equivalence();

// RoPE's scores q.(R^p k), R of interleaved planes.
double rope_score(const at::Tensor& q, const std::vector<double>& angles, std::int64_t power,
                  const at::Tensor& k);

// Largest difference of q.(W^p k) from RoPE's score of Z^T q and Z^T k, W = Z R Z^T, relative to
// |q| |k|; with `fold` false of q and k themselves, which is not the same.
double folded_difference(const at::Tensor& w, const CanonicalForm& form, const at::Tensor& q,
                         const at::Tensor& k, const std::vector<std::int64_t>& powers,
                         bool fold = true);

}  // namespace phasescope::analysis
