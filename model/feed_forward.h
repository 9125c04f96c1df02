#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "model/checkpoints/weights.h"
#include "model/config.h"

namespace phasescope::model {

// What an activation makes of x, by its name in known_activations().
at::Tensor activated(const at::Tensor& x, const std::string& name);

// x W^T + b, the product in `product_dtype` where that is asked for; the result stays in that
// dtype.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   std::optional<at::ScalarType> product_dtype);

// cap tanh(x / cap); x where there is no cap.
at::Tensor soft_capped(const at::Tensor& x, double cap);

// A layer's MLP, of experts where the layer has some: x (B, N, C) to (B, N, C) of dtype `out`. The
// router chooses in the dtype of its product, so that a near tie may fall otherwise in another
// dtype. Differentiable; the choice itself has no gradient. `sparsity` is LayerGroup::sparsity, of
// a plain MLP.
at::Tensor feed_forward(const ModelConfig& config, const LayerWeights& weights, const at::Tensor& x,
                        std::optional<at::ScalarType> product_dtype, at::ScalarType out,
                        double sparsity = 0);

// Where experts stand beside the MLP: the sum of both, each behind its norm, from the stream (B, N,
// C) that the layer's MLP reads through its own norm and from what that gave.
at::Tensor experts_beside(const ModelConfig& config, const LayerWeights& weights,
                          const at::Tensor& stream, const at::Tensor& of_mlp,
                          std::optional<at::ScalarType> product_dtype);

// Which experts each token has, and with which weights, both (tokens, per_token): x (tokens, C).
struct ChosenExperts {
  at::Tensor experts;  // int64
  at::Tensor weights;
  at::Tensor shared;  // (tokens, shared_count), of those that all have; undefined without
};
ChosenExperts choose_experts(const ExpertsConfig& config, const LayerWeights& weights,
                             const at::Tensor& x, std::optional<at::ScalarType> product_dtype);

}  // namespace phasescope::model
