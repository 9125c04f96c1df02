#pragma once
// ape.reflection: what a reflection adds (APE, arXiv 2312.16045, Section 3.2, footnote 4,
// corrected).
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_reflection();

// A W of determinant -1 as RoPE of width d + 2 (d + 1 for odd d): its planes, and planes of angle 0
// and pi with half of each unused.
struct WideRope {
  std::vector<double> angles;
  at::Tensor q, k;  // (2 planes)
};
WideRope wide_rope(const CanonicalForm& form, const at::Tensor& q, const at::Tensor& k);
// The single directions of +1 and -1 treated as one plane that turns by pi/2, which is wrong.
WideRope single_plane(const CanonicalForm& form, const at::Tensor& q, const at::Tensor& k);

using RopeForm = WideRope (*)(const CanonicalForm&, const at::Tensor&, const at::Tensor&);
// Largest difference of RoPE's scores from q.(W^p k), of |q| |k|, for the powers given.
double reflected_difference(const at::Tensor& w, const at::Tensor& q, const at::Tensor& k,
                            const std::vector<std::int64_t>& powers, RopeForm form);

}  // namespace phasescope::analysis
