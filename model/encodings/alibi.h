#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry alibi_entry();

// 2^(-8(h+1)/H) for H a power of two; otherwise those of the next lower power of two, followed by
// every second slope of twice that power.
std::vector<double> alibi_slopes(std::int64_t heads);

}  // namespace phasescope::model
