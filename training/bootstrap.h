#pragma once

#include <cstdint>
#include <vector>

namespace phasescope::training {

// A text's share in a mean: sum of what is measured and how much it is measured on.
struct TextSum {
  double sum = 0, weight = 0;
};

// sum / weight over all texts and its 95 % interval: texts are drawn again with replacement 1000
// times, percentiles 2.5 and 97.5. Fewer than two texts give an empty interval (nan).
struct RatioInterval {
  double mean = 0, low = 0, high = 0;
};
RatioInterval text_bootstrap(const std::vector<TextSum>& texts, std::uint64_t seed);

}  // namespace phasescope::training
