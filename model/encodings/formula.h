#pragma once

#include <vector>

#include "formats/formula/formula.h"
#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry formula_entry();

// The sizes that a formula is checked against.
formula::Sizes formula_sizes(const ModelConfig& model);

// What a formula's parameters are as tensors of a layer, or of the model where they are shared.
std::vector<ParameterSpec> formula_parameters(const formula::Formula& formula, bool shared);

}  // namespace phasescope::model
