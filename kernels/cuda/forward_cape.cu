#include "kernels/cuda/cape_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// Some rows of a batch entry, over strips of all keys.
template <typename T, int D>
void launch_rows(const CudaAttention& a, const CudaForwardOutputs& outputs,
                 const CapeMemory& memory, std::int64_t batch, const Range& rows) {
  const CapeNetwork network = cape_network(a, memory);
  const std::vector<Range> all_keys = key_ranges(a, memory);
  const auto scores_of = [&](const Range& keys) {
    const Strip strip = strip_of(memory, batch, rows, keys);
    const auto problem = problem_of(a, StoredScore{.strip = strip});
    launch_scores<T, D>(a, CapeLaunch{problem, strip, network, a.scale});
    return problem;
  };
  const dim3 grid{tiles_of(rows.last - rows.first), static_cast<unsigned>(a.shape.heads), 1};
  // What reads the log-sum-exp of whole rows.
  const bool buckets = wants_buckets(outputs.buckets), top_keys = wants_top_keys(outputs.rows);
  const auto measure = [&](const Problem<StoredScore>& problem) {
    if (buckets) launch_distances<T, D>(a, outputs, problem, 1);
    if (top_keys) launch_top_keys<T, D>(a, ForwardLaunch{problem, outputs, memory.kept}, grid);
  };
  for (const Range& keys : all_keys) {
    const auto problem = scores_of(keys);
    launch_forward<T, D>(a, ForwardLaunch{problem, outputs, memory.kept}, grid);
    if (all_keys.size() == 1) measure(problem);
  }
  if (all_keys.size() == 1 || !(buckets || top_keys)) return;
  for (const Range& keys : all_keys) measure(scores_of(keys));
}

}  // namespace

void forward_cape(const CudaAttention& a, const CudaForwardOutputs& outputs) {
  const CapeMemory memory(a, outputs.score_workspace, false);
  launch_cape_tables(a, cape_network(a, memory));
  with_type_and_dim(a, [&](auto type, auto dim) {
    for (std::int64_t batch = 0; batch < a.shape.batch; ++batch) {
      for (const Range& rows : row_ranges(a, memory)) {
        launch_rows<decltype(type), decltype(dim)::value>(a, outputs, memory, batch, rows);
      }
    }
  });
  if (wants_buckets(outputs.buckets)) launch_buckets(a, outputs);
}

}  // namespace phasescope::kernels::cuda
