#include "kernels/cpu/buffer.h"

#include <omp.h>

namespace phasescope::kernels {

int parallel_threads() { return omp_get_max_threads(); }

void parallel_items(std::int64_t count, const std::function<void(std::int64_t, int)>& run) {
  if (count == 1) {
    run(0, 0);
    return;
  }
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t item = 0; item < count; ++item) run(item, omp_get_thread_num());
}

}  // namespace phasescope::kernels
