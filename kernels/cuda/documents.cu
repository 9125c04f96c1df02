#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

struct DocumentsLaunch {
  AttentionShape shape;
  const std::int32_t* queries;
  const std::int32_t* keys;
  DocumentRange* ranges;  // (B, tile_distances())
};

/// One warp a tile: grid.x blocks of four, grid.y batch entries.
__global__ void __launch_bounds__(kThreads)
    attention_documents_kernel(const __grid_constant__ DocumentsLaunch launch) {
  const AttentionShape& shape = launch.shape;
  const std::int64_t batch = blockIdx.y, lane = threadIdx.x % 32;
  const std::int64_t tile = std::int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  const std::int64_t query_tiles = tiles_of(shape.queries), tiles = tile_distances(shape);
  if (tile >= tiles) return;
  const bool of_keys = tile >= query_tiles;
  const std::int64_t count = of_keys ? shape.keys : shape.queries;
  const std::int32_t* documents = (of_keys ? launch.keys : launch.queries) + batch * count;
  const std::int64_t first = (of_keys ? tile - query_tiles : tile) * kRows;
  DocumentRange range{INT32_MAX, INT32_MIN};
  for (std::int64_t n = first + lane; n < min(first + kRows, count); n += 32) {
    range = {min(range.least, documents[n]), max(range.most, documents[n])};
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    range.least = min(range.least, __shfl_xor_sync(0xffffffffu, range.least, mask));
    range.most = max(range.most, __shfl_xor_sync(0xffffffffu, range.most, mask));
  }
  if (lane == 0) launch.ranges[batch * tiles + tile] = range;
}

}  // namespace

void launch_documents(const CudaAttention& a) {
  launch("documents", &attention_documents_kernel,
         dim3{(tile_distances(a.shape) + 3) / 4, static_cast<unsigned>(a.shape.batch), 1}, kThreads,
         0, a.stream,
         DocumentsLaunch{a.shape, a.query_documents, a.key_documents,
                         static_cast<DocumentRange*>(a.document_workspace)});
}

}  // namespace phasescope::kernels::cuda
