#include <cuda_runtime.h>

#include <numbers>

#include "kernels/cuda/buckets_kernel.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

struct BucketsLaunch {
  AttentionShape shape;
  SumsByDistance sums;
  BucketProbes buckets;
};

/// Of some distances; scores in log2 units, content scores and terms in natural ones.
struct Totals {
  Moments score, content, term;
  double weight = 0;
  std::int64_t pairs = 0;

  __device__ void add(const DistanceSums& part) {
    score.add(part.score);
    weight += static_cast<double>(part.weight);
    pairs += part.pairs;
  }
  __device__ void add(const Totals& part) {
    score.add(part.score);
    content.add(part.content);
    term.add(part.term);
    weight += part.weight;
    pairs += part.pairs;
  }
};

/// What a thread finds in its share of the distances of a bucket of a head.
__device__ Totals totals_of(const BucketsLaunch& launch, std::int64_t head, std::int64_t bucket) {
  const AttentionShape& shape = launch.shape;
  const std::int64_t sums = head * tile_distances(shape) * kThreads;
  const std::int64_t farthest = shape.queries + shape.keys +
                                (shape.query_offset < 0 ? -shape.query_offset : shape.query_offset);
  const std::int64_t last = min(launch.buckets.edges[bucket + 1], farthest);
  Totals totals;
  const auto add = [&](std::int64_t tile, int n) {
    const std::int64_t at = sums + tile * kThreads + n;
    totals.add(launch.sums.all[at]);
    if (launch.sums.content) totals.content.add(launch.sums.content[at]);
    if (launch.sums.term) totals.term.add(launch.sums.term[at]);
  };
  for (std::int64_t d = launch.buckets.edges[bucket] + threadIdx.x; d < last; d += kThreads) {
    for_each_part(shape, d, add);
    if (d > 0) for_each_part(shape, -d, add);
  }
  return totals;
}

/// A block for each bucket of a head: the threads go over its distances in turn, then their sums
/// are joined in order.
__global__ void __launch_bounds__(kThreads)
    attention_buckets_kernel(const __grid_constant__ BucketsLaunch launch) {
  const std::int64_t head = blockIdx.y;  // batch included
  store_shared(shared_memory() + threadIdx.x * sizeof(Totals), totals_of(launch, head, blockIdx.x));
  __syncthreads();
  if (threadIdx.x != 0) return;
  Totals all;
  for (std::uint32_t n = 0; n < kThreads; ++n) {
    all.add(load_shared<Totals>(shared_memory() + n * sizeof(Totals)));
  }
  const BucketProbes& buckets = launch.buckets;
  const std::int64_t at = head * buckets.count + blockIdx.x;
  if (buckets.pairs) buckets.pairs[at] = all.pairs;
  if (buckets.weight) buckets.weight[at] = all.weight;
  if (buckets.score) buckets.score[at] = all.score.sum * std::numbers::ln2;
  if (buckets.score_square) {
    buckets.score_square[at] = all.score.square * std::numbers::ln2 * std::numbers::ln2;
  }
  if (buckets.content) buckets.content[at] = all.content.sum;
  if (buckets.content_square) buckets.content_square[at] = all.content.square;
  if (buckets.term) buckets.term[at] = all.term.sum;
  if (buckets.term_square) buckets.term_square[at] = all.term.square;
}

}  // namespace

void launch_buckets(const CudaAttention& a, const CudaForwardOutputs& outputs) {
  launch("buckets", &attention_buckets_kernel,
         dim3{static_cast<unsigned>(outputs.buckets.count),
              static_cast<unsigned>(a.shape.heads * a.shape.batch), 1},
         kThreads, kThreads * static_cast<int>(sizeof(Totals)), a.stream,
         BucketsLaunch{a.shape, SumsByDistance(a.shape, outputs), outputs.buckets});
}

}  // namespace phasescope::kernels::cuda
