#pragma once
// Means and variances of TAPA's scores by distance, and closed forms for Gaussian q and k (TAPA,
// arXiv 2509.12635, Section 3). A score is amplitude times cos(angle), angle = 2 pi lambda^alpha
// phi.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/verdicts.h"

namespace phasescope::analysis {

// Pairs at one distance. `text` says whose sample each is (errors are clustered by it); empty where
// all are independent.
struct TapaPairs {
  double distance = 0;
  std::vector<double> amplitude, angle, score;
  std::vector<std::int64_t> text = {};
};
// Pairs of amplitude and phi at distance lambda, scores times `damping`.
TapaPairs tapa_pairs(double lambda, double alpha, const std::vector<double>& amplitude,
                     const std::vector<double>& phi, double damping = 1);

struct MeanError {
  double mean = 0, error = 0;  // standard error
};
MeanError mean_error(const std::vector<double>& values, const std::vector<std::int64_t>& text);

struct TapaRow {
  double distance = 0;
  MeanError amplitude, cosine, score;
  double ratio = 0, ratio_error = 0;  // Var score over c/2, c = E amplitude^2
  // (E[amplitude^2 cos 2 angle]/2 - (E amplitude cos)^2) over c/2: what the ratio is more than 1.
  double rest = 0;
  double identity = 0;  // |ratio - 1 - rest|: 0 where scores are what they should be
};
TapaRow tapa_row(const TapaPairs& pairs);
std::vector<TapaRow> tapa_rows(const std::vector<TapaPairs>& pairs);

// A verdict over the distances of one head or construction.
struct HeadVerdict {
  Verdict verdict = Verdict::undecided;
  Measured measured;
  std::string why;
};

// The verdicts of all heads of a model as one: fails where one does, holds where the premises are
// met somewhere.
CheckResult over_heads(const std::vector<std::pair<std::string, HeadVerdict>>& heads);

// E cos(w q_P.k_P) = (1 + g)^(-n/2), g = w^2 sigma^4, w = 2 pi lambda^alpha / sqrt n.
struct GaussianPhase {
  double alpha = 0.1, sigma = 0.3;
  std::int64_t dims = 32;  // n = (1 - t) D
  double g(double lambda) const;
  double mean_cosine(double lambda) const;
  double slope(double lambda) const;  // of ln E cos in ln lambda
  double bound(double lambda) const;  // the theorem's C lambda^(-alpha n)
};

}  // namespace phasescope::analysis
