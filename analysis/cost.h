#pragma once
// What one forward pass costs: multiply-accumulates, FLOPs, parameters, memory.
#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "protocol/messages/cost.h"

namespace phasescope::analysis {

// Counts a forward pass of `length` tokens from the configuration alone. Two conventions:
// `published` are those of TAPE's Table 3 (arXiv 2501.00712): full N x N attention, head not tied,
// TAPE's state as two value streams of full width, its post-attention linear left out, parameters
// of the text in units of 2^20 when printed; `executed` counts what runs here: the pairs that a
// query sees (causal or both ways, in local layers within the window), TAPE's
// state in one stream of head width, every matrix. FLOPs are 2 a multiply-accumulate, plus what the
// encoding does to each score. In an encoder-decoder each stack reads `length` tokens and has parts
// of its own, "encoder: ...", "decoder: ..." and "cross attention: ...", the last of which has all
// pairs of a decoder's and an encoder's token in both conventions. Throws Error "bad_input" for a
// configuration that cannot be, "not_applicable" for one with parts that are not counted (experts,
// latent attention, layers with sizes of their own and the like).
protocol::CostResult analyse_cost(const model::ModelConfig& config, const std::string& name,
                                  std::int64_t length);

}  // namespace phasescope::analysis
