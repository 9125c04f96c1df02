#pragma once

#include "tasks/task.h"

namespace phasescope::tasks {

// What the metric rows of encoder-decoder tasks say of the nats of each target: the perplexity, and
// that of the public code, which counts one free position for each row that is shorter than its
// batch.
Json perplexity_of(const std::vector<Sample>& samples, const Json& given);

}  // namespace phasescope::tasks
