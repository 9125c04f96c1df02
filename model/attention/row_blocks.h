#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace phasescope::model {

// Rows [begin, end) of some tensors, whose dimension 2 counts rows; some may be undefined, the same
// of every block. Called again with the same range it gives the same numbers.
using RowFunction = std::function<std::vector<at::Tensor>(std::int64_t begin, std::int64_t end)>;

// What `compute` gives of `rows` rows, `step` at a time, joined. Of one block its own tensors are
// handed on. Of several, no step of the computation is kept where gradients are wanted: a block
// runs again for its gradients, one after the other, so that memory is that of one block and grows
// with the rows alone. Gradients reach all that `compute` reads, whether or not it is a leaf; there
// are none of gradients.
std::vector<at::Tensor> in_row_blocks(const RowFunction& compute, std::int64_t rows,
                                      std::int64_t step);

}  // namespace phasescope::model
