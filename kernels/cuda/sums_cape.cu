#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/cape_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_cape(const CudaAttention& a, const CudaScoreSums& sums) {
  const CapeMemory memory(a, sums.score_workspace, false);
  const CapeNetwork network = cape_network(a, memory);
  launch_cape_tables(a, network);
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    for (const Range& texts : text_ranges(a, memory)) {
      for (const Range& rows : row_ranges(a, memory)) {
        for (const Range& keys : key_ranges(a, memory)) {
          const Strip strip = strip_of(a, memory, texts, rows, keys);
          const auto problem = problem_of(a, StoredScore{.strip = strip});
          if (a.shape.queries > 0) {
            launch_scores<T, kDim>(a, CapeLaunch{problem, strip, network, a.scale},
                                   count_of(texts));
          }
          launch_sums<T, kDim>(a, sums, problem, count_of(texts));
        }
      }
    }
  });
  join_sums(a, sums);
}

namespace {

/// Of the tiles that hold begin .. end - 1, of `count` rows or keys, as many at a time as a strip
/// has.
std::vector<Range> tile_ranges(std::int64_t begin, std::int64_t end, std::int64_t count,
                               std::int64_t step) {
  const std::int64_t first = begin / kRows * kRows;
  const std::int64_t last = std::min(count, (end + kRows - 1) / kRows * kRows);
  std::vector<Range> result = ranges(last - first, step);
  for (Range& range : result) range = {range.first + first, range.last + first};
  return result;
}

}  // namespace

void region_cape(const CudaAttention& a, const CudaRegion& wanted) {
  const CapeMemory memory(a, wanted.score_workspace, false);
  const CapeNetwork network = cape_network(a, memory);
  launch_cape_tables(a, network);
  const Region& region = wanted.region;
  const Range text{region.batch, region.batch + 1};
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    for (const Range& rows :
         tile_ranges(region.row_begin, region.row_end, a.shape.queries, memory.rows)) {
      for (const Range& keys :
           tile_ranges(region.col_begin, region.col_end, a.shape.keys, memory.keys)) {
        const Strip strip = strip_of(a, memory, text, rows, keys);
        const auto problem = problem_of(a, StoredScore{.strip = strip});
        launch_scores<T, kDim>(a, CapeLaunch{problem, strip, network, a.scale}, 1);
        launch_region<T, kDim>(a, wanted, problem);
      }
    }
  });
}

}  // namespace phasescope::kernels::cuda
