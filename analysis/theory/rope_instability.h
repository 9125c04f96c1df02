#pragma once
// rope.instability: far away RoPE's mean score takes every value (TAPA, arXiv 2509.12635, Theorem
// 2.1 of the first version, 2.2 of the last).
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/rope_sums.h"

namespace phasescope::analysis {

TheoryCheck rope_instability();

// (2/D) sum over planes of e^(-damping lambda) (mu cos(angle) + nu sin(angle)), lambda an integer.
struct InstabilitySum {
  std::vector<long double> turns;  // a token, of each plane
  std::vector<double> damping;     // a token, of each plane; empty for none
  double mu = 1, nu = 0;

  double radius() const;  // r = sqrt(mu^2 + nu^2)
  std::int64_t dim() const { return 2 * static_cast<std::int64_t>(turns.size()); }
};
InstabilitySum rope_sum(double base, std::int64_t dim, Angles angles, double mu, double nu);

// Over every integer of the whole blocks of kInstabilityBlock in [from, to), in units of r.
inline constexpr std::int64_t kInstabilityBlock = 8192;
struct Extremes {
  std::int64_t from = 0, to = 0;
  double largest = 0, smallest = 0, rms = 0;
  std::int64_t largest_at = 0, smallest_at = 0;
};
// Angles of block starts times angles of offsets, one matrix product.
Extremes extremes_of(const InstabilitySum& sum, std::int64_t from, std::int64_t to,
                     protocol::Progress* progress);

// The premise: theta_0^(2d/D) are linearly independent over the rationals, unless the base is c^g,
// c and g > 1 integers, g dividing D/2. Then planes fall into groups of g with ratio c.
struct Dependence {
  std::int64_t groups_of = 1;  // g
  double ratio = 0;            // c
  bool independent() const { return groups_of == 1; }
};
Dependence dependence_of(double base, std::int64_t planes);
// Smallest and largest (1/g) sum_k cos(c^k x - psi), tan psi = nu/mu: what is within reach, in r.
std::array<double, 2> reach_of(const Dependence& dependence, double psi);

// The verdict from the windows [10^6, 10^7) and [10^7, 10^8).
CheckResult judge_instability(const std::vector<Extremes>& windows, std::int64_t dim);

}  // namespace phasescope::analysis
