#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// RoFormer: a BERT with rope, whose table of sines is in the file.
Family roformer_family();

}  // namespace phasescope::model
