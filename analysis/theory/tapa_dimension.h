#pragma once
// tapa.dimension: when the bias falls exponentially with the head size (TAPA, arXiv 2509.12635,
// remark to Theorem 3.2, corrected).
#include <functional>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/tapa_statistics.h"

namespace phasescope::analysis {

TheoryCheck tapa_dimension();

// n (n = (1 - t) D) to E cos(phase).
using CosineOfDims = std::function<double(std::int64_t dims)>;

// E cos of coordinates +-sigma with equal chances: cos^n.
double signs_mean_cosine(double lambda, double alpha, double sigma, std::int64_t dims);
// What a fixed variance tends to, exp(-(2 pi lambda^alpha sigma^2)^2 / 2).
double fixed_variance_limit(double lambda, double alpha, double sigma);

// Fall of -ln E cos per dimension over `dims` against `rate`, which must exceed 1e-9.
CheckResult judge_dimension(const std::vector<std::int64_t>& dims, const CosineOfDims& mean_cosine,
                            double rate);

}  // namespace phasescope::analysis
