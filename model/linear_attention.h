#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "model/checkpoints/weights.h"
#include "model/config.h"

namespace phasescope::model {

// What a layer of linear attention keeps of the tokens before; undefined where there are none.
struct LinearState {
  at::Tensor state;  // S, (B, heads, d_k, d_v)
  at::Tensor last;   // (B, kernel - 1, channels), what the convolution reads of the last tokens
};

// Each channel's weighted sum over the last `kernel` tokens: x (B, N, C), weight (C, kernel), whose
// last number is the token's own. `last` (B, kernel - 1, C): the tokens before x, which become its
// last ones; undefined where there are none.
at::Tensor causal_convolution(const at::Tensor& x, const at::Tensor& weight, at::Tensor& last);

// A layer of the gated delta rule (arXiv 2412.06464, Eq. 10) as Qwen3-Next has it: x (B, N, C) to
// (B, N, C) of dtype `out`, C as the layer's output projection gives it. u = silu of the causal
// convolution of q, k and v; S_n = a_n S_{n-1} + k_n b_n (v_n - a_n S_{n-1}^T k_n)^T, o_n = S_n^T
// q_n with q and k of length 1, q / sqrt(d_k). There are no weights of pairs, so nothing maps it.
// Token by token: the definition, and more accurate in float32 than the usual blocks of 64.
// `present` (B, N) bool, false for padding, whose input counts as 0; undefined: all. `kept`: of the
// tokens before these, and afterwards with them; null where these are the text.
at::Tensor linear_attention(const ModelConfig& config, const LayerWeights& weights,
                            const at::Tensor& x, const at::Tensor& present,
                            std::optional<at::ScalarType> product_dtype, at::ScalarType out,
                            LinearState* kept = nullptr);

}  // namespace phasescope::model
