#pragma once
// What changes with the step: the learning rate and the windows' length. Both are closed forms of
// the configuration and the step alone, so that a resumed run needs no state for them.
#include <cstdint>
#include <vector>

#include "training/run_config.h"

namespace phasescope::training {

// The learning rate of step `step` (zero-based): rises linearly to the full rate at step
// warmup_steps - 1, stays there for the share `hold` of all steps (the warm-up counted), then falls
// along a half cosine or a line to final_share of it at the last step.
double learning_rate_at(const TrainSection& train, std::int64_t step);

// The steps of each curriculum stage and, last, those at the full context. Boundaries are the
// rounded cumulated shares, so that the counts add up to train.steps.
std::vector<std::int64_t> stage_steps(const TrainSection& train);

// Tokens of a window at step `step`.
std::int64_t window_length_at(const TrainSection& train, std::int64_t context, std::int64_t step);

// Windows of a step: as many as fit into batch_tokens, at least one.
std::int64_t windows_at(const TrainSection& train, std::int64_t context, std::int64_t step);

// Tokens of the steps [0, step).
std::int64_t tokens_before(const TrainSection& train, std::int64_t context, std::int64_t step);

}  // namespace phasescope::training
