#include <algorithm>

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/fire_kernel.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// The gradients of FIRE's arrays, in two launches.
template <typename T, int D>
void launch_fire(const CudaAttention& a, const FireVariant& fire, const FireGradients& to,
                 const BackwardLaunch<FireScore>& parameters) {
  const unsigned heads = static_cast<unsigned>(a.shape.heads);
  launch("pieces", &attention_pieces_kernel<T, D>, dim3{tile_distances(a.shape), heads, 1},
         kThreads, PairLayout<D, FireScore>::kBytesWithPairs + kBlockSumBytes, a.stream,
         parameters);
  const std::int64_t entries =
      std::max({fire.length, a.shape.queries, a.shape.heads * fire.segments});
  launch(
      "fire", &attention_fire_kernel, dim3{blocks_of(entries), 3, 1}, kThreads, 0, a.stream,
      FireLaunch{a.shape, fire, parameters.diagonals, parameters.factors, parameters.pieces, to});
}

}  // namespace

void backward_fire(const CudaAttention& attention, const SavedForward& saved,
                   const CudaGradients& gradients) {
  const auto& fire = std::get<FireVariant>(attention.variant);
  const auto* wanted = std::get_if<FireGradients>(&gradients.variant);
  const FireGradients to = wanted ? *wanted : FireGradients{};
  backward_with(attention, saved, gradients, FireScore::of(attention),
                [&](auto type, auto dim, const auto& parameters) {
                  if (!to.distance && !to.factor && !to.slope && !to.intercept) return;
                  launch_fire<decltype(type), decltype(dim)::value>(attention, fire, to,
                                                                    parameters);
                });
}

}  // namespace phasescope::kernels::cuda
