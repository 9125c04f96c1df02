#pragma once
// Jensen-Shannon divergence between the rows of heads, without keeping their maps.
#include <ATen/core/Tensor.h>

#include <vector>

#include "analysis/text_pass.h"

namespace phasescope::analysis {

// (H, N): the divergence of each row of head h of `a` and head h of `b`, nats, for the heads that
// both have. Lengths must be equal. `progress`, here and below: who hears of it and may cancel;
// null for nobody.
at::Tensor divergence_of(const model::LayerAttention& a, const model::LayerAttention& b,
                         protocol::Progress* progress = nullptr);

// (heads, heads), symmetric with zeros on its diagonal: every two heads that there are on one text,
// in the order of layers, mean over rows.
at::Tensor divergence_within(TextPass& pass, Stack stack = Stack::main,
                             protocol::Progress* progress = nullptr);

// (heads, heads): every head of one model's layers beside every head of another's, in their order,
// mean over rows. Lengths must be equal.
at::Tensor divergence_between(const std::vector<AttentionPointer>& a,
                              const std::vector<AttentionPointer>& b,
                              protocol::Progress* progress = nullptr);

}  // namespace phasescope::analysis
