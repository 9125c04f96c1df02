#include <cuda_runtime.h>

#include "kernels/cuda/cape_network.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// One thread a distance; grid.y: hidden units, then heads.
__global__ void __launch_bounds__(kThreads)
    cape_tables_kernel(const __grid_constant__ CapeNetwork net) {
  const std::int64_t lambda = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (lambda >= net.distances) return;
  const CapeVariant& cape = net.cape;
  const std::int64_t row = blockIdx.y, head = row - cape.hidden;
  double sum;
  if (row < cape.hidden) {
    sum = static_cast<double>(cape.b1[row]);
    const float* w = cape.w1 + row * net.layout.width + net.layout.bias_column;
    for (std::int64_t h = 0; h < net.heads && net.layout.reads_bias; ++h) {
      sum += static_cast<double>(w[h]) * static_cast<double>(net.bias(h, lambda));
    }
  } else {
    sum = static_cast<double>(cape.b2[head]);
    if (net.layout.adds_bias) sum += static_cast<double>(net.bias(head, lambda));
  }
  net.tables[row * net.distances + lambda] = static_cast<float>(sum);
}

/// One thread a segment; grid.y as above.
__global__ void __launch_bounds__(kThreads)
    cape_pieces_kernel(const __grid_constant__ CapeNetwork net) {
  const std::int64_t segment = threadIdx.x;
  if (segment >= net.fire.segments) return;
  const CapeVariant& cape = net.cape;
  const std::int64_t row = blockIdx.y, head = row - cape.hidden;
  double slope = 0, intercept = 0;
  const auto add = [&](std::int64_t h, double weight) {
    const std::int64_t at = h * net.fire.head_stride + segment;
    slope += weight * static_cast<double>(net.fire.slope[at]);
    intercept += weight * static_cast<double>(net.fire.intercept[at]);
  };
  if (row < cape.hidden) {
    intercept = static_cast<double>(cape.b1[row]);
    const float* w = cape.w1 + row * net.layout.width + net.layout.bias_column;
    for (std::int64_t h = 0; h < net.heads; ++h) add(h, static_cast<double>(w[h]));
  } else {
    intercept = static_cast<double>(cape.b2[head]);
    if (net.layout.adds_bias) add(head, 1);
  }
  reinterpret_cast<float2*>(net.tables)[row * net.fire.segments + segment] = {
      static_cast<float>(slope), static_cast<float>(intercept)};
}

/// One warp eight heads and eight units; grid.x of them, units first; grid.y products.
__global__ void __launch_bounds__(32) cape_split_kernel(const __grid_constant__ CapeNetwork net) {
  const CapeVariant& cape = net.cape;
  const std::int64_t lane = threadIdx.x, unit_tiles = net.unit_tiles();
  const std::int64_t first_head = blockIdx.x / unit_tiles * 8;
  const std::int64_t first_unit = blockIdx.x % unit_tiles * 8;
  const bool from_heads = blockIdx.y == kHeadsToUnits || blockIdx.y == kScoresToUnits;
  const bool of_first_layer = blockIdx.y == kHeadsToUnits || blockIdx.y == kUnitsToContents;
  const auto weight = [&](std::int64_t pair) {
    const std::int64_t row = lane % 4 * 2 + pair, column = lane / 4;
    const std::int64_t head = first_head + (from_heads ? row : column);
    const std::int64_t unit = first_unit + (from_heads ? column : row);
    if (head >= net.heads || unit >= cape.hidden) return 0.0f;
    return of_first_layer ? cape.w1[unit * net.layout.width + head]
                          : cape.w2[head * cape.hidden + unit];
  };
  const Tf32Parts first(weight(0)), second(weight(1));
  const std::int64_t tile = blockIdx.y * net.head_tiles() * unit_tiles + blockIdx.x;
  net.split[tile * 32 + lane] = {{first.high, second.high}, {first.low, second.low}};
}

}  // namespace

void launch_cape_tables(const CudaAttention& a, const CapeNetwork& network) {
  launch("cape split", &cape_split_kernel,
         dim3{static_cast<unsigned>(network.head_tiles() * network.unit_tiles()), kCapeProducts, 1},
         32, 0, a.stream, network);
  const std::int64_t rows = network.cape.hidden + network.heads;
  if (is_on_fire(network.cape)) {
    launch("cape pieces", &cape_pieces_kernel, dim3{1, static_cast<unsigned>(rows), 1}, kThreads, 0,
           a.stream, network);
    return;
  }
  launch("cape tables", &cape_tables_kernel,
         dim3{blocks_of(network.distances), static_cast<unsigned>(rows), 1}, kThreads, 0, a.stream,
         network);
}

}  // namespace phasescope::kernels::cuda
