#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry ape_periodic_entry();

}  // namespace phasescope::model
