#pragma once
// Statistics on plain numbers: moments, histograms, divergences. Nothing here knows of models.
// Intervals are in analysis/intervals/.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace phasescope::analysis {

// Mean, spread and shape of a sample. sigma and skewness divide by n (TAPA, Appendix I).
struct Moments {
  std::int64_t n = 0;
  double mean = 0, sigma = 0, skewness = 0;
  double share_positive = 0;  // share of values above 0
};
// An empty sample has NaN for everything but n, and so has one with a value that is not finite, but
// for its mean (NaN or an infinity); of one value sigma and skewness are NaN; values that are all
// equal have a skewness of 0.
Moments moments_of(std::span<const double> values);

// Standard deviation dividing by n - 1; NaN below two values.
double sample_deviation(std::span<const double> values);

// Values that belong to clusters, as samples of one quantity.
struct Clusters {
  std::vector<std::vector<double>> values;  // one list a cluster
  std::vector<double> rest = {};            // samples of no cluster: block_of_query() < 0
  void add(std::int64_t cluster, double value) {
    (cluster < 0 ? rest : values[static_cast<std::size_t>(cluster)]).push_back(value);
  }
  std::vector<double> pooled() const;
};

struct Histogram {
  std::vector<double> edges;         // counts.size() + 1, equally spaced
  std::vector<std::int64_t> counts;  // the last bin holds its right edge
};
// Bins from the smallest to the largest value; one value or all equal give bins of width 1 / bins
// around it. An empty sample, or one that holds a value that is not finite, gives an empty
// histogram.
Histogram histogram_of(std::span<const double> values, int bins = 60);
// The same of bins from `low` to `high`, high > low, which hold every value.
Histogram histogram_between(std::span<const double> values, double low, double high, int bins);

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
