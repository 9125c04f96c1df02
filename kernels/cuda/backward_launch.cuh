#pragma once
// What kernels that compute scores again are given: for the backward pass and for the sums by
// distance.

#include <cuda_runtime.h>

#include <cstdint>
#include <variant>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// SavedForward and Gradients as kernels are given them, without the arrays of a variant that none
/// of those for every score reads.
struct DeviceSaved {
  InputTensor out, out_state;
  const float* lse = nullptr;
  InputTensor d_out, d_out_state;
};
struct DeviceGradients {
  OutputTensor dq, dk, dv, d_state;
  OutputTensor far_dq, far_dk;  // of clamped distances
};
inline DeviceSaved device_saved(const SavedForward& saved, const Gradients& gradients) {
  const auto* tape = std::get_if<TapeGradients>(&gradients.variant);
  return {saved.out, saved.out_state, saved.lse, saved.d_out,
          tape ? tape->d_out_state : InputTensor{}};
}
inline DeviceGradients device_gradients(const Gradients& gradients) {
  const auto* tape = std::get_if<TapeGradients>(&gradients.variant);
  const auto* clamp = std::get_if<ClampGradients>(&gradients.variant);
  return {gradients.dq,
          gradients.dk,
          gradients.dv,
          tape ? tape->d_state : OutputTensor{},
          clamp ? clamp->dq : OutputTensor{},
          clamp ? clamp->dk : OutputTensor{}};
}
inline float* own_gradients(const Gradients& gradients) {
  const auto* table = std::get_if<QueryTableGradients>(&gradients.variant);
  return table ? table->values : nullptr;
}

template <DeviceScore Score>
struct BackwardLaunch {
  Problem<Score> problem;
  DeviceSaved saved;  // of the sums by distance: lse alone
  DeviceGradients gradients;
  float* delta;      // (B, heads, queries)
  float* diagonals;  // FIRE alone: (heads, tile_distances(), kThreads)
  float* factors;    // FIRE alone: (B, heads, queries)
  float2* pieces;    // FIRE alone: (heads, tile_distances(), kMostSegments), slope and intercept
  TokenGradients tokens = {};  // of scores with numbers of tokens alone
  float* own = nullptr;        // of pairs' own numbers, like these; null where not wanted
  float* distances = nullptr;  // tables alone: (B, heads, blocks of a head, block_distances())
};

}  // namespace phasescope::kernels::cuda
