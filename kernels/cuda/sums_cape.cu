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

}  // namespace phasescope::kernels::cuda
