#pragma once
// ape.absolute: one-sided positions, W^j on the keys alone (APE, arXiv 2312.16045, Section 3.5).
#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_absolute();

// Score of a query at i and a key at j.
using PlacedScore = double (*)(const at::Tensor& w, const at::Tensor& q, std::int64_t i,
                               const at::Tensor& k, std::int64_t j);
double one_sided_score(const at::Tensor& w, const at::Tensor& q, std::int64_t i,
                       const at::Tensor& k, std::int64_t j);
double two_sided_score(const at::Tensor& w, const at::Tensor& q, std::int64_t i,
                       const at::Tensor& k, std::int64_t j);

// `placed` is exchanged by tests for the two-sided score, which a shift does not move.
CheckResult judge_absolute(const Matrices& matrices, std::uint64_t seed, PlacedScore placed);

}  // namespace phasescope::analysis
