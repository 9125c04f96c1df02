#pragma once
// Pairs of tiles by how far their queries are ahead of their keys, for sums by distance.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// Tiles I of queries and J of keys have tile distance I - J; its diagonal n of 127 is the distance
/// 64 (I - J) + query_offset - 63 + n. The places of a tile distance count from the least one.
struct TileDistance {
  int key_tiles, query_tiles;
  int ahead;  // I - J

  __device__ TileDistance(const AttentionShape& shape, unsigned place)
      : key_tiles(static_cast<int>(tiles_of(shape.keys))),
        query_tiles(static_cast<int>(tiles_of(shape.queries))),
        ahead(static_cast<int>(place) - (key_tiles - 1)) {}
  /// The tiles of queries that have a tile of keys there.
  __device__ int first() const { return max(0, ahead); }
  __device__ int last() const { return min(query_tiles, key_tiles + ahead); }
};

/// Those of them that are a strip's.
__device__ inline Stretch tiles_of_strip(const Strip& strip, const TileDistance& tiles) {
  const int first_key = static_cast<int>(strip.first_key / kRows);
  const int last_key = static_cast<int>(tiles_of(strip.last_key));
  return {max(max(tiles.first(), static_cast<int>(strip.first / kRows)), tiles.ahead + first_key),
          min(min(tiles.last(), static_cast<int>(tiles_of(strip.last))), tiles.ahead + last_key)};
}

/// The places (tile distance, diagonal) that hold a distance, as call(tile, n): one or two.
template <class Call>
__device__ void for_each_part(const AttentionShape& shape, std::int64_t distance,
                              const Call& call) {
  const std::int64_t key_tiles = tiles_of(shape.keys);
  const std::int64_t shifted = distance - shape.query_offset + (key_tiles - 1) * kRows;
  const std::int64_t tile = shifted >= 0 ? shifted / kRows : (shifted - (kRows - 1)) / kRows;
  const int rest = static_cast<int>(shifted - tile * kRows);
  const std::int64_t tiles = tile_distances(shape);
  if (tile >= 0 && tile < tiles) call(tile, rest + kRows - 1);
  if (rest > 0 && tile + 1 >= 0 && tile + 1 < tiles) call(tile + 1, rest - 1);
}

}  // namespace phasescope::kernels::cuda
