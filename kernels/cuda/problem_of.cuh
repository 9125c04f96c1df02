#pragma once
// What a launch is given, from run-time values: two 16-bit types, padded sizes of heads, probes off
// and on.

#include <type_traits>
#include <variant>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/problem.cuh"

namespace phasescope::kernels::cuda {

template <DeviceScore Score>
Problem<Score> problem_of(const CudaAttention& a, const Score& score) {
  Problem<Score> problem{a.shape,
                         a.q,
                         a.k,
                         a.v,
                         {},
                         0,
                         score,
                         a.soft_cap * kLog2e,
                         a.sinks,
                         a.key_mask,
                         a.query_documents,
                         a.key_documents,
                         static_cast<const DocumentRange*>(a.document_workspace)};
  problem.shape.value_dim = values_of(a.shape);
  if (const auto* tape = std::get_if<TapeVariant>(&a.variant)) {
    problem.state = tape->state;
    problem.state_dim = tape->state_dim;
  }
  problem.gate = a.gate;
  problem.gate_dim = static_cast<int>(a.gate_dim);
  return problem;
}

/// Padded channels of q and k, and of v and out.
template <int kChannels, int kValues = kChannels>
struct HeadSize {
  static constexpr int value = kChannels, values = kValues;
};

/// The sizes that kernels are instantiated for: with() calls `call` with that of a problem.
struct UsualHeads {
  template <class Call>
  static void with(const AttentionShape& shape, const Call& call) {
    if (cuda_padded_heads(shape).channels == 64) {
      call(HeadSize<64>{});
    } else {
      call(HeadSize<128>{});
    }
  }
};
struct WideHeads {
  template <class Call>
  static void with(const AttentionShape& shape, const Call& call) {
    if (cuda_padded_heads(shape).channels == 192) {
      call(HeadSize<192, 128>{});
    } else {
      call(HeadSize<256>{});
    }
  }
};

/// Calls `with` with a value of the 16-bit type and a HeadSize.
template <class Heads = UsualHeads, class Call>
void with_type_and_dim(const CudaAttention& a, const Call& with) {
  const auto with_dim = [&](auto type) {
    Heads::with(a.shape, [&](auto size) { with(type, size); });
  };
  if (a.q.storage == Storage::bfloat16) {
    with_dim(__nv_bfloat16{});
  } else {
    with_dim(__half{});
  }
}

}  // namespace phasescope::kernels::cuda
