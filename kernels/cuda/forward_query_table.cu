#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_query_table(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with(attention, outputs, query_table_score(attention));
}

}  // namespace phasescope::kernels::cuda
