#pragma once
// Write me: the question, what is measured for it and where that is from.
#include "protocol/messages/NEW_NAME.h"

namespace phasescope::analysis {

// Write me: shapes, units, errors.
protocol::NewNameResult analyse_NEW_NAME(const protocol::NewNameRequest& request);

}  // namespace phasescope::analysis
