#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry ape_sequence_entry();

}  // namespace phasescope::model
