#pragma once
#include <ATen/ATen.h>

#include "model/loss.h"

namespace phasescope::model {

// Mean cross-entropy in nats of predicting ids[:, 1:] from logits[:, :-1]; differentiable.
// logits (B, N, V), ids (B, N).
inline at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& ids) {
  return cross_entropy(logits.slice(1, 0, -1), ids.slice(1, 1));
}

}  // namespace phasescope::model
