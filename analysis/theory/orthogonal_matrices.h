#pragma once
// Positions as powers of orthogonal matrices (APE, arXiv 2312.16045): what its checks share. All
// matrices are (d, d) float64; a score is q.(W^p k).
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/random.h"
#include "analysis/theory/check.h"

namespace phasescope::analysis {

using Matrices = std::vector<at::Tensor>;

at::Tensor normal_tensor(Random& random, std::vector<std::int64_t> shape);
// exp(A - A^T), A upper triangular with normal entries times `scale`.
at::Tensor drawn_rotation(Random& random, std::int64_t dim, double scale = 0.7);
// A matrix of random orthonormal columns; its determinant is +1 or -1 as drawn unless `sign` says.
at::Tensor drawn_orthogonal(Random& random, std::int64_t dim, double sign = 0);

// W^p by squaring; W^T for negative p.
at::Tensor power_of(const at::Tensor& matrix, std::int64_t power);
// Rotations of planes (2m, 2m + 1) by `angles`, (d, d).
at::Tensor rotation_blocks(const std::vector<double>& angles);
at::Tensor direct_sum(const Matrices& parts);
// Product of the branches' matrices along a path from the root.
at::Tensor path_matrix(const Matrices& branches, const std::vector<std::int64_t>& path,
                       std::int64_t dim);
// The path from the root to a node of the binary tree numbered breadth first, root 1.
std::vector<std::int64_t> path_of_node(std::int64_t node);

double largest_entry(const at::Tensor& x);
double spectral_norm(const at::Tensor& matrix);
// |W^T W - I|, spectral.
double orthogonality_defect(const at::Tensor& matrix);
double determinant(const at::Tensor& matrix);
double score(const at::Tensor& q, const at::Tensor& matrix, const at::Tensor& k);

// 4 d p 2^-53: half a unit in the last place of the 2 d terms of an entry of p products, and of the
// numbers they are made of.
double power_rounding(std::int64_t dim, double power);
// How far two forms of one product of p generators may differ, in |q| |k|:
// max(1e-12, p (defect + power_rounding)).
double product_bound(const Matrices& generators, double power);

// An orthogonal matrix as rotations of planes and single directions: W = Z F Z^T, the columns of Z
// being the planes' pairs in turn, then directions of eigenvalue +1, then of -1. Pairs of equal
// singles are planes of angle 0 and pi. (The real Schur form: eigenvectors alone are not orthogonal
// where angles repeat.)
struct CanonicalForm {
  at::Tensor basis;                  // Z (d, d)
  std::vector<double> angles;        // of the planes, in (0, pi), then 0 and pi of paired singles
  std::int64_t plus = 0, minus = 0;  // single directions left, 0 or 1 each
};
CanonicalForm canonical_form(const at::Tensor& orthogonal);

// The generators that a check is of.
struct Generators {
  Matrices matrices;
  std::string kind;  // "sequence", "grid", "tree", "periodic"; "drawn" without a model
  std::int64_t period = 0;
  std::string missing;  // why a model has none

  std::int64_t dim() const { return matrices.at(0).size(0); }
};
// A model's (of every head, axis or branch), or two drawn ones without a model.
Generators generators_of(const CheckContext& context, std::int64_t drawn_dim = 10);

}  // namespace phasescope::analysis
