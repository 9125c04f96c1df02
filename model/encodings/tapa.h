#pragma once

#include "model/checkpoints/weights.h"
#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry tapa_entry();

// Multiplies the phase rows of the query and key projections by the configuration's phase_gain and
// sets that to 1: the same model, as the paper writes it. Weights are replaced, not changed in
// place. Does nothing where there is no gain, or a norm that makes it moot.
void fold_phase_gain(ModelConfig& config, Weights& weights);

}  // namespace phasescope::model
