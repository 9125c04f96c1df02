#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/attention.h"
#include "model/attention.h"

// The bridge from tensors to kernels/: float32 on the CPU.

namespace phasescope::model {

AttentionResult fused_attention(const AttentionProgram& program, const at::Tensor& v,
                                const AttentionOptions& options);

// A program as the kernels take it. Keeps every tensor alive that the pointers point into.
class KernelInputs {
 public:
  KernelInputs(const AttentionProgram& program, const at::Tensor& v);
  const kernels::AttentionInputs& inputs() const { return inputs_; }

 private:
  kernels::CapeVariant cape_variant(const CapeProgram& cape);
  at::Tensor keep(const at::Tensor& tensor);

  std::vector<at::Tensor> kept_;
  kernels::AttentionInputs inputs_;
};

// (B, H, N, d) with contiguous channels, as the kernels take them.
kernels::InputTensor input_tensor(const at::Tensor& tensor);
kernels::OutputTensor output_tensor(const at::Tensor& tensor);

// An empty (B, H, N, d) float32 tensor whose memory is (B, N, H, d), so that joining the heads is
// free.
at::Tensor empty_by_token(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                          std::int64_t channels);

}  // namespace phasescope::model
