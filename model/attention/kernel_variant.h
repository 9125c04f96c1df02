#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <type_traits>
#include <variant>

#include "kernels/attention.h"
#include "model/encoding.h"

// A program's variant and its gradients in the words of kernels/attention.h, for tensors on either
// processor: where their numbers lie is the caller's.

namespace phasescope::model {

kernels::CapeForm cape_form(CapeProgram::Form form);

// Memory: floats(tensor) -> const float*, of its numbers in float32 and contiguous;
// tokens(tensor) -> kernels::InputTensor, as it is stored; integers(vector) -> const std::int64_t*.
// All stay where they are.
template <class Memory>
struct VariantOf {
  const AttentionProgram& program;
  Memory& memory;

  kernels::Variant operator()(const PlainProgram&) const { return kernels::PlainVariant{}; }
  // By plain operations alone.
  kernels::Variant operator()(const TermProgram&) const { return kernels::PlainVariant{}; }
  kernels::Variant operator()(const TableProgram& table) const {
    return kernels::TableVariant{.values = memory.floats(table.values),
                                 .head_stride = table.values.size(1),
                                 .length = table.values.size(1),
                                 .first_distance = table.first_distance,
                                 .multiplies = table.multiplies};
  }
  kernels::Variant operator()(const QueryTableProgram& table) const {
    const std::int64_t batch = program.q.size(0);
    return kernels::QueryTableVariant{
        .values = memory.floats(table.values.expand({batch, -1, -1, -1})),
        .length = table.values.size(3)};
  }
  kernels::Variant operator()(const RelativeKeysProgram& relative) const {
    const at::Tensor& keys = relative.keys;
    const at::Tensor r = relative.r.expand({program.q.size(0), program.q.size(1), -1, -1});
    return kernels::RelativeKeysVariant{
        .r = memory.tokens(r),
        .rank = keys.size(1),
        .keys = memory.floats(keys),
        .head_stride = keys.size(0) == 1 ? 0 : keys.size(1) * keys.size(2),
        .length = keys.size(2),
        .first_distance = relative.first_distance,
        .clips = relative.clips};
  }
  kernels::Variant operator()(const ClampProgram& clamp) const {
    return kernels::ClampVariant{memory.tokens(clamp.q), memory.tokens(clamp.k),
                                 memory.integers(clamp.limits)};
  }
  kernels::Variant operator()(const TapaProgram& tapa) const {
    return kernels::TapaVariant{
        .content_dim = tapa.content_dim,
        .scale_content = static_cast<float>(tapa.scale_content),
        .scale_phase = static_cast<float>(tapa.scale_phase),
        .phase = tapa.linear_phase ? kernels::TapaPhase::linear : kernels::TapaPhase::quadratic,
        .power = memory.floats(tapa.power),
        .power_length = tapa.power.size(0)};
  }
  kernels::Variant operator()(const TapeProgram& tape) const {
    const at::Tensor state = tape.state.expand({program.q.size(0), program.q.size(1), -1, -1});
    return kernels::TapeVariant{memory.tokens(state), state.size(-1)};
  }
  kernels::Variant operator()(const FireProgram& fire) const { return pieces_of(fire); }
  kernels::Variant operator()(const CapeProgram& cape) const {
    kernels::CapeVariant variant;
    variant.form = cape_form(cape.form);
    if (cape.values.defined()) {
      variant.values = memory.floats(cape.values);
      variant.head_stride = variant.length = cape.values.size(1);
    }
    variant.hidden = cape.w1.size(0);
    variant.w1 = memory.floats(cape.w1);
    variant.b1 = memory.floats(cape.b1);
    variant.w2 = memory.floats(cape.w2);
    variant.b2 = memory.floats(cape.b2);
    if (cape.fire) variant.fire = pieces_of(*cape.fire);
    return variant;
  }

  kernels::FireVariant pieces_of(const FireProgram& fire) const {
    return {.distance = memory.floats(fire.distance),
            .length = fire.distance.size(0),
            .factor = memory.floats(fire.factor),
            .knots = memory.floats(fire.knots),
            .segments = fire.slope.size(1),
            .slope = memory.floats(fire.slope),
            .intercept = memory.floats(fire.intercept),
            .head_stride = fire.slope.size(1)};
  }
};

// Calls each(tensor, pointer) for the numbers of tokens that there are, with the kernel's place for
// them: for the numbers themselves, or for their gradients.
template <class Terms, class Kernel, class Each>
void for_each_token_term(Terms& tokens, Kernel& kernel, const Each& each) {
  if (tokens.query.defined()) each(tokens.query, kernel.query);
  if (tokens.key.defined()) each(tokens.key, kernel.key);
  if (tokens.factor.defined()) each(tokens.factor, kernel.factor);
}

// A program's numbers of tokens, one for every text and head. Memory: also doubles(tensor) -> const
// double*, as floats().
template <class Memory>
kernels::TokenTerms token_terms_of(const AttentionProgram& program, Memory& memory) {
  const auto of_all = [&program](const at::Tensor& x) {
    return x.expand({program.q.size(0), program.q.size(1), -1});
  };
  kernels::TokenTerms terms;
  for_each_token_term(program.tokens, terms, [&](const at::Tensor& x, auto& numbers) {
    if constexpr (std::is_same_v<decltype(numbers), const double*&>) {
      numbers = memory.doubles(of_all(x));
    } else {
      numbers = memory.floats(of_all(x));
    }
  });
  return terms;
}

// Memory: floats(tensor) -> float*, doubles(tensor) -> double* and tokens(tensor) ->
// kernels::OutputTensor put memory for a gradient in the place of the tensor that it is of. An
// undefined one has no gradient.
template <class Memory>
struct GradientsOf {
  Memory& memory;
  kernels::InputTensor d_out_state;  // tape's; without data: zero

  kernels::VariantGradients operator()(PlainProgram&) const { return std::monostate{}; }
  kernels::VariantGradients operator()(TermProgram&) const { return std::monostate{}; }
  kernels::VariantGradients operator()(TapaProgram&) const { return std::monostate{}; }
  kernels::VariantGradients operator()(TableProgram& table) const {
    const std::int64_t length = table.values.size(1);
    return kernels::TableGradients{floats(table.values), length};
  }
  kernels::VariantGradients operator()(QueryTableProgram& table) const {
    return kernels::QueryTableGradients{floats(table.values)};
  }
  kernels::VariantGradients operator()(RelativeKeysProgram& relative) const {
    return kernels::RelativeKeysGradients{memory.tokens(relative.r), floats(relative.keys)};
  }
  kernels::VariantGradients operator()(ClampProgram& clamp) const {
    return kernels::ClampGradients{memory.tokens(clamp.q), memory.tokens(clamp.k)};
  }
  kernels::VariantGradients operator()(TapeProgram& tape) const {
    return kernels::TapeGradients{d_out_state, memory.tokens(tape.state)};
  }
  kernels::VariantGradients operator()(FireProgram& fire) const { return pieces_of(fire); }
  kernels::VariantGradients operator()(CapeProgram& cape) const {
    kernels::CapeGradients gradients;
    if (cape.values.defined()) gradients.head_stride = cape.values.size(1);
    gradients.values = floats(cape.values);
    gradients.w1 = floats(cape.w1);
    gradients.b1 = floats(cape.b1);
    gradients.w2 = floats(cape.w2);
    gradients.b2 = floats(cape.b2);
    if (cape.fire) gradients.fire = pieces_of(*cape.fire);
    return gradients;
  }

  float* floats(at::Tensor& tensor) const {
    return tensor.defined() ? memory.floats(tensor) : nullptr;
  }
  kernels::FireGradients pieces_of(FireProgram& fire) const {
    const std::int64_t segments = fire.slope.size(1);
    return {.distance = floats(fire.distance),
            .factor = floats(fire.factor),
            .slope = floats(fire.slope),
            .intercept = floats(fire.intercept),
            .head_stride = segments};
  }
};

// Operands that texts or heads may share, one for each of them: a gradient is made of each, and
// autograd sums those of what is shared.
inline void expand_operands(AttentionProgram& program) {
  const std::int64_t batch = program.q.size(0), heads = program.q.size(1);
  if (auto* tape = program.as<TapeProgram>()) {
    tape->state = tape->state.expand({batch, heads, -1, -1});
  }
  if (auto* table = program.as<QueryTableProgram>()) {
    table->values = table->values.expand({batch, heads, -1, -1});
  }
  if (auto* relative = program.as<RelativeKeysProgram>()) {
    relative->r = relative->r.expand({batch, heads, -1, -1});
  }
  const auto expand_rows = [=](const TensorInfo&, at::Tensor& x) {
    if (x.defined()) x = x.expand({batch, heads, -1});
  };
  TokenTerms::tensors(program.tokens, expand_rows);
  expand_rows({}, program.distance_bias);
  if (program.gate.defined()) program.gate = program.gate.expand({batch, heads, -1, -1});
}

// All gradients of a program and v, whose tensors are replaced by memory for them.
template <class Memory>
void add_gradients(AttentionProgram& program, at::Tensor& v,
                   const kernels::InputTensor& d_out_state, Memory& memory,
                   kernels::Gradients& gradients) {
  expand_operands(program);
  gradients.dq = memory.tokens(program.q);
  gradients.dk = memory.tokens(program.k);
  gradients.dv = memory.tokens(v);
  gradients.variant = std::visit(GradientsOf<Memory>{memory, d_out_state}, program.variant);
  if (program.sinks.defined()) gradients.sinks = memory.floats(program.sinks);
  if (program.gate.defined()) gradients.gate = memory.tokens(program.gate);
  if (at::Tensor& bias = program.distance_bias; bias.defined()) {
    const std::int64_t length = bias.size(2);
    gradients.scores = {memory.doubles(bias), length};
  }
  for_each_token_term(program.tokens, gradients.tokens,
                      [&](at::Tensor& x, float*& numbers) { numbers = memory.floats(x); });
}

}  // namespace phasescope::model
