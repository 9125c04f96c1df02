#pragma once
// Statistics on plain numbers: moments, intervals that respect clusters, histograms, divergences.
// Nothing here knows of models.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/messages/provenance.h"

namespace phasescope::analysis {

using protocol::Interval;

// Mean, spread and shape of a sample. sigma and skewness divide by n (TAPA, Appendix I).
struct Moments {
  std::int64_t n = 0;
  double mean = 0, sigma = 0, skewness = 0;
  double share_positive = 0;  // share of values above 0
};
// Of an empty sample everything but n is NaN; of a constant one the skewness is 0.
Moments moments_of(std::span<const double> values);

// Standard deviation dividing by n - 1; NaN below two values.
double sample_deviation(std::span<const double> values);

// x with P(T <= x) = p for Student's t. p in (0, 1), degrees > 0.
double student_t_quantile(double p, double degrees);
// x with P(Z <= x) = p for the standard normal. p in (0, 1).
double normal_quantile(double p);

// Mean of the values and its 95 % Student-t interval with n - 1 degrees of freedom. Give one value
// a cluster (a text): pairs of one text are not independent. With one value the ends are NaN.
Interval mean_interval(std::span<const double> cluster_means);

// Mean and 95 % percentile bootstrap over documents, each with its mean and its weight (the number
// of samples in it; all 1 where every document counts the same). NaN means are left out.
Interval bootstrap_interval(std::span<const double> document_means, std::span<const double> weights,
                            std::uint64_t seed, int replicates = 2000);

// Values that belong to clusters, as samples of one quantity.
struct Clusters {
  std::vector<std::vector<double>> values;  // one list a cluster
  std::vector<double> pooled() const;
  std::vector<double> means() const;  // of the clusters that have values
};

// Mean over all values and an interval clustered by list: Student t on the lists' means, around
// their mean.
Interval clustered_interval(const Clusters& clusters);

struct Histogram {
  std::vector<double> edges;         // counts.size() + 1, equally spaced
  std::vector<std::int64_t> counts;  // the last bin holds its right edge
};
// Bins from the smallest to the largest value; one value or all equal give bins of width 1 / bins
// around it. An empty sample, or one that holds a value that is not finite, gives an empty
// histogram.
Histogram histogram_of(std::span<const double> values, int bins = 60);

struct Line {
  double slope = 0, intercept = 0, slope_error = 0;  // standard error of the slope
};
// Least squares. Needs at least two different x; otherwise all NaN.
Line fit_line(std::span<const double> x, std::span<const double> y);

// Jensen-Shannon divergence of two distributions over the same keys, in nats: 0 for equal ones,
// ln 2 for disjoint ones.
double js_divergence(std::span<const double> p, std::span<const double> q);

// -sum p ln p in nats; zeros add nothing.
double entropy_of(std::span<const double> p);

}  // namespace phasescope::analysis
