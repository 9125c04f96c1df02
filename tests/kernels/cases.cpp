#include "tests/kernels/cases.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "tests/kernels/half_types.h"

namespace phasescope::kernels::testing {
namespace {

/// InputTensor or OutputTensor.
template <typename Tensor>
Tensor contiguous(std::vector<float>& data, std::int64_t heads, std::int64_t rows,
                  std::int64_t dim) {
  return {data.data(), heads * rows * dim, rows * dim, dim};
}

}  // namespace

std::string problem_name(const Problem& p) {
  const AttentionShape& s = p.shape;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  return kind_name(p.kind) + " B" + number(s.batch) + " H" + number(s.heads) + "/" +
         number(s.kv_heads) + " N" + number(s.queries) + "x" + number(s.keys) + " d" +
         number(s.head_dim) + (s.causal ? " causal" : " full") + " offset" +
         number(s.query_offset) + " magnitude" + std::to_string(p.magnitude) +
         (p.infinite_table ? " -inf" : "") + " window" + number(s.window) + " cap" +
         std::to_string(p.soft_cap) + " padding" + number(static_cast<int>(p.padding)) +
         " documents" + number(static_cast<int>(p.documents)) + " sinks" +
         number(static_cast<int>(p.sinks)) + " gates" + number(static_cast<int>(p.gates)) +
         (p.storage == Storage::bfloat16  ? " bfloat16"
          : p.storage == Storage::float16 ? " float16"
                                          : "");
}

void round_to(Storage storage, std::span<float> values) {
  if (storage == Storage::float32) return;
  for (float& value : values) value = half_type(storage).round(value);
}

std::int64_t Case::score_distances() const {
  const AttentionShape& s = inputs.shape;
  return std::max<std::int64_t>(1, s.keys / 2 + std::abs(s.query_offset));
}

Case::Case(const Problem& problem) : RandomInputs(problem), storage_(problem.storage) {
  const AttentionShape& s = inputs.shape;
  const std::int64_t dim = values_of(s);
  out.resize(d_out.size());
  lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.queries));
  outputs.out = contiguous<OutputTensor>(out, s.heads, s.queries, dim);
  outputs.lse = lse.data();
  if (!gate.empty()) {
    ungated.resize(out.size());
    outputs.ungated = contiguous<OutputTensor>(ungated, s.heads, s.queries, dim);
  }
  if (const auto* tape = std::get_if<TapeVariant>(&inputs.variant)) {
    out_state.resize(d_out_state.size());
    outputs.out_state = contiguous<OutputTensor>(out_state, s.heads, s.queries, tape->state_dim);
  }
  make_gradients();
  make_side_gradients();
  store_as(problem.storage);
}

FireGradients Case::make_fire_gradients(const FireVariant& fire) {
  d_table.resize(table.size());
  d_factor.resize(factor.size());
  d_slope.resize(slope.size());
  d_intercept.resize(intercept.size());
  return {d_table.data(), d_factor.data(), d_slope.data(), d_intercept.data(), fire.head_stride};
}

CapeGradients Case::make_cape_gradients(const CapeVariant& cape) {
  d_w1.resize(w1.size());
  d_b1.resize(b1.size());
  d_w2.resize(w2.size());
  d_b2.resize(b2.size());
  CapeGradients result{.w1 = d_w1.data(), .b1 = d_b1.data(), .w2 = d_w2.data(), .b2 = d_b2.data()};
  if (cape.fire) {
    result.fire = make_fire_gradients(*cape.fire);
  } else {
    d_table.resize(table.size());
    result.values = cape.values ? d_table.data() : nullptr;
    result.head_stride = cape.length;
  }
  return result;
}

void Case::make_gradients() {
  const AttentionShape& s = inputs.shape;
  const std::int64_t dim = values_of(s);
  saved.out = contiguous<InputTensor>(gate.empty() ? out : ungated, s.heads, s.queries, dim);
  saved.d_out = contiguous<InputTensor>(d_out, s.heads, s.queries, dim);
  saved.lse = lse.data();
  dq.resize(q.size());
  dk.resize(k.size());
  dv.resize(v.size());
  gradients.dq = contiguous<OutputTensor>(dq, s.heads, s.queries, s.head_dim);
  gradients.dk = contiguous<OutputTensor>(dk, s.kv_heads, s.keys, s.head_dim);
  gradients.dv = contiguous<OutputTensor>(dv, s.kv_heads, s.keys, dim);
  score_gradients.resize(static_cast<std::size_t>(s.batch * s.heads * score_distances()));
  gradients.scores = {score_gradients.data(), score_distances()};
  if (const auto* t = std::get_if<TableVariant>(&inputs.variant)) {
    d_table.resize(table.size());
    gradients.variant = TableGradients{d_table.data(), t->length};
  } else if (std::holds_alternative<QueryTableVariant>(inputs.variant)) {
    d_table.resize(table.size());
    gradients.variant = QueryTableGradients{d_table.data()};
  } else if (const auto* relative = std::get_if<RelativeKeysVariant>(&inputs.variant)) {
    d_far_q.resize(far_q.size());
    d_table.resize(table.size());
    gradients.variant = RelativeKeysGradients{
        contiguous<OutputTensor>(d_far_q, s.heads, s.queries, relative->rank), d_table.data()};
  } else if (std::holds_alternative<ClampVariant>(inputs.variant)) {
    d_far_q.resize(far_q.size());
    d_far_k.resize(far_k.size());
    gradients.variant =
        ClampGradients{contiguous<OutputTensor>(d_far_q, s.heads, s.queries, s.head_dim),
                       contiguous<OutputTensor>(d_far_k, s.kv_heads, s.keys, s.head_dim)};
  } else if (const auto* tape = std::get_if<TapeVariant>(&inputs.variant)) {
    d_state.resize(state.size());
    const std::int64_t width = tape->state_dim;
    saved.out_state = contiguous<InputTensor>(out_state, s.heads, s.queries, width);
    gradients.variant =
        TapeGradients{contiguous<InputTensor>(d_out_state, s.heads, s.queries, width),
                      contiguous<OutputTensor>(d_state, s.kv_heads, s.keys, width)};
  } else if (const auto* fire = std::get_if<FireVariant>(&inputs.variant)) {
    gradients.variant = make_fire_gradients(*fire);
  } else if (const auto* cape = std::get_if<CapeVariant>(&inputs.variant)) {
    gradients.variant = make_cape_gradients(*cape);
  }
}

/// Of what stands beside any variant.
void Case::make_side_gradients() {
  const AttentionShape& s = inputs.shape;
  const auto make = [](std::vector<float>& gradient, std::size_t size) {
    gradient.resize(size);
    return gradient.empty() ? nullptr : gradient.data();
  };
  gradients.sinks = make(d_sinks, sinks.size());
  gradients.tokens = {make(d_query_bias, query_bias.size()), make(d_key_bias, key_bias.size()),
                      make(d_query_factor, query_factor.size())};
  if (gate.empty()) return;
  d_gate.resize(gate.size());
  gradients.gate = contiguous<OutputTensor>(d_gate, s.heads, s.queries, inputs.gate_dim);
}

void Case::store_as(Storage storage) {
  if (storage == Storage::float32) return;
  const auto put = [&](std::span<float> values, bool is_result, auto&... tensors) {
    narrow_.push_back({values, std::vector<std::uint16_t>(values.size()), is_result});
    ((tensors.data = narrow_.back().bits.data(), tensors.storage = storage), ...);
  };
  put(q, false, inputs.q);
  put(k, false, inputs.k);
  put(v, false, inputs.v);
  put(d_out, false, saved.d_out);
  if (gate.empty()) {
    put(out, true, outputs.out, saved.out);
  } else {
    put(out, true, outputs.out);
    put(ungated, true, outputs.ungated, saved.out);
    put(gate, false, inputs.gate);
    put(d_gate, true, gradients.gate);
  }
  put(dq, true, gradients.dq);
  put(dk, true, gradients.dk);
  put(dv, true, gradients.dv);
  if (!out_state.empty()) put(out_state, true, outputs.out_state, saved.out_state);
  const AttentionShape& s = inputs.shape;
  const auto put_tensors = [&]<class Array, class Size>(Array& array, const Size& size) {
    if constexpr (std::is_same_v<Size, TensorSize>) {
      put(numbers_of(array, s.batch, size), std::is_same_v<Array, OutputTensor>, array);
    }
  };
  std::visit([&](auto& own) { own.arrays(own, s, put_tensors); }, inputs.variant);
  std::visit(
      [&]<class Own>(Own& own) {
        if constexpr (!std::is_same_v<Own, std::monostate>) {
          Own::arrays(own, std::get<typename Own::Of>(inputs.variant), s, put_tensors);
        }
      },
      gradients.variant);
  write_narrow();
}

void Case::write_narrow() {
  for (Narrow& one : narrow_) {
    round_to(storage_, one.values);
    for (std::size_t n = 0; n < one.bits.size(); ++n) {
      one.bits[n] = half_type(storage_).to(one.values[n]);
    }
  }
}

void Case::read_narrow() {
  for (const Narrow& one : narrow_) {
    if (!one.is_result) continue;
    for (std::size_t n = 0; n < one.bits.size(); ++n) {
      one.values[n] = half_type(storage_).from(one.bits[n]);
    }
  }
}

void Case::forward() {
  write_narrow();
  attention_forward(inputs, outputs);
  read_narrow();
}

void Case::backward() {
  write_narrow();
  attention_backward(inputs, saved, gradients);
  read_narrow();
}

}  // namespace phasescope::kernels::testing
