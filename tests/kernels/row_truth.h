#pragma once
// What the probes of rows should give, from the reference's full matrices.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {

/// One number a row of the reference, of each probe of rows but sinks.
template <typename Real>
struct RowTruth {
  explicit RowTruth(const Reference<Real>& ref) {
    const AttentionShape& s = ref.s;
    for (std::int64_t r = 0; r < s.batch * s.heads * s.queries; ++r) {
      add_row(ref, r, ref.score.data() + r * s.keys, ref.weight.data() + r * s.keys);
    }
  }

  void add_row(const Reference<Real>& ref, std::int64_t r, const Real* t, const Real* p) {
    const AttentionShape& s = ref.s;
    Real h = 0, d = 0, w[3] = {0, 0, 0}, best = -std::numeric_limits<Real>::infinity();
    for (std::int64_t j = 0; j < s.keys; ++j) {
      const std::int64_t lambda = ref.distance(r % s.queries, j);
      if (p[j] > 0) h -= p[j] * std::log(p[j]);
      d += p[j] * Real(lambda);
      const std::int64_t widths[3] = {1, 16, 64};
      for (int n = 0; n < 3; ++n) w[n] += std::abs(lambda) < widths[n] ? p[j] : Real(0);
      best = std::max(best, t[j]);
    }
    entropy.push_back(h);
    distance.push_back(d);
    max_score.push_back(best);
    top1.push_back(s.keys ? *std::max_element(p, p + s.keys) : Real(0));
    first.push_back(s.keys ? p[0] : Real(0));
    for (int n = 0; n < 3; ++n) windows[n].push_back(w[n]);
  }

  std::vector<Real> entropy, distance, max_score, top1, first, windows[3];
};

}  // namespace phasescope::kernels::testing
