#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "model/decoder.h"

namespace phasescope::model {

// A hook under which layers may run again for their gradients (ForwardOptions::recompute), where
// under others their MLPs alone do: before() and after() are called with each run of a layer, and
// do the second time what they did the first.
class RepeatableHook : public AttentionHook {};

// Tensors from tensors; called again with others of the same shapes, and must then do the same.
// What it reads beside its arguments is leaves of the graph, or what nothing else is computed from.
using TensorFunction =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// What `compute` makes of `inputs`, of whose steps nothing is kept: for its gradients it runs
// again, with the random numbers that it drew before. Bits are those of compute(inputs).
std::vector<at::Tensor> recomputed(const TensorFunction& compute,
                                   const std::vector<at::Tensor>& inputs);

}  // namespace phasescope::model
