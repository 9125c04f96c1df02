#pragma once
// The distance bias of chosen heads of a model that rotates: coefficients by distance and plane
// with their spread, the intrinsic curve to 10^7, and what other bases and interpolated positions
// would make of the same coefficients (TAPA, arXiv 2509.12635, Section 2, Appendix H, Figure 1).
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "analysis/intervals/intervals.h"
#include "analysis/intrinsic_bias.h"
#include "analysis/plane_coefficients.h"
#include "protocol/messages/distance.h"

namespace phasescope::analysis {

struct LayerHead {
  std::int64_t layer = 0, head = 0;
  auto operator<=>(const LayerHead&) const = default;
};

// Gathers the coefficients of some heads, text by text, or by the 8 blocks of queries of one.
class GatheredCoefficients {
 public:
  // `longest`: tokens of the longest text.
  GatheredCoefficients(std::vector<LayerHead> heads, PlaneLayout layout, std::int64_t longest);
  // `blocks`: the text is the only one and its blocks are the clusters.
  void add(const model::LayerAttention& attention, std::int64_t text, bool blocks);
  const std::vector<LayerHead>& heads() const { return heads_; }
  // coefficients, planes, a_by_plane, b_by_plane and smallest_a of one head.
  void fill(std::size_t head, const std::vector<double>& frequencies, const Sampled& sampled,
            const Draws& draws, protocol::HeadBias& out) const;

 private:
  struct Head {
    CoefficientSums total;
    std::map<std::int64_t, CoefficientSums> clusters;
  };
  std::vector<LayerHead> heads_;
  PlaneLayout layout_;
  std::vector<std::int64_t> edges_;
  std::vector<Head> sums_;
};

// The bias of these means at other bases and with positions divided by factors, times `gain`.
std::vector<protocol::BiasSweep> bias_sweep(const PlaneMeans& means, const Rotation& rotation,
                                            std::span<const std::int64_t> bases,
                                            std::span<const std::int64_t> factors,
                                            std::span<const double> distances);

}  // namespace phasescope::analysis
