#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "model/checkpoints/weights.h"
#include "model/config.h"

namespace phasescope::model {

// Several residual streams (AltUp, arXiv 2301.13310, Algorithm 1, as Gemma 3n has it): one of them
// runs through each layer, which predicts all and corrects the others by what it did not foresee.
// Streams are (S, B, N, C), of the dtype of what they are made of. Differentiable.

// The embedding's output x (B, N, C) as the first stream, and projections of it, each with the
// first's root mean square at every token, as the others.
at::Tensor begin_streams(const Weights& weights, const at::Tensor& x,
                         std::optional<at::ScalarType> product_dtype);

// What the layer's coefficients, tanh of a projection of the active stream, make of all streams.
at::Tensor predicted_streams(const ModelConfig& config, const LayerWeights& weights,
                             const at::Tensor& streams,
                             std::optional<at::ScalarType> product_dtype);

// The predicted streams, moved by the difference between `result` (B, N, C), what the layer made of
// the active one, and its prediction.
at::Tensor corrected_streams(const ModelConfig& config, const LayerWeights& weights,
                             const at::Tensor& predicted, const at::Tensor& result,
                             std::optional<at::ScalarType> product_dtype);

// The mean of the first stream and of the others' projections, scaled as at the beginning:
// (B, N, C).
at::Tensor joined_streams(const Weights& weights, const at::Tensor& streams,
                          std::optional<at::ScalarType> product_dtype);

}  // namespace phasescope::model
