#pragma once
// What a layer's scores would be if its tokens stood elsewhere: the control of whatever is said of
// distances.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "analysis/text_pass.h"

namespace phasescope::analysis {

// An order of a text's tokens, drawn on the host: (N) int64 there and where the model is. A text's
// layers share it, so that a device gets it before they run.
struct TokenOrder {
  at::Tensor here, there;
};
TokenOrder shuffled_order(std::int64_t tokens, std::uint64_t seed, const at::Device& device);

// The same layer of the same q and k, with the position ids of its tokens in another order: a key
// before its query may then be at a negative distance. Scores alone mean something in the result,
// and every query sees every key. Empty where the encoding does not make the layer's own scores
// from its q and k and the position ids alone (layers that update the positions).
std::optional<model::LayerAttention> with_positions_shuffled(const model::Model& model,
                                                             const model::LayerAttention& attention,
                                                             const TokenOrder& order);

}  // namespace phasescope::analysis
