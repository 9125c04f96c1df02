#pragma once

#include "formats/counter_random.h"

namespace phasescope::analysis {

using formats::CounterRandom;

}  // namespace phasescope::analysis
