#pragma once
// The list of verbs, in the order of the help text.
#include "app/verbs/verb.h"

namespace phasescope::app {

Verbs all_verbs();

}  // namespace phasescope::app
