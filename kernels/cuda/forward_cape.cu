#include "kernels/cuda/cape_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {
namespace {

/// Some rows of some texts, over strips of all keys.
template <typename T, int D>
void launch_rows(const CudaAttention& a, const CudaForwardOutputs& outputs,
                 const CapeMemory& memory, const Range& texts, const Range& rows) {
  const CapeNetwork network = cape_network(a, memory);
  const std::vector<Range> all_keys = key_ranges(a, memory);
  using ScoreProblem = Problem<StoredScore>;
  const auto with_scores = [&](const Range& keys, const auto& call) {
    const Strip strip = strip_of(a, memory, texts, rows, keys);
    const ScoreProblem problem = problem_of(a, StoredScore{.strip = strip});
    launch_scores<T, D>(a, CapeLaunch{problem, strip, network, a.scale}, count_of(texts));
    call(problem);
  };
  const dim3 grid{tiles_of(rows.last - rows.first), static_cast<unsigned>(a.shape.heads),
                  count_of(texts)};
  // What reads the log-sum-exp of whole rows.
  const bool buckets = wants_buckets(outputs.buckets), top_keys = wants_top_keys(outputs.rows);
  const auto measure = [&](const ScoreProblem& problem) {
    if (buckets) launch_distances<T, D>(a, outputs, problem, grid.z);
    if (top_keys) launch_top_keys<T, D>(a, ForwardLaunch{problem, outputs, memory.kept}, grid);
  };
  for (const Range& keys : all_keys) {
    with_scores(keys, [&](const ScoreProblem& problem) {
      launch_forward<T, D>(a, ForwardLaunch{problem, outputs, memory.kept}, grid);
      if (all_keys.size() == 1) measure(problem);
    });
  }
  if (all_keys.size() == 1 || !(buckets || top_keys)) return;
  for (const Range& keys : all_keys) with_scores(keys, measure);
}

}  // namespace

void forward_cape(const CudaAttention& a, const CudaForwardOutputs& outputs) {
  const CapeMemory memory(a, outputs.score_workspace, false);
  launch_cape_tables(a, cape_network(a, memory));
  with_type_and_dim(a, [&](auto type, auto dim) {
    for (const Range& texts : text_ranges(a, memory)) {
      for (const Range& rows : row_ranges(a, memory)) {
        launch_rows<decltype(type), decltype(dim)::value>(a, outputs, memory, texts, rows);
      }
    }
  });
  if (wants_buckets(outputs.buckets)) launch_buckets(a, outputs);
}

}  // namespace phasescope::kernels::cuda
