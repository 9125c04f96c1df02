#pragma once
// What the sums of a distance bucket should be.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {

/// Sums over the unmasked pairs of one head by the reference: see BucketProbes.
struct BucketTruth {
  double pairs = 0, weight = 0, score = 0, square = 0, content = 0, content_square = 0, term = 0,
         term_square = 0;
  double size = 0, content_size = 0;  ///< of absolute values

  /// Batch entry, head, query, key.
  void add(const Reference<double>& truth, std::int64_t b, std::int64_t h, std::int64_t i,
           std::int64_t j) {
    const auto pair = static_cast<std::size_t>(truth.at(b, h, i, j));
    const double t = truth.score[pair];
    if (std::isinf(t)) return;
    const double c = truth.content(b, h, i, j);
    pairs += 1;
    weight += truth.weight[pair];
    score += t;
    square += t * t;
    size += std::abs(t);
    content += c;
    content_square += c * c;
    content_size += std::abs(c);
    term += t - c;
    term_square += (t - c) * (t - c);
  }
};

}  // namespace phasescope::kernels::testing
