#pragma once
// cape.expressive: f can turn one base bias into another (CAPE, arXiv 2405.14722, Section 3.2).
#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck cape_expressive();

double leaky(double x);  // LeakyReLU of slope .01, which f has

// A bias by distance.
using BiasOfDistance = std::function<double(double distance)>;
BiasOfDistance alibi_bias(double slope);
BiasOfDistance kerple_bias(double p, double a);  // -p ln(1 + a lambda)
BiasOfDistance t5_bucket();                      // 32 buckets, 128 the last distance

struct ExpressiveFit {
  double worst = 0, worst_past = 0;      // within the trained range, and past it
  double largest = 0, largest_past = 0;  // |target| there
};
// f of the source alone with `width` - 1 units, whose creases lie at the source's values at
// distances spread in the logarithm, fitted by least squares to the targets (one a head) over
// distances 0 .. last; then read on to `far`.
ExpressiveFit fit_expressive(const BiasOfDistance& source,
                             const std::vector<BiasOfDistance>& targets, int last, int far,
                             int width);

// What no function of `keys` does better on `values`: half the widest range of values that share a
// key.
double unreachable(const std::vector<double>& keys, const std::vector<double>& values);

// The worst error must be at most 1 % of the target's largest value.
CheckResult judge_fit(const ExpressiveFit& fit);

}  // namespace phasescope::analysis
