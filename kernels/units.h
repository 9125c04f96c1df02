#pragma once
// Scores come and go in natural units; inside, the kernels of either processor have them in log2
// units, so that a weight is a power of two.

#include <numbers>

namespace phasescope::kernels {

/// A natural unit in log2 units, and back.
inline constexpr float kLog2e = std::numbers::log2e_v<float>;
inline constexpr float kLn2 = std::numbers::ln2_v<float>;

}  // namespace phasescope::kernels
