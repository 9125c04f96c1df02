#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <variant>
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
  // Of the options what says how it runs: backend and atomic_dq.
  ProgramGradients (*backward)(const AttentionProgram& program, const at::Tensor& v,
                               const SavedResult& forward, const at::Tensor& d_out,
                               const at::Tensor& d_state, const AttentionOptions& options);
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

// The types that fill_inputs() asks a memory's numbers(tensor, dtype) for.
template <class Memory>
struct TypedNumbers {
  const float* floats(const at::Tensor& tensor) { return numbers<float>(tensor, at::kFloat); }
  const double* doubles(const at::Tensor& tensor) { return numbers<double>(tensor, at::kDouble); }
  const std::uint8_t* flags(const at::Tensor& tensor) {
    return numbers<std::uint8_t>(tensor, at::kBool);
  }
  const std::int32_t* counts(const at::Tensor& tensor) {
    return numbers<std::int32_t>(tensor, at::kInt);
  }

 private:
  template <typename T>
  const T* numbers(const at::Tensor& tensor, at::ScalarType dtype) {
    return static_cast<Memory&>(*this).template numbers<T>(tensor, dtype);
  }
};

// A program and v in the words of kernels/attention.h, on either processor. Memory: as for
// VariantOf and token_terms_of, and flags(tensor) -> const std::uint8_t*, counts(tensor) -> const
// std::int32_t*, likewise.
template <class Memory>
void fill_inputs(const AttentionProgram& program, const at::Tensor& v, Memory& memory,
                 kernels::AttentionInputs& inputs) {
  inputs.shape = shape_of(program, v);
  inputs.q = memory.tokens(program.q);
  inputs.k = memory.tokens(program.k);
  inputs.v = memory.tokens(v);
  inputs.scale = static_cast<float>(program.scale);
  inputs.soft_cap = static_cast<float>(program.soft_cap);
  inputs.variant = std::visit(VariantOf<Memory>{program, memory}, program.variant);
  inputs.tokens = token_terms_of(program, memory);
  if (program.sinks.defined()) inputs.sinks = memory.floats(program.sinks);
  if (program.gate.defined()) {
    inputs.gate = memory.tokens(program.gate);
    inputs.gate_dim = program.gate.size(3);
  }
  if (program.key_mask.defined()) {
    inputs.key_mask =
        memory.flags(program.key_mask.expand({inputs.shape.batch, inputs.shape.keys}));
  }
  if (program.documents.defined()) {
    const at::Tensor documents = numbered_documents(program);
    const at::Tensor of_queries = documents_of_queries(program, documents);
    inputs.key_documents = memory.counts(documents);
    inputs.query_documents =
        of_queries.is_same(documents) ? inputs.key_documents : memory.counts(of_queries);
  }
}

// What fill_inputs() makes of tensors in the host's memory, as they are stored; all but tokens in
// the type that is asked for. Keeps what the pointers point into.
class HostOperands : public TypedNumbers<HostOperands> {
 public:
  kernels::InputTensor tokens(const at::Tensor& tensor);
  const std::int64_t* integers(const std::vector<std::int64_t>& values) {
    kept_integers_.push_back(values);
    return kept_integers_.back().data();
  }
  template <typename T>
  const T* numbers(const at::Tensor& tensor, at::ScalarType dtype) {
    kept_.push_back(tensor.to(dtype).contiguous());
    return static_cast<const T*>(kept_.back().const_data_ptr());
  }

 private:
  std::vector<at::Tensor> kept_;
  std::deque<std::vector<std::int64_t>> kept_integers_;
};

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
  bool has_numbers_ = true;
  HostOperands operands_;
  kernels::AttentionInputs inputs_;
};

// (B, H, N, d) with contiguous channels, as the kernels take them.
kernels::InputTensor input_tensor(const at::Tensor& tensor);
kernels::OutputTensor output_tensor(const at::Tensor& tensor);

// An empty (B, H, N, d) tensor whose memory is (B, N, H, d), so that joining the heads is free.
at::Tensor empty_by_token(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                          std::int64_t channels, const at::TensorOptions& options);

}  // namespace phasescope::model
