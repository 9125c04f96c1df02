#include "model/attention/fused_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "model/attention/probe_buffers.h"

namespace phasescope::model {
namespace {

using Kind = AttentionProgram::Kind;

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
  ProbeBuffers probes(request, shape);
  AttentionResult result;
  kernels::ForwardOutputs& outputs = probes.outputs();
  result.out =
      empty_by_token(shape.batch, shape.heads, shape.queries, shape.value_dim, v.scalar_type());
  outputs.out = output_tensor(result.out);
  if (program.kind == Kind::tape) {
    result.state = empty_by_token(shape.batch, shape.heads, shape.queries,
                                  program.tape.state.size(-1), v.scalar_type());
    outputs.out_state = output_tensor(result.state);
  }
  if (options.want_lse || options.want_entropy) {
    result.lse = at::empty({shape.batch, shape.heads, shape.queries}, at::kFloat);
    outputs.lse = result.lse.mutable_data_ptr<float>();
  }
  kernels::attention_forward(kernel.inputs(), outputs);
  auto measured = std::make_shared<const ProbeResult>(probes.take(ran_fused(v)));
  if (options.want_entropy) result.entropy = measured->entropy;
  if (options.probes != nullptr) result.probes = std::move(measured);
  return result;
}

// The tensors of a program that gradients flow to, in one fixed order; undefined where the kind
// has none.
enum Operand {
  kQ,
  kK,
  kV,
  kState,
  kValues,
  kW1,
  kB1,
  kW2,
  kB2,
  kDistance,
  kFactor,
  kSlope,
  kIntercept,
  kOperands
};

AttentionProgram with_operands(const AttentionProgram& program,
                               const torch::autograd::variable_list& x) {
  AttentionProgram result = program;
  result.q = x[kQ];
  result.k = x[kK];
  result.tape.state = x[kState];
  result.table.values = program.kind == Kind::table ? x[kValues] : at::Tensor();
  result.cape.values = program.kind == Kind::cape ? x[kValues] : at::Tensor();
  result.cape.w1 = x[kW1];
  result.cape.b1 = x[kB1];
  result.cape.w2 = x[kW2];
  result.cape.b2 = x[kB2];
  result.fire.distance = x[kDistance];
  result.fire.factor = x[kFactor];
  result.fire.slope = x[kSlope];
  result.fire.intercept = x[kIntercept];
  return result;
}

// An uninitialised one for the gradient of `like`, contiguous, and where it lies.
float* make_buffer(at::Tensor& buffer, const at::Tensor& like) {
  buffer = at::empty_like(like, at::MemoryFormat::Contiguous);
  return buffer.mutable_data_ptr<float>();
}

kernels::FireGradients fire_gradients(const FireProgram& fire, GradientBuffers& buffers) {
  return {.distance = make_buffer(buffers.distance, fire.distance),
          .factor = make_buffer(buffers.factor, fire.factor),
          .slope = make_buffer(buffers.slope, fire.slope),
          .intercept = make_buffer(buffers.intercept, fire.intercept),
          .head_stride = fire.slope.size(1)};
}

kernels::VariantGradients variant_gradients(const AttentionProgram& program,
                                            const at::Tensor& d_state, GradientBuffers& buffers) {
  if (program.kind == Kind::table) {
    return kernels::TableGradients{make_buffer(buffers.values, program.table.values),
                                   program.table.values.size(1)};
  }
  if (program.kind == Kind::fire) {
    return fire_gradients(program.fire, buffers);
  }
  if (program.kind == Kind::tape) {
    const at::Tensor& q = program.q;
    const at::Tensor& state = program.tape.state;
    buffers.state = empty_by_token(q.size(0), q.size(1), q.size(2), state.size(-1),
                                   stored_dtype(state.scalar_type()));
    kernels::TapeGradients gradients;
    if (d_state.defined()) gradients.d_out_state = input_tensor(d_state);
    gradients.d_state = output_tensor(buffers.state);
    return gradients;
  }
  if (program.kind != Kind::cape) return std::monostate{};
  const CapeProgram& cape = program.cape;
  kernels::CapeGradients gradients;
  if (cape.values.defined()) {
    gradients.values = make_buffer(buffers.values, cape.values);
    gradients.head_stride = cape.values.size(1);
  }
  gradients.w1 = make_buffer(buffers.w1, cape.w1);
  gradients.b1 = make_buffer(buffers.b1, cape.b1);
  gradients.w2 = make_buffer(buffers.w2, cape.w2);
  gradients.b2 = make_buffer(buffers.b2, cape.b2);
  if (program.fire.slope.defined()) gradients.fire = fire_gradients(program.fire, buffers);
  return gradients;
}

GradientBuffers run_backward(const AttentionProgram& program, const at::Tensor& v,
                             const SavedResult& forward, const at::Tensor& d_out_given,
                             const at::Tensor& d_state_given) {
  const at::NoGradGuard no_grad;
  const KernelInputs kernel(program, v);
  const kernels::AttentionShape& shape = kernel.inputs().shape;
  GradientBuffers gradients;
  gradients.dq = empty_by_token(shape.batch, shape.heads, shape.queries, shape.head_dim,
                                stored_dtype(program.q.scalar_type()));
  gradients.dk = empty_by_token(shape.batch, shape.kv_heads, shape.keys, shape.head_dim,
                                stored_dtype(program.k.scalar_type()));
  gradients.dv =
      empty_by_token(shape.batch, shape.kv_heads, shape.keys, shape.value_dim, v.scalar_type());
  const at::Tensor d_out =
      d_out_given.defined() ? with_contiguous_channels(d_out_given) : at::zeros_like(forward.out);
  const at::Tensor d_state =
      d_state_given.defined() ? with_contiguous_channels(d_state_given) : at::Tensor();
  kernels::SavedForward saved;
  saved.out = input_tensor(forward.out);
  if (forward.state.defined()) saved.out_state = input_tensor(forward.state);
  saved.lse = forward.lse.const_data_ptr<float>();
  saved.d_out = input_tensor(d_out);
  kernels::Gradients outputs;
  outputs.dq = output_tensor(gradients.dq);
  outputs.dk = output_tensor(gradients.dk);
  outputs.dv = output_tensor(gradients.dv);
  outputs.variant = variant_gradients(program, d_state, gradients);
  kernels::attention_backward(kernel.inputs(), saved, outputs);
  return gradients;
}

// Differentiable form. Passes and program travel beside the tensors as plain data.
class FusedAttention : public torch::autograd::Function<FusedAttention> {
 public:
  // Optional: autograd does not take undefined tensors.
  using Maybe = std::optional<at::Tensor>;

  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const AttentionPasses& passes,
                                                const AttentionProgram& program, at::Tensor q,
                                                at::Tensor k, at::Tensor v, Maybe state,
                                                Maybe values, Maybe w1, Maybe b1, Maybe w2,
                                                Maybe b2, Maybe distance, Maybe factor, Maybe slope,
                                                Maybe intercept) {
    const AttentionResult result = passes.forward(program, v, {.want_lse = true});
    torch::autograd::variable_list saved = {q, k, v};
    for (const Maybe* operand :
         {&state, &values, &w1, &b1, &w2, &b2, &distance, &factor, &slope, &intercept}) {
      saved.push_back(operand->value_or(at::Tensor()));
    }
    saved.push_back(result.out);
    saved.push_back(result.lse);
    torch::autograd::variable_list outputs = {result.out, result.lse};
    if (result.state.defined()) {
      saved.push_back(result.state);
      outputs.push_back(result.state);
    }
    context->save_for_backward(std::move(saved));
    // Without the tensors: those are saved above, and a second reference would keep them alive.
    AttentionProgram bare = with_operands(program, torch::autograd::variable_list(kOperands));
    bare.q_plain = bare.k_plain = at::Tensor();
    bare.term = {};
    context->saved_data["program"] =
        c10::IValue::make_capsule(c10::make_intrusive<Holder>(passes, std::move(bare)));
    context->mark_non_differentiable({result.lse});
    return outputs;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list incoming) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto holder =
        c10::static_intrusive_pointer_cast<Holder>(context->saved_data["program"].toCapsule());
    const AttentionProgram program = with_operands(holder->program, saved);
    SavedResult forward{saved[kOperands], saved[kOperands + 1],
                        saved.size() > kOperands + 2 ? saved[kOperands + 2] : at::Tensor()};
    const at::Tensor d_state = incoming.size() > 2 ? incoming[2] : at::Tensor();
    GradientBuffers gradients =
        holder->passes.backward(program, saved[kV], forward, incoming[0], d_state);
    return {at::Tensor(),     at::Tensor(),    gradients.dq,       gradients.dk,
            gradients.dv,     gradients.state, gradients.values,   gradients.w1,
            gradients.b1,     gradients.w2,    gradients.b2,       gradients.distance,
            gradients.factor, gradients.slope, gradients.intercept};
  }

 private:
  struct Holder : torch::CustomClassHolder {
    Holder(const AttentionPasses& p, AttentionProgram q) : passes(p), program(std::move(q)) {}
    AttentionPasses passes;
    AttentionProgram program;
  };
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
          .query_offset = 0,
          .window = program.window};
}

at::Tensor numbered_documents(const AttentionProgram& program) {
  const at::Tensor ids = program.documents.expand({program.q.size(0), program.k.size(2)});
  return std::get<1>(at::_unique(ids, true, true)).to(at::kInt).contiguous();
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

// Of tensors that are float32 and contiguous.
kernels::TapaVariant tapa_variant(const TapaProgram& tapa) {
  return {.content_dim = tapa.content_dim,
          .scale_content = static_cast<float>(tapa.scale_content),
          .scale_phase = static_cast<float>(tapa.scale_phase),
          .phase = tapa.linear_phase ? kernels::TapaPhase::linear : kernels::TapaPhase::quadratic,
          .power_length = tapa.power.size(0)};
}

kernels::OutputTensor output_tensor(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2),
          storage_of(tensor)};
}

at::Tensor empty_by_token(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                          std::int64_t channels, at::ScalarType dtype) {
  return at::empty({batch, rows, heads, channels}, dtype).transpose(1, 2);
}

ProbeRequest in_one_pass(const AttentionProgram& program, const ProbeRequest& request) {
  ProbeRequest result = request;
  if (program.transformed) result.content = result.term = false;
  return result;
}

KernelInputs::KernelInputs(const AttentionProgram& program, const at::Tensor& v) {
  inputs_.shape = shape_of(program, v);
  inputs_.q = input_tensor(keep(program.q));
  inputs_.k = input_tensor(keep(program.k));
  inputs_.v = input_tensor(keep(v));
  inputs_.scale = static_cast<float>(program.scale);
  inputs_.soft_cap = static_cast<float>(program.soft_cap);
  if (program.key_mask.defined()) {
    kept_.push_back(
        program.key_mask.expand({inputs_.shape.batch, inputs_.shape.keys}).contiguous());
    inputs_.key_mask = reinterpret_cast<const std::uint8_t*>(kept_.back().const_data_ptr<bool>());
  }
  if (program.documents.defined()) {
    kept_.push_back(numbered_documents(program));
    inputs_.query_documents = inputs_.key_documents = kept_.back().const_data_ptr<std::int32_t>();
  }
  if (program.kind == Kind::table) {
    const at::Tensor values = floats(program.table.values);
    inputs_.variant = kernels::TableVariant{.values = values.const_data_ptr<float>(),
                                            .head_stride = values.stride(0),
                                            .length = values.size(1),
                                            .first_distance = program.table.first_distance,
                                            .multiplies = program.table.multiplies};
  } else if (program.kind == Kind::tapa) {
    kernels::TapaVariant variant = tapa_variant(program.tapa);
    variant.power = floats(program.tapa.power).const_data_ptr<float>();
    inputs_.variant = variant;
  } else if (program.kind == Kind::tape) {
    const at::Tensor& state = program.tape.state;
    const at::Tensor values =
        keep(state.expand({inputs_.shape.batch, inputs_.shape.heads, -1, -1}));
    inputs_.variant = kernels::TapeVariant{input_tensor(values), values.size(-1)};
  } else if (program.kind == Kind::cape) {
    inputs_.variant = cape_variant(program);
  } else if (program.kind == Kind::fire) {
    inputs_.variant = fire_variant(program.fire);
  }
}

kernels::FireVariant KernelInputs::fire_variant(const FireProgram& fire) {
  return {.distance = floats(fire.distance).const_data_ptr<float>(),
          .length = fire.distance.size(0),
          .factor = floats(fire.factor).const_data_ptr<float>(),
          .knots = floats(fire.knots).const_data_ptr<float>(),
          .segments = fire.slope.size(1),
          .slope = floats(fire.slope.contiguous()).const_data_ptr<float>(),
          .intercept = floats(fire.intercept.contiguous()).const_data_ptr<float>(),
          .head_stride = fire.slope.size(1)};
}

kernels::CapeVariant KernelInputs::cape_variant(const AttentionProgram& program) {
  const CapeProgram& cape = program.cape;
  kernels::CapeVariant variant;
  variant.form = cape_form(cape.form);
  if (cape.values.defined()) {
    const at::Tensor values = floats(cape.values);
    variant.values = values.const_data_ptr<float>();
    variant.head_stride = values.stride(0);
    variant.length = values.size(1);
  }
  variant.hidden = cape.w1.size(0);
  variant.w1 = floats(cape.w1.contiguous()).const_data_ptr<float>();
  variant.b1 = floats(cape.b1.contiguous()).const_data_ptr<float>();
  variant.w2 = floats(cape.w2.contiguous()).const_data_ptr<float>();
  variant.b2 = floats(cape.b2.contiguous()).const_data_ptr<float>();
  if (program.fire.slope.defined()) variant.fire = fire_variant(program.fire);
  return variant;
}

at::Tensor KernelInputs::keep(const at::Tensor& tensor) {
  kept_.push_back(with_contiguous_channels(tensor.to(stored_dtype(tensor.scalar_type()))));
  return kept_.back();
}

at::Tensor KernelInputs::floats(const at::Tensor& table) { return keep(table.to(at::kFloat)); }

AttentionProgram with_float_tables(const AttentionProgram& program) {
  AttentionProgram result = program;
  for (at::Tensor* tensor : {&result.table.values, &result.tapa.power, &result.cape.values,
                             &result.cape.w1, &result.cape.b1, &result.cape.w2, &result.cape.b2}) {
    if (tensor->defined()) *tensor = tensor->to(at::kFloat);
  }
  return result;
}

AttentionProgram in_dtype(const AttentionProgram& program, at::ScalarType dtype) {
  AttentionProgram result = program;
  for (at::Tensor* tensor :
       {&result.q, &result.k, &result.q_plain, &result.k_plain, &result.tape.state, &result.cape.w1,
        &result.cape.b1, &result.cape.w2, &result.cape.b2}) {
    if (tensor->defined()) *tensor = tensor->to(dtype);
  }
  for (at::Tensor* table : {&result.table.values, &result.tapa.power, &result.cape.values}) {
    if (table->defined()) *table = table->to(table_dtype(dtype));
  }
  if (result.sinks.defined()) result.sinks = result.sinks.to(table_dtype(dtype));
  if (!program.transformed) result.q_plain = result.q, result.k_plain = result.k;  // one copy
  return result;
}

AttentionResult fused_attention(const AttentionProgram& program, const at::Tensor& v,
                                const AttentionOptions& options) {
  return run_passes({&run_forward, &run_backward}, with_float_tables(program), v, options);
}

AttentionResult run_passes(const AttentionPasses& passes, const AttentionProgram& program,
                           const at::Tensor& v, const AttentionOptions& options) {
  if (!at::GradMode::is_enabled()) return passes.forward(program, v, options);
  const at::Tensor& values =
      program.kind == Kind::cape ? program.cape.values : program.table.values;
  const at::Tensor state =
      program.kind == Kind::tape
          ? program.tape.state.expand({program.q.size(0), program.q.size(1), -1, -1})
          : at::Tensor();
  const auto maybe = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  };
  const CapeProgram& cape = program.cape;
  const FireProgram& fire = program.fire;
  const torch::autograd::variable_list outputs = FusedAttention::apply(
      passes, program, program.q, program.k, v, maybe(state), maybe(values), maybe(cape.w1),
      maybe(cape.b1), maybe(cape.w2), maybe(cape.b2), maybe(fire.distance), maybe(fire.factor),
      maybe(fire.slope), maybe(fire.intercept));
  AttentionResult result{
      outputs[0], outputs.size() > 2 ? outputs[2] : at::Tensor(), outputs[1], {}, {}, {}};
  if (options.want_entropy) {
    result.entropy = passes.forward(program, v, {.want_entropy = true}).entropy;
  }
  return result;
}

}  // namespace phasescope::model
