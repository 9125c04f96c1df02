#include "model/attention/fused_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "model/attention/probe_buffers.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

at::Tensor with_contiguous_channels(const at::Tensor& tensor) {
  return tensor.stride(-1) == 1 || tensor.size(-1) == 1 ? tensor : tensor.contiguous();
}

// What the kernels read a tensor of this dtype as, and write its gradient as.
at::ScalarType stored_dtype(at::ScalarType dtype) {
  return dtype == at::kBFloat16 || dtype == at::kHalf ? dtype : at::kFloat;
}

kernels::Storage storage_of(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kBFloat16) return kernels::Storage::bfloat16;
  if (dtype == at::kHalf) return kernels::Storage::float16;
  TORCH_CHECK(dtype == at::kFloat, "the kernels store no ", dtype);
  return kernels::Storage::float32;
}

// What the forward pass computes, without autograd.
AttentionResult run_forward(const AttentionProgram& program, const at::Tensor& v,
                            const AttentionOptions& options) {
  const at::NoGradGuard no_grad;
  const KernelInputs kernel(program, v);
  const kernels::AttentionShape& shape = kernel.inputs().shape;
  ProbeRequest request;
  if (options.probes != nullptr) request = in_one_pass(program, *options.probes);
  request.entropy = request.entropy || options.want_entropy;
  ProbeBuffers probes(request, shape, v.device());
  AttentionResult result;
  kernels::ForwardOutputs& outputs = probes.outputs();
  result.out =
      empty_by_token(shape.batch, shape.heads, shape.queries, shape.value_dim, v.options());
  outputs.out = output_tensor(result.out);
  if (const auto* tape = program.as<TapeProgram>()) {
    result.state =
        empty_by_token(shape.batch, shape.heads, shape.queries, tape->state.size(-1), v.options());
    outputs.out_state = output_tensor(result.state);
  }
  if (options.want_ungated && program.gate.defined()) {
    result.ungated = at::empty_like(result.out);
    outputs.ungated = output_tensor(result.ungated);
  }
  if (options.want_lse || options.want_entropy) {
    result.lse =
        at::empty({shape.batch, shape.heads, shape.queries}, v.options().dtype(at::kFloat));
    outputs.lse = static_cast<float*>(result.lse.mutable_data_ptr());
  }
  kernel.forward(outputs);
  auto measured = std::make_shared<const ProbeResult>(probes.take(ran_fused(v)));
  if (options.want_entropy) result.entropy = measured->entropy;
  if (options.probes != nullptr) result.probes = std::move(measured);
  return result;
}

// Memory for gradients, uninitialised.
struct GradientMemory {
  static float* floats(at::Tensor& tensor) {
    tensor = at::empty(tensor.sizes(), tensor.options().dtype(at::kFloat));
    return static_cast<float*>(tensor.mutable_data_ptr());
  }
  static double* doubles(at::Tensor& tensor) {
    tensor = at::empty(tensor.sizes(), tensor.options().dtype(at::kDouble));
    return static_cast<double*>(tensor.mutable_data_ptr());
  }
  static kernels::OutputTensor tokens(at::Tensor& tensor) {
    tensor = empty_by_token(tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3),
                            tensor.options().dtype(stored_dtype(tensor.scalar_type())));
    return output_tensor(tensor);
  }
};

ProgramGradients run_backward(const AttentionProgram& program, const at::Tensor& v,
                              const SavedResult& forward, const at::Tensor& d_out_given,
                              const at::Tensor& d_state_given, const AttentionOptions&) {
  const at::NoGradGuard no_grad;
  const KernelInputs kernel(program, v);
  const at::Tensor d_out =
      d_out_given.defined() ? with_contiguous_channels(d_out_given) : at::zeros_like(forward.out);
  const at::Tensor d_state =
      d_state_given.defined() ? with_contiguous_channels(d_state_given) : at::Tensor();
  kernels::SavedForward saved;
  saved.out = input_tensor(forward.out);
  if (forward.state.defined()) saved.out_state = input_tensor(forward.state);
  saved.lse = static_cast<const float*>(forward.lse.const_data_ptr());
  saved.d_out = input_tensor(d_out);
  ProgramGradients result{program, v};
  kernels::Gradients gradients;
  GradientMemory memory;
  add_gradients(result.program, result.v,
                d_state.defined() ? input_tensor(d_state) : kernels::InputTensor{}, memory,
                gradients);
  kernel.backward(saved, gradients);
  return result;
}

// v and the program's operands, in one fixed order.
torch::autograd::variable_list operands_of(const AttentionProgram& program, const at::Tensor& v) {
  torch::autograd::variable_list operands = {v};
  for_each_operand(program, [&operands](const at::Tensor& x) { operands.push_back(x); });
  return operands;
}

// Differentiable form. Passes, options and program travel beside the tensors as plain data.
class FusedAttention : public torch::autograd::Function<FusedAttention> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const AttentionPasses& passes,
                                                const AttentionOptions& options,
                                                const AttentionProgram& program,
                                                at::TensorList operands) {
    const AttentionResult result = passes.forward(program, operands[0], options);
    torch::autograd::variable_list saved = operands.vec();
    saved.push_back(result.ungated.defined() ? result.ungated : result.out);
    saved.push_back(result.lse);
    torch::autograd::variable_list outputs = {result.out, result.lse};
    if (result.state.defined()) {
      saved.push_back(result.state);
      outputs.push_back(result.state);
    }
    context->save_for_backward(std::move(saved));
    context->saved_data["program"] = c10::IValue::make_capsule(
        c10::make_intrusive<Holder>(passes, options, without_operands(program), operands.size()));
    context->mark_non_differentiable({result.lse});
    return outputs;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list incoming) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto holder =
        c10::static_intrusive_pointer_cast<Holder>(context->saved_data["program"].toCapsule());
    AttentionProgram program = holder->program;
    std::size_t next = 1;
    for_each_operand(program, [&](at::Tensor& x) { x = saved[next++]; });
    const std::size_t operands = holder->operands;
    const SavedResult forward{saved[operands], saved[operands + 1],
                              saved.size() > operands + 2 ? saved[operands + 2] : at::Tensor()};
    const at::Tensor d_state = incoming.size() > 2 ? incoming[2] : at::Tensor();
    const ProgramGradients gradients =
        holder->passes.backward(program, saved[0], forward, incoming[0], d_state, holder->options);
    // Nothing flows to the passes, the options and the program itself.
    torch::autograd::variable_list result = {at::Tensor(), at::Tensor(), at::Tensor()};
    for (at::Tensor& x : operands_of(gradients.program, gradients.v)) result.push_back(x);
    return result;
  }

 private:
  struct Holder : torch::CustomClassHolder {
    Holder(const AttentionPasses& p, const AttentionOptions& o, AttentionProgram q, std::size_t n)
        : passes(p), options(o), program(std::move(q)), operands(n) {}
    AttentionPasses passes;
    AttentionOptions options;
    AttentionProgram program;
    std::size_t operands;
  };

  // With nothing in the place of each operand: those are saved beside it, and a second reference
  // would keep them alive.
  static AttentionProgram without_operands(const AttentionProgram& program) {
    AttentionProgram bare = program;
    for_each_operand(bare, [](at::Tensor& x) { x = at::empty({0}); });
    bare.q_plain = bare.k_plain = bare.q_normed = bare.k_normed = at::Tensor();
    if (TermProgram* term = bare.term()) *term = {};
    return bare;
  }
};

}  // namespace

kernels::InputTensor input_tensor(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2),
          storage_of(tensor)};
}

kernels::AttentionShape shape_of(const AttentionProgram& program, const at::Tensor& v) {
  return {.batch = program.q.size(0),
          .heads = program.q.size(1),
          .kv_heads = program.k.size(1),
          .queries = program.q.size(2),
          .keys = program.k.size(2),
          .head_dim = program.q.size(3),
          .value_dim = v.size(3),
          .causal = program.causal,
          .query_offset = program.query_offset,
          .window = program.window};
}

at::Tensor numbered_documents(const AttentionProgram& program) {
  const at::Tensor ids = program.documents.expand({program.q.size(0), program.k.size(2)});
  if (!ids.is_cpu()) return ids.to(at::kInt).contiguous();
  return std::get<1>(at::_unique(ids, true, true)).to(at::kInt).contiguous();
}

at::Tensor documents_of_queries(const AttentionProgram& program, const at::Tensor& documents) {
  if (program.q.size(2) == documents.size(1)) return documents;
  return documents.narrow(1, program.query_offset, program.q.size(2)).contiguous();
}

kernels::CapeForm cape_form(CapeProgram::Form form) {
  switch (form) {
    case CapeProgram::Form::concat_residual:
      return kernels::CapeForm::concat_residual;
    case CapeProgram::Form::concat:
      return kernels::CapeForm::concat;
    case CapeProgram::Form::add_residual:
      return kernels::CapeForm::add_residual;
    case CapeProgram::Form::content:
      return kernels::CapeForm::content;
  }
  return kernels::CapeForm::concat_residual;
}

kernels::OutputTensor output_tensor(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2),
          storage_of(tensor)};
}

at::Tensor empty_by_token(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                          std::int64_t channels, const at::TensorOptions& options) {
  return at::empty({batch, rows, heads, channels}, options).transpose(1, 2);
}

ProbeRequest in_one_pass(const AttentionProgram& program, const ProbeRequest& request) {
  ProbeRequest result = request;
  if (program.transformed) result.content = result.term = false;
  return result;
}

KernelInputs::KernelInputs(const AttentionProgram& program, const at::Tensor& v)
    : has_numbers_(!v.is_meta()) {
  fill_inputs(program, v, operands_, inputs_);
}

void KernelInputs::forward(const kernels::ForwardOutputs& outputs) const {
  if (!has_numbers_) return;
  const KernelAccess access;
  kernels::attention_forward(inputs_, outputs);
}

void KernelInputs::backward(const kernels::SavedForward& saved,
                            const kernels::Gradients& gradients) const {
  if (!has_numbers_) return;
  const KernelAccess access;
  kernels::attention_backward(inputs_, saved, gradients);
}

void KernelInputs::map(const float* lse, const kernels::Region& region,
                       const kernels::MapOutputs& outputs) const {
  if (!has_numbers_) return;
  const KernelAccess access;
  kernels::attention_map(inputs_, lse, region, outputs);
}

void KernelInputs::region(const float* lse, const kernels::Region& region, float* scores,
                          float* weights) const {
  if (!has_numbers_) return;
  const KernelAccess access;
  kernels::attention_region(inputs_, lse, region, scores, weights);
}

void KernelInputs::score_sums(const kernels::ScoreSums& sums) const {
  if (!has_numbers_) return;
  const KernelAccess access;
  kernels::attention_score_sums(inputs_, sums);
}

kernels::InputTensor HostOperands::tokens(const at::Tensor& tensor) {
  kept_.push_back(with_contiguous_channels(tensor.to(stored_dtype(tensor.scalar_type()))));
  return input_tensor(kept_.back());
}

AttentionProgram with_float_tables(const AttentionProgram& program) {
  AttentionProgram result = program;
  for_each_tensor(result, [](const TensorInfo& info, at::Tensor& tensor) {
    const bool kept = info.numbers == Numbers::tokens || info.numbers == Numbers::sums;
    if (!kept && tensor.defined()) tensor = tensor.to(at::kFloat);
  });
  return result;
}

AttentionProgram in_dtype(const AttentionProgram& program, at::ScalarType dtype) {
  AttentionProgram result = program;
  for_each_tensor(result, [dtype](const TensorInfo& info, at::Tensor& tensor) {
    if (!tensor.defined() || info.numbers == Numbers::sums) return;
    tensor = tensor.to(info.numbers == Numbers::table ? table_dtype(dtype) : dtype);
  });
  // One copy where they are the same.
  result.q_plain = program.transformed ? program.q_plain.to(dtype) : result.q;
  result.k_plain = program.transformed ? program.k_plain.to(dtype) : result.k;
  for (at::Tensor* x : {&result.q_normed, &result.k_normed}) {
    if (x->defined()) *x = x->to(dtype);
  }
  return result;
}

AttentionResult fused_attention(const AttentionProgram& program, const at::Tensor& v,
                                const AttentionOptions& options) {
  return run_passes({&run_forward, &run_backward}, with_float_tables(program), v, options);
}

AttentionResult run_passes(const AttentionPasses& passes, const AttentionProgram& program,
                           const at::Tensor& v, const AttentionOptions& options) {
  if (!at::GradMode::is_enabled()) return passes.forward(program, v, options);
  AttentionProgram given = program;
  expand_operands(given);
  const torch::autograd::variable_list operands = operands_of(given, v);
  const AttentionOptions kept{.backend = options.backend,
                              .atomic_dq = options.atomic_dq,
                              .want_lse = true,
                              .want_ungated = true};
  const torch::autograd::variable_list outputs =
      FusedAttention::apply(passes, kept, given, at::TensorList(operands));
  AttentionResult result{
      outputs[0], outputs.size() > 2 ? outputs[2] : at::Tensor(), outputs[1], {}, {}, {}};
  if (options.want_entropy) {
    result.entropy =
        passes.forward(program, v, {.backend = options.backend, .want_entropy = true}).entropy;
  }
  return result;
}

}  // namespace phasescope::model
