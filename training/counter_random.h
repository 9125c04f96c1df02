#pragma once

#include "analysis/counter_random.h"

namespace phasescope::training {

using analysis::CounterRandom;

}  // namespace phasescope::training
