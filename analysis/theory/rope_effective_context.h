#pragma once
// rope.effective_context: where the distance bias of a head is gone (TAPA, arXiv 2509.12635, after
// Theorem 2.3), in a model's distances.
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck rope_effective_context();

// A head's curve: sum_d (mu_d cos(lambda theta_d) + nu_d sin(lambda theta_d)) / sqrt D, times the
// sign of its value at 0.
struct BiasHead {
  std::vector<double> mu, nu;  // by plane
};

// The curve at 0 and the first distances (from 2) at which its octave mean, over lambda/2 < l <=
// lambda, falls below half of that and below 0; none where it does not up to `last`.
struct EffectiveContext {
  double at_zero = 0;
  std::optional<std::int64_t> half, zero;
};
// Every distance. Sums over an octave are geometric: no distance is summed.
std::vector<EffectiveContext> effective_contexts(const std::vector<BiasHead>& heads,
                                                 const std::vector<double>& frequencies,
                                                 std::int64_t last, protocol::Progress* progress);

// How far a model's curves are searched: 4 / theta_0 (regimes_of), 4 base where nothing is scaled.
// From 1024 to 2 000 000.
std::int64_t distances_searched(const std::vector<double>& frequencies);

double bias_curve(const BiasHead& head, const std::vector<double>& frequencies, double lambda);

// Linear scaling by `factor` moves the curve by it: largest |curve(factor lambda; scaled) -
// curve(lambda)| over some distances, of the curve's largest term.
double scaling_residual(const BiasHead& head, const std::vector<double>& frequencies,
                        const std::vector<double>& scaled, double factor);

// The limits for equal planes, D and base without end: roots of -Ci(x) + rho (pi/2 - Si(x)), x =
// lambda / base, and of its octave mean, rho = nu / mu.
struct LimitRoots {
  double curve = 0, octave = 0;
};
LimitRoots limit_roots(double rho);

}  // namespace phasescope::analysis
