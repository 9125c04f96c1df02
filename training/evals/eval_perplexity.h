#pragma once

#include "training/evals/eval_task.h"

namespace phasescope::training {

// Bits a byte (or perplexity) of text against the length read, and the loss by position in the
// windows of the largest length.
EvalTask perplexity_task();

}  // namespace phasescope::training
