#pragma once
// An interval that may be looked at after every unit.
#include <cstdint>
#include <optional>
#include <span>

#include "analysis/intervals/intervals.h"

namespace phasescope::analysis {

namespace method {
inline constexpr const char* kAnytime = "t mixture, valid at every n";
}  // namespace method

// Spread of the effect sizes that are mixed over, in standard deviations squared: it sets where the
// interval is narrowest, not what it covers.
inline constexpr double kTextEffects = 1;
inline constexpr double kSeedEffects = 16;

// Half width over the standard deviation after n units; none while there is no interval. With
// K = (sqrt(1 + n g) / alpha)^(2 / n) and nu = n - 1: none while K >= 1 + n g or n < 2, otherwise
// sqrt(nu (K - 1) / (1 - K / (1 + n g)) / n). It inverts the mixture over effect sizes N(0, g) of
// the scale-free t likelihood ratio, a martingale, so that by Ville's inequality the truth is
// inside at all n at once with probability 1 - alpha, for Gaussian values.
std::optional<double> anytime_half_width(std::int64_t n, double effects, double alpha = 0.05);

// Mean of one value a unit, in the order in which they came.
Interval anytime_interval(std::span<const double> values, double effects);

}  // namespace phasescope::analysis
