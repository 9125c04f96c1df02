#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_query_table(const CudaAttention& attention, const CudaScoreSums& sums) {
  sums_with(attention, sums, query_table_score(attention));
}

}  // namespace phasescope::kernels::cuda
