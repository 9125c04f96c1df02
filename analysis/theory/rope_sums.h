#pragma once
// Sums of cosines and sines over RoPE's planes (TAPA, arXiv 2509.12635, Section 2 and Appendix C),
// and their limits for many planes. Two conventions: the paper's angle of plane d is
// 2 pi lambda base^(-2d/D), a model's lambda base^(-2d/D); the functions say which they take.
#include <cstdint>
#include <vector>

namespace phasescope::analysis {

struct CosSin {
  double c = 0, s = 0;
};

enum class Angles { paper, model };

// C_D = (1/D) sum_{d < D/2} cos(angle), S_D alike. Angles are reduced to one turn in long double:
// an error of lambda 2^-62 turns where that type has 64 bits.
CosSin frequency_sums(double lambda, double ln_base, std::int64_t dim, Angles angles);

// The same with angles reduced in 200 digits, for distances up to 10^180.
CosSin exact_frequency_sums(double lambda, double ln_base, std::int64_t dim, Angles angles);

// Sine and cosine integral, x > 0.
double sine_integral(double x);
double cosine_integral(double x);

// D to infinity, the paper's angles: (Ci(2 pi lambda) - Ci(2 pi lambda theta_0)) / (2 ln base), and
// Si alike.
CosSin limit_sums(double lambda, double ln_base);

// min over a in [0, 1] of a + 4 pi lambda theta_0^a / D: how far the sums are from their limits
// (Lemmas C.1 and C.2). The paper's lambda.
double lemma_epsilon(double lambda, double ln_base, std::int64_t dim);

// `count` values from `low` to `high`, evenly spread in the logarithm.
std::vector<double> spread_in_log(double low, double high, int count);

}  // namespace phasescope::analysis
