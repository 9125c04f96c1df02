#pragma once
// The plain operations as they are in a 16-bit type, whose error sets the bound of the kernels'.

#include "tests/kernels/cases.h"
#include "tests/kernels/half_types.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {

/// The plain operation in a 16-bit type: weights and results are rounded to it.
struct PlainForward {
  PlainForward(const HalfType& type, const AttentionInputs& inputs) : plain(inputs) {
    for (float& p : plain.weight) p = type.round(p);
    plain.out = plain.average(plain.v);
    if (plain.gate.dim() > 0) {
      plain.ungated = plain.out;
      for (float& x : plain.ungated) x = type.round(x);
      plain.apply_gate();
    }
    if (plain.state.dim() > 0) plain.out_state = plain.average(plain.state);
    for (auto* results : {&plain.out, &plain.out_state}) {
      for (float& x : *results) x = type.round(x);
    }
  }
  Reference<float> plain;
};

/// The plain backward operation in a 16-bit type: weights, their gradients and those of the scores
/// are rounded to it, and the results.
struct PlainBackward {
  PlainBackward(const HalfType& type, Reference<float>& weights, const InputTensor& d_out,
                const InputTensor& d_out_state)
      : plain(weights) {
    const AttentionShape& s = plain.s;
    plain.clear_gradients();
    Rows<float> d_values = plain.of_queries(d_out, plain.values());
    if (plain.gate.dim() > 0) {
      plain.gate_gradients(d_values);
      d_values.for_each([&](float& x) { x = type.round(x); });
    }
    const Rows<float> d_states = plain.of_queries(d_out_state, plain.state.dim());
    for (std::int64_t n = 0; n < s.batch * s.queries; ++n) {
      row(type, n / s.queries, n % s.queries, d_values, d_states);
    }
    for (auto* results : {&plain.dq, &plain.dk, &plain.dv, &plain.d_state, &plain.d_gate,
                          &plain.d_far_q, &plain.d_far_k}) {
      for (float& x : *results) x = type.round(x);
    }
  }

  void row(const HalfType& type, std::int64_t b, std::int64_t i, const Rows<float>& d_out,
           const Rows<float>& d_out_state) {
    const AttentionShape& s = plain.s;
    std::vector<float> d_score(static_cast<std::size_t>(s.heads * s.keys));
    for (std::int64_t h = 0; h < s.heads; ++h) {
      float* ds = d_score.data() + h * s.keys;
      const float* p = plain.weight.data() + plain.at(b, h, i, 0);
      float mean = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        if (p[j] == 0) continue;
        ds[j] = plain.value_gradient(b, h, i, j, p[j], d_out, plain.v, plain.dv);
        if (d_out_state.dim() > 0) {
          ds[j] += plain.value_gradient(b, h, i, j, p[j], d_out_state, plain.state, plain.d_state);
        }
        ds[j] = type.round(ds[j]);
        mean += p[j] * ds[j];
      }
      if (plain.in.sinks) {
        plain.d_sinks[static_cast<std::size_t>(h)] -=
            plain.sink_weight[static_cast<std::size_t>(plain.row(b, h, i))] * mean;
      }
      for (std::int64_t j = 0; j < s.keys; ++j) {
        ds[j] = type.round(p[j] * (ds[j] - mean)) * plain.cap_slope(plain.at(b, h, i, j));
        if (p[j] == 0) ds[j] = 0;
      }
    }
    for (std::int64_t j = 0; j < s.keys; ++j) {
      if (plain.visible(b, i, j)) plain.pair_gradient(b, i, j, d_score);
    }
  }

  Reference<float>& plain;
};

}  // namespace phasescope::kernels::testing
