#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry ape_tree_entry();

}  // namespace phasescope::model
