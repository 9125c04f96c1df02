#pragma once
// One instantiation of a kernel a file; each picks the target it runs on.

#include "kernels/attention.h"

namespace phasescope::kernels {

using ForwardEntry = void(const AttentionInputs&, const ForwardOutputs&, bool probes);
ForwardEntry forward_plain, forward_plain_tokens, forward_table, forward_table_multiplied,
    forward_table_tokens, forward_tapa, forward_tapa_linear, forward_tape, forward_cape,
    forward_fire, forward_query_table, forward_clamp;
/// inputs: LaneInputs (heads_in_lanes.h).
ForwardEntry forward_lanes;

using BackwardEntry = void(const AttentionInputs&, const SavedForward&, const Gradients&);
BackwardEntry backward_plain, backward_plain_tokens, backward_table, backward_table_multiplied,
    backward_table_tokens, backward_tapa, backward_tapa_linear, backward_tape, backward_cape,
    backward_fire, backward_query_table, backward_clamp;

struct RegionCall;
using RegionEntry = void(const RegionCall&);
RegionEntry region_plain, region_plain_tokens, region_table, region_table_multiplied,
    region_table_tokens, region_tapa, region_tapa_linear, region_cape, region_fire,
    region_query_table, region_clamp;

}  // namespace phasescope::kernels
