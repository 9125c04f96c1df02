#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void backward_query_table(const CudaAttention& attention, const SavedForward& saved,
                          const CudaGradients& gradients) {
  backward_with(attention, saved, gradients, query_table_score(attention));
}

}  // namespace phasescope::kernels::cuda
