#include "kernels/cuda/cape_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_cape(const CudaAttention& a, const CudaForwardOutputs& outputs) {
  const CapeMemory memory(a, outputs.score_workspace, false);
  const CapeNetwork network = cape_network(a, memory);
  const bool buckets = wants_buckets(outputs.buckets);
  launch_cape_tables(a, network);
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    for_each_strip(a, memory, [&](const Strip& strip) {
      const auto problem = problem_of(a, StoredScore{.strip = strip});
      launch_scores<T, kDim>(a, CapeLaunch{problem, strip, network, a.scale});
      const dim3 grid{tiles_of(strip.last - strip.first), static_cast<unsigned>(a.shape.heads), 1};
      launch_forward<T, kDim>(a, ForwardLaunch<StoredScore>{problem, outputs}, grid);
      if (buckets) launch_distances<T, kDim>(a, outputs, problem, 1);
    });
  });
  if (buckets) launch_buckets(a, outputs);
}

}  // namespace phasescope::kernels::cuda
