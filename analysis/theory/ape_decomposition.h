#pragma once
// ape.decomposition: relative maps are composed of absolute ones (APE, arXiv 2312.16045, Equations
// 5 to 7).
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_decomposition();

// Places of one structure: the map of each place, and that from one place to another spelled out.
struct Places {
  std::string name;
  std::int64_t count = 0;
  double largest_power = 0;                                            // p of the bound
  std::function<at::Tensor(std::int64_t n)> absolute;                  // A_n
  std::function<at::Tensor(std::int64_t m, std::int64_t n)> relative;  // without A
};
// The places of whole numbers; of nodes of a binary tree, breadth first from 1 (up to the common
// ancestor, then down); of rows and columns (n, 2) of a grid.
Places sequence_places(const at::Tensor& generator, std::vector<std::int64_t> places);
Places tree_places(const Matrices& branches, std::vector<std::int64_t> nodes);
Places grid_places(const Matrices& axes, std::vector<std::vector<std::int64_t>> places);

// Scores of q (N, d) and k (N, d) by N^2 relative maps (Equation 5), and by 2N absolute ones
// (Equation 7).
at::Tensor relative_scores(const Places& places, const at::Tensor& q, const at::Tensor& k);
at::Tensor absolute_scores(const Places& places, const at::Tensor& q, const at::Tensor& k);
// Largest difference, of |q_m| |k_n|.
double decomposition_difference(const Places& places, const at::Tensor& q, const at::Tensor& k);

}  // namespace phasescope::analysis
