#include <cuda_runtime.h>

#include "kernels/cuda/buckets_kernel.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

struct BucketsLaunch {
  AttentionShape shape;
  const DistanceSums* sums;
  BucketProbes buckets;
};

/// A block for each bucket of a head: the threads go over its distances in turn, then their sums
/// are joined in order.
__global__ void __launch_bounds__(kThreads)
    attention_buckets_kernel(const __grid_constant__ BucketsLaunch launch) {
  struct Totals {
    double weight, score, square;
    std::int64_t pairs;
  };
  const std::int64_t head = blockIdx.y;  // batch included
  const DistanceSums* sums = launch.sums + head * tile_distances(launch.shape) * kThreads;
  const std::int64_t farthest =
      launch.shape.queries + launch.shape.keys +
      (launch.shape.query_offset < 0 ? -launch.shape.query_offset : launch.shape.query_offset);
  const std::int64_t first = launch.buckets.edges[blockIdx.x];
  const std::int64_t last = min(launch.buckets.edges[blockIdx.x + 1], farthest);
  Totals own{};
  const auto add = [&](std::int64_t tile, int n) {
    const DistanceSums& part = sums[tile * kThreads + n];
    own.weight += static_cast<double>(part.weight);
    own.score += static_cast<double>(part.score);
    own.square += static_cast<double>(part.square);
    own.pairs += part.pairs;
  };
  for (std::int64_t d = first + threadIdx.x; d < last; d += kThreads) {
    for_each_part(launch.shape, d, add);
    if (d > 0) for_each_part(launch.shape, -d, add);
  }
  store_shared(shared_memory() + threadIdx.x * 32, own.weight);
  store_shared(shared_memory() + threadIdx.x * 32 + 8, own.score);
  store_shared(shared_memory() + threadIdx.x * 32 + 16, own.square);
  store_shared(shared_memory() + threadIdx.x * 32 + 24, own.pairs);
  __syncthreads();
  if (threadIdx.x != 0) return;
  Totals all{};
  for (std::uint32_t n = 0; n < kThreads; ++n) {
    all.weight += load_shared<double>(shared_memory() + n * 32);
    all.score += load_shared<double>(shared_memory() + n * 32 + 8);
    all.square += load_shared<double>(shared_memory() + n * 32 + 16);
    all.pairs += load_shared<std::int64_t>(shared_memory() + n * 32 + 24);
  }
  constexpr double kNatural = 0.693147180559945309;
  const std::int64_t at = head * launch.buckets.count + blockIdx.x;
  if (launch.buckets.pairs) launch.buckets.pairs[at] = all.pairs;
  if (launch.buckets.weight) launch.buckets.weight[at] = all.weight;
  if (launch.buckets.score) launch.buckets.score[at] = all.score * kNatural;
  if (launch.buckets.score_square) {
    launch.buckets.score_square[at] = all.square * kNatural * kNatural;
  }
}

}  // namespace

void launch_buckets(const CudaAttention& a, const CudaForwardOutputs& outputs) {
  launch(
      "buckets", &attention_buckets_kernel,
      dim3{static_cast<unsigned>(outputs.buckets.count),
           static_cast<unsigned>(a.shape.heads * a.shape.batch), 1},
      kThreads, kThreads * 32, a.stream,
      BucketsLaunch{a.shape, static_cast<const DistanceSums*>(outputs.workspace), outputs.buckets});
}

}  // namespace phasescope::kernels::cuda
