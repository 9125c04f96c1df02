#pragma once
// What is said wherever weights of heads with a learned sink are shown.

namespace phasescope::protocol {

inline constexpr char kSinksBesideWeights[] =
    "a row's weights and that of the head's learned sink sum to 1";

}  // namespace phasescope::protocol
