#pragma once

#include <ATen/core/Tensor.h>

#include "model/decoder.h"

namespace phasescope::model {

// Mean cross-entropy in nats of given targets (B, N) int64, negative ones left out; logits (B, N,
// V). Of each target's chance the share `smoothing` is spread evenly over all V ids, its own among
// them (arXiv 1512.00567, Section 7).
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double smoothing = 0);

// Loss in nats of each predicted token, (B, N - 1): entry n is that of token n + 1. The last of the
// ids is a target alone and is not read, so that N - 1 losses take N - 1 positions; whatever the
// options give token by token is of those N - 1. (An encoder-decoder reads all N, its decoder one
// token later.) Throws Error "bad_input" for models that see both ways or have no head. Logits are
// made for a few rows at a time, so that (N, V) never exists.
at::Tensor token_losses(const Decoder& decoder, const at::Tensor& ids,
                        const ForwardOptions& options = {}, Observer* observer = nullptr);

// token_losses() from hidden() of these ids, or of all but the last.
at::Tensor token_losses_of(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& ids,
                           const ForwardOptions& options = {});

}  // namespace phasescope::model
