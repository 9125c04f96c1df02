#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <vector>

#include "kernels/attention.h"
#include "model/attention/attention.h"
#include "model/attention/kernel_variant.h"

// The bridge from tensors to kernels/ on the CPU: float32 arithmetic on float32 or 16-bit tensors,
// which are read and written as they are. Tables and the correction's weights come as float32.

namespace phasescope::model {

// Results in v's dtype, log-sum-exp and probes in float32; does not name the kernel.
AttentionResult fused_attention(const AttentionProgram& program, const at::Tensor& v,
                                const AttentionOptions& options);

// What a forward pass leaves for the backward one.
struct SavedResult {
  at::Tensor out, lse, state;  // `out` before a gate
};

// What a pass of the CPU kernel measures of a request: no sums of content scores and terms where q
// and k were rotated, which leaves ProbeResult::bucket_content and the like undefined.
ProbeRequest in_one_pass(const AttentionProgram& program, const ProbeRequest& request);

// Gradients in the place of the tensors that they are of: of a program's operands
// (for_each_operand) and of v.
struct ProgramGradients {
  AttentionProgram program;
  at::Tensor v;
};

// One implementation of the two passes, both without autograd.
struct AttentionPasses {
  AttentionResult (*forward)(const AttentionProgram& program, const at::Tensor& v,
                             const AttentionOptions& options);
  ProgramGradients (*backward)(const AttentionProgram& program, const at::Tensor& v,
                               const SavedResult& forward, const at::Tensor& d_out,
                               const at::Tensor& d_state);
};

// The passes as one differentiable operation, where gradients are wanted.
AttentionResult run_passes(const AttentionPasses& passes, const AttentionProgram& program,
                           const at::Tensor& v, const AttentionOptions& options);

// Sizes and mask of a program.
kernels::AttentionShape shape_of(const AttentionProgram& program, const at::Tensor& v);
// (B, M) int32 contiguous, the program's documents counted from 0: ids of 64 bits do not fit. On a
// device they are counted already (ForwardOptions::document_ids). And those of its queries, (B, N)
// contiguous; the same tensor where all tokens are.
at::Tensor numbered_documents(const AttentionProgram& program);
at::Tensor documents_of_queries(const AttentionProgram& program, const at::Tensor& documents);
// The program with its tables and the correction's weights in float32; gradients flow through.
AttentionProgram with_float_tables(const AttentionProgram& program);

// The program with every tensor that scores are computed from in `dtype`; gradients flow through.
AttentionProgram in_dtype(const AttentionProgram& program, at::ScalarType dtype);

// A program as the kernels take it. Keeps all alive that the pointers point into, so that the
// program itself may go.
class KernelInputs {
 public:
  KernelInputs(const AttentionProgram& program, const at::Tensor& v);
  KernelInputs(const KernelInputs&) = delete;
  KernelInputs& operator=(const KernelInputs&) = delete;
  const kernels::AttentionInputs& inputs() const { return inputs_; }

  // The passes of kernels/attention.h, on tensors in the host's memory. Those of LibTorch's meta
  // device have shapes alone, and nothing runs.
  void forward(const kernels::ForwardOutputs& outputs) const;
  void backward(const kernels::SavedForward& saved, const kernels::Gradients& gradients) const;
  void map(const float* lse, const kernels::Region& region,
           const kernels::MapOutputs& outputs) const;
  void region(const float* lse, const kernels::Region& region, float* scores, float* weights) const;
  void score_sums(const kernels::ScoreSums& sums) const;

 private:
  friend struct VariantOf<KernelInputs>;
  friend kernels::TokenTerms token_terms_of<KernelInputs>(const AttentionProgram& program,
                                                          KernelInputs& memory);
  // As it is stored; all but tokens in float32.
  kernels::InputTensor tokens(const at::Tensor& tensor);
  const float* floats(const at::Tensor& tensor);
  const double* doubles(const at::Tensor& tensor);
  const std::int64_t* integers(const std::vector<std::int64_t>& values) {
    kept_integers_.push_back(values);
    return kept_integers_.back().data();
  }

  bool has_numbers_ = true;
  std::vector<at::Tensor> kept_;
  std::deque<std::vector<std::int64_t>> kept_integers_;
  kernels::AttentionInputs inputs_;
};

// (B, H, N, d) with contiguous channels, as the kernels take them.
kernels::InputTensor input_tensor(const at::Tensor& tensor);
kernels::OutputTensor output_tensor(const at::Tensor& tensor);

// An empty (B, H, N, d) tensor whose memory is (B, N, H, d), so that joining the heads is free.
at::Tensor empty_by_token(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                          std::int64_t channels, const at::TensorOptions& options);

}  // namespace phasescope::model
