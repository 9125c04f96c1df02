#pragma once
// rope.lemma: bounds on the mean cosine and sine over RoPE's planes (TAPA, arXiv 2509.12635, Lemmas
// B.1, B.2 of the first version, C.1, C.2 of the last).
#include <functional>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/rope_sums.h"

namespace phasescope::analysis {

TheoryCheck rope_lemma();

// All in the paper's lambda.
struct LemmaPoint {
  double base = 0;
  std::int64_t dim = 0;
  double lambda = 0;
};

// |C| <= c, |S| <= s, and C > lower where that is above 0. `lower`: the largest over e0.
struct LemmaBounds {
  double c = 0, s = 0, lower = 0;
};
LemmaBounds lemma_bounds(const LemmaPoint& point);
// (1 - e0)/2 cos(2 pi lambda theta_0^e0) - 1/ln base - epsilon; needs lambda theta_0^e0 < 1/4.
double lemma_lower_bound(const LemmaPoint& point, double e0);

// The sums of one point: exchanged by tests for those of other frequencies.
using LemmaSums = std::function<CosSin(const LemmaPoint&)>;
CosSin sums_of(const LemmaPoint& point);

// Only points count whose bound on |C| or |S| lies below 1/2, which nothing exceeds, or whose lower
// bound lies above 0.
CheckResult judge_lemma(const std::vector<LemmaPoint>& points, const LemmaSums& sums,
                        protocol::Progress* progress);

// Smallest bound on |C| over the paper's distances 1.01 .. 1000 base.
double smallest_lemma_bound(double base, std::int64_t dim);
// The smallest power of two D above 4 ln base at which that is below 1/2.
std::int64_t smallest_speaking_dim(double base);

}  // namespace phasescope::analysis
