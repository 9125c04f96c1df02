#pragma once
// rope.intrinsic_bias: the mean score by distance is the rotation of the mean content (TAPA, arXiv
// 2509.12635, Definition 2.1).
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/intrinsic_bias.h"
#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck rope_intrinsic_bias();

// One head's samples of one text at each distance: mean score, and mean A_d, B_d of each plane.
struct BiasText {
  std::vector<double> score;       // a distance
  std::vector<PlaneMeans> planes;  // a distance
};

// One head's samples over texts.
struct BiasSample {
  std::vector<double> distances;
  std::vector<BiasText> texts;
};

// What the statement says of means of A and B: exchanged by tests for wrong ones.
struct BiasFormulas {
  std::vector<double> (*gamma)(const PlaneMeans&, std::span<const double>,
                               std::span<const double>) = sqrt_d_gamma;
  std::vector<double> (*per_plane)(const PlaneMeans&, std::span<const double>,
                                   std::span<const double>) = per_plane_bias;
};

// What one head's samples say. z are |difference| over its standard error, clustered by text.
struct BiasJudgement {
  double identity = 0;  // largest |mean score - formula of the same pairs|, over the largest score
  double distance_z = 0;   // premise: the means do not depend on distance
  double planes_z = 0;     // premise: all planes have the same means
  double gamma_z = 0;      // sqrt(D) Gamma against the measured mean
  double per_plane_z = 0;  // the prediction with one mean a plane
  std::vector<double> measured, gamma, per_plane;
  std::vector<double> low, high;  // 95 % band of `measured`, over texts
};
BiasJudgement judge_bias(const BiasSample& sample, std::span<const double> frequencies,
                         const BiasFormulas& formulas = {});

// Whose curves the answer carries.
struct ShownHead {
  std::size_t index = 0;
  std::string name = "L0H0";
};

// The verdict over heads. `identity_bound`: rounding of the scores. The bound on z is the one that
// a single comparison would have at 3, kept for all comparisons together.
CheckResult judge_heads(const std::vector<BiasJudgement>& heads,
                        const std::vector<double>& distances, std::int64_t texts,
                        std::int64_t planes, double identity_bound, const ShownHead& shown = {});

}  // namespace phasescope::analysis
