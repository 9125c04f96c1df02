#pragma once
// The sums that CAPE's backward pass takes over all pairs, and the gradients they become:
//
//   cape_clear_kernel    once, before all strips
//   cape_gather_kernel   after each strip: what the pairs of tiles left in their slots
//
// and after all strips
//
//   cape_join_kernel     sums by distance from those of tile distances
//   cape_values_kernel   the table's gradient
//   cape_fire_kernel     over FIRE, in place of these two: those of its arrays
//   cape_weights_kernel  those of both layers

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_gradients.cuh"

namespace phasescope::kernels::cuda {

struct CapeClearLaunch {
  float* sums;
  std::int64_t count;
};

__global__ void __launch_bounds__(kThreads)
    cape_clear_kernel(const __grid_constant__ CapeClearLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n < launch.count) launch.sums[n] = 0;
}

/// Calls call(slot) for the pairs of the strips' tiles that have one, of those whose tile of
/// queries comes `ahead` tiles after its tile of keys, counted within the strip; text by text.
template <class Call>
__device__ void for_each_slot(const CapeGradientLaunch& launch, int ahead, const Call& call) {
  const Strip& strip = launch.content;
  const int columns = launch.key_tiles();
  const int last = min(static_cast<int>(tiles_of(strip.last - strip.first)), columns + ahead);
  for (unsigned text = 0; text < launch.texts; ++text) {
    const Visibility visibility(launch.pairs.problem, strip.batch + text);
    for (int row = max(0, ahead); row < last; ++row) {
      const int column = row - ahead;
      const int query = static_cast<int>(strip.first) + row * kRows;
      const int key = static_cast<int>(strip.first_key) + column * kRows;
      if (visibility.sees(query, key)) call(launch.slot(text, row * columns + column));
    }
  }
}

/// Of one query of the strip, by its number.
__device__ inline double sum_of_query(const CapeGradientLaunch& launch, int query) {
  const Strip& strip = launch.content;
  const CapeSlot& slot = launch.memory.slot;
  const int columns = launch.key_tiles(), tile = query / kRows;
  double sum = 0;
  for (unsigned text = 0; text < launch.texts; ++text) {
    const Visibility visibility(launch.pairs.problem, strip.batch + text);
    for (int column = 0; column < columns; ++column) {
      if (!visibility.sees(static_cast<int>(strip.first) + tile * kRows,
                           static_cast<int>(strip.first_key) + column * kRows)) {
        continue;
      }
      const float* sums = launch.slot(text, tile * columns + column);
      sum += static_cast<double>(sums[slot.totals + slot.by_diagonal + query % kRows]);
    }
  }
  return sum;
}

/// One thread a sum; grid.y: of all pairs, by diagonal, by query.
__global__ void __launch_bounds__(kThreads)
    cape_gather_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Strip& strip = launch.content;
  const CapeSlot& slot = launch.memory.slot;
  const int rows = static_cast<int>(tiles_of(strip.last - strip.first));
  const int columns = launch.key_tiles();
  if (blockIdx.y == 0) {
    if (n >= slot.totals) return;
    double sum = 0;
    for (int ahead = 1 - columns; ahead < rows; ++ahead) {
      for_each_slot(launch, ahead, [&](const float* sums) { sum += static_cast<double>(sums[n]); });
    }
    launch.memory.totals[n] += sum;
    return;
  }
  if (blockIdx.y == 2) {
    if (slot.by_query == 0 || n >= strip.last - strip.first) return;
    launch.memory.by_query[strip.first + n] += sum_of_query(launch, static_cast<int>(n));
    return;
  }
  if (n >= (rows + columns - 1) * slot.by_diagonal) return;
  const int ahead = static_cast<int>(n / slot.by_diagonal) - (columns - 1);
  const std::int64_t place = n % slot.by_diagonal;
  const std::int64_t tile = ahead + strip.first / kRows - strip.first_key / kRows +
                            tiles_of(launch.pairs.problem.shape.keys) - 1;
  float sum = 0;
  for_each_slot(launch, ahead, [&](const float* sums) { sum += sums[slot.totals + place]; });
  launch.memory.by_distance[tile * slot.by_diagonal + place] += sum;
}

struct CapeJoinLaunch {
  AttentionShape shape;
  CapeNetwork network;
  CapeMemory memory;
  CapeGradients to;
};

/// Of a row of kThreads sums by diagonal.
__device__ inline double distance_sum(const CapeJoinLaunch& launch, std::int64_t row,
                                      std::int64_t distance) {
  const float* sums = launch.memory.by_distance + row * kThreads;
  double sum = 0;
  for_each_part(launch.shape, distance, [&](std::int64_t tile, int n) {
    sum += static_cast<double>(sums[tile * launch.memory.slot.by_diagonal + n]);
  });
  return sum;
}

/// One thread a lambda = max(distance, 0); grid.y: d hidden of the units, then d score of the
/// heads.
__global__ void __launch_bounds__(kThreads)
    cape_join_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const std::int64_t lambda = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (lambda >= launch.memory.distances) return;
  double sum = distance_sum(launch, blockIdx.y, lambda);
  if (lambda == 0 && !launch.shape.causal) {
    for (std::int64_t d = launch.shape.query_offset - launch.shape.keys + 1; d < 0; ++d) {
      sum += distance_sum(launch, blockIdx.y, d);
    }
  }
  launch.memory.joined[blockIdx.y * launch.memory.distances + lambda] = static_cast<float>(sum);
}

/// One thread an entry of the table; grid.y heads.
__global__ void __launch_bounds__(kThreads)
    cape_values_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const std::int64_t lambda = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const CapeNetwork& net = launch.network;
  if (lambda >= net.cape.length) return;
  const std::int64_t head = blockIdx.y, distances = launch.memory.distances;
  double sum = 0;
  if (lambda < distances) {
    const float* joined = launch.memory.joined + lambda;
    if (net.layout.adds_bias) {
      sum = static_cast<double>(joined[(net.cape.hidden + head) * distances]);
    }
    for (std::int64_t m = 0; m < net.cape.hidden && net.layout.reads_bias; ++m) {
      sum +=
          static_cast<double>(net.cape.w1[m * net.layout.width + net.layout.bias_column + head]) *
          static_cast<double>(joined[m * distances]);
    }
  }
  launch.to.values[head * launch.to.head_stride + lambda] = static_cast<float>(sum);
}

__device__ inline CapePieceTotals piece_totals(const CapeJoinLaunch& launch) {
  return {launch.network, launch.memory.totals + 2 * launch.network.heads * launch.memory.units};
}

/// One thread an entry of FIRE's arrays; grid.y: distances, factors, pieces.
__global__ void __launch_bounds__(kThreads)
    cape_fire_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const FireVariant& fire = launch.network.fire;
  const FireGradients& to = launch.to.fire;
  if (blockIdx.y == 0) {
    if (!to.distance || n >= fire.length) return;
    to.distance[n] = static_cast<float>(distance_sum(launch, 0, n));
  } else if (blockIdx.y == 1) {
    if (!to.factor || n >= launch.shape.queries) return;
    to.factor[n] = static_cast<float>(launch.memory.by_query[n]);
  } else {
    const std::int64_t head = n / fire.segments, segment = n % fire.segments;
    if (head >= launch.shape.heads) return;
    const CapePieceTotals totals = piece_totals(launch);
    const std::int64_t at = head * to.head_stride + segment;
    if (to.slope) {
      to.slope[at] = static_cast<float>(
          totals.of_head(head, [&](std::int64_t row) { return totals.places(row, segment); }));
    }
    if (to.intercept) {
      to.intercept[at] = static_cast<float>(
          totals.of_head(head, [&](std::int64_t row) { return totals.ones(row, segment); }));
    }
  }
}

/// The thread's part of a weight's gradient. Rows of the biases' part are summed over distances, or
/// over the segments of FIRE.
template <bool kFire>
class CapeWeightSums {
 public:
  __device__ explicit CapeWeightSums(const CapeJoinLaunch& launch)
      : launch_(launch), net_(launch.network) {}

  __device__ double w1(std::int64_t unit, std::int64_t column) const {
    double sum = column < net_.heads ? total(column, unit) : 0;
    const std::int64_t head = column - net_.layout.bias_column;
    if (!net_.layout.reads_bias || head < 0) return sum;
    for (std::int64_t n = threadIdx.x; n < places(); n += kThreads) {
      if constexpr (kFire) {
        sum += piece_totals(launch_).biases(unit, head, n);
      } else {
        sum += joined(unit, n) * static_cast<double>(net_.bias(head, n));
      }
    }
    return sum;
  }
  __device__ double w2(std::int64_t head, std::int64_t unit) const {
    return total(net_.heads + head, unit);
  }
  __device__ double bias(std::int64_t row) const {
    double sum = 0;
    for (std::int64_t n = threadIdx.x; n < places(); n += kThreads) sum += joined(row, n);
    return sum;
  }

 private:
  __device__ std::int64_t places() const {
    return kFire ? net_.fire.segments : launch_.memory.distances;
  }
  __device__ double joined(std::int64_t row, std::int64_t place) const {
    if constexpr (kFire) return piece_totals(launch_).ones(row, place);
    return static_cast<double>(launch_.memory.joined[row * launch_.memory.distances + place]);
  }
  __device__ double total(std::int64_t row, std::int64_t unit) const {
    return threadIdx.x == 0 ? launch_.memory.totals[row * launch_.memory.units + unit] : 0;
  }

  const CapeJoinLaunch& launch_;
  const CapeNetwork& net_;
};

/// A block for each number: grid.y w1, b1, w2, b2, grid.x the numbers of the longest of them.
template <bool kFire>
__global__ void __launch_bounds__(kThreads)
    cape_weights_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const CapeNetwork& net = launch.network;
  const std::int64_t hidden = net.cape.hidden, width = net.layout.width, n = blockIdx.x;
  const CapeGradients& to = launch.to;
  const std::int64_t counts[] = {hidden * width, hidden, net.heads * hidden, net.heads};
  float* const arrays[] = {to.w1, to.b1, to.w2, to.b2};
  if (n >= counts[blockIdx.y] || !arrays[blockIdx.y]) return;
  const CapeWeightSums<kFire> sums(launch);
  const double part = blockIdx.y == 0   ? sums.w1(n / width, n % width)
                      : blockIdx.y == 1 ? sums.bias(n)
                      : blockIdx.y == 2 ? sums.w2(n / hidden, n % hidden)
                                        : sums.bias(hidden + n);
  store_shared(shared_memory() + threadIdx.x * 8, part);
  __syncthreads();
  if (threadIdx.x != 0) return;
  double all = 0;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    all += load_shared<double>(shared_memory() + thread * 8);
  }
  arrays[blockIdx.y][n] = static_cast<float>(all);
}

}  // namespace phasescope::kernels::cuda
