#pragma once
// Jensen-Shannon divergence between the rows of heads, without keeping their maps.
#include <ATen/core/Tensor.h>

#include "analysis/text_pass.h"

namespace phasescope::analysis {

// (H, N): the divergence of each row of head h of `a` and head h of `b`, nats, for the heads that
// both have. Lengths must be equal.
at::Tensor divergence_of(const model::LayerAttention& a, const model::LayerAttention& b);

// (L H, L H), symmetric with zeros on its diagonal: every two heads of a model on one text.
at::Tensor divergence_within(TextPass& pass, Stack stack = Stack::main);

}  // namespace phasescope::analysis
