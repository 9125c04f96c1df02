#pragma once
// The coefficients of a rotation's planes by distance (TAPA, arXiv 2509.12635, Appendix H and
// Figure 1): sums of A_d, B_d and their squares over all causal pairs at each distance, exact, by
// correlations of the channels of q and k: O(N log N) time and O(N) memory for each plane.
#include <cstdint>
#include <vector>

#include "analysis/intrinsic_bias.h"
#include "model/attention/layer_attention.h"

namespace phasescope::analysis {

// By plane and bucket of distances [edges[b], edges[b + 1]), row-major (planes, buckets).
struct CoefficientSums {
  std::vector<std::int64_t> edges;
  std::vector<double> pairs;  // of each bucket
  std::vector<double> a, a_square, b, b_square;

  std::size_t buckets() const { return pairs.size(); }
  std::size_t planes() const { return a.size() / buckets(); }
  // Into an empty one too.
  void add(const CoefficientSums& other);
};

// Queries of one head of batch entry 0, keys at or before them.
struct HeadQueries {
  std::int64_t head = 0;
  std::int64_t begin = 0, end = 0;
};
// `edges` from 0 to the number of tokens or beyond; q and k before the rotation, in float64.
CoefficientSums coefficient_sums(const model::LayerAttention& attention, PlaneLayout layout,
                                 const HeadQueries& queries,
                                 const std::vector<std::int64_t>& edges);

}  // namespace phasescope::analysis
