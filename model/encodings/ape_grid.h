#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry ape_grid_entry();

}  // namespace phasescope::model
