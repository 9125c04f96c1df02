#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry t5_entry();

// Distances i - j >= 0 (int64, any shape) to buckets: the first half one a distance, the rest
// spaced by the logarithm, which is taken in float32 as the reference does.
at::Tensor one_sided_bucket(const at::Tensor& distance, std::int64_t buckets,
                            std::int64_t max_distance);

}  // namespace phasescope::model
