#include "kernels/cpu/tuning.h"

#include <mutex>

#include "kernels/cpu/targets.h"

namespace phasescope::kernels {
namespace {

std::mutex mutex;
std::optional<ForwardTuning> chosen;

#if defined(__x86_64__) || defined(_M_X64)
bool is_measured() { return __builtin_cpu_is("intel") && current_target() == Target::avx3; }
#else
bool is_measured() { return false; }
#endif

}  // namespace

// Measured on an Intel Xeon (family 6, model 207, AVX-512, 2 MB of second-level cache), plain, 128
// channels, speed beside neither, two interleaved runs: fetching ahead 1.02 at 8192 tokens (1.00 at
// 2048), where rows are 16 KB apart 1.03 to 1.10. Packed values with it there 1.11 to 1.17, at rows
// of 4 KB 1.09, at 2048 tokens with rows of 16 KB 1.02 to 1.03; at rows of 2 KB and less 0.98 to
// 1.01. Packed keys beside them 0.97 to 1.03, so that was left out. On other processors nothing has
// been measured, so nothing is done there.
ForwardTuning forward_tuning(std::int64_t row_bytes) {
  {
    const std::lock_guard lock(mutex);
    if (chosen) return *chosen;
  }
  if (!is_measured()) return {};
  return {.fetches_ahead = true, .packs_values = row_bytes >= 4096};
}

void set_forward_tuning(const std::optional<ForwardTuning>& tuning) {
  const std::lock_guard lock(mutex);
  chosen = tuning;
}

}  // namespace phasescope::kernels
