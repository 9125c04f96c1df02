#pragma once
// The list of verbs, in the order of the help text.
#include <memory>
#include <vector>

#include "app/verbs/verb.h"

namespace phasescope::app {

std::vector<std::unique_ptr<Verb>> all_verbs();

}  // namespace phasescope::app
