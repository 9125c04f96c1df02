#include "kernels/cpu/tuning.h"

#include <mutex>

#include "kernels/cpu/targets.h"

namespace phasescope::kernels {
namespace {

std::mutex mutex;
std::optional<ForwardTuning> chosen;

bool takes_tuning() {
#if defined(__x86_64__) || defined(_M_X64)
  return __builtin_cpu_is("intel") && current_target() == Target::avx3;
#else
  return false;
#endif
}

}  // namespace

// Measured on an Intel Xeon (family 6, model 207, AVX-512, 2 MB of second-level cache), plain, 128
// channels, speed beside neither, two interleaved runs: fetching ahead 1.02 at 8192 tokens (1.00 at
// 2048), where rows are 16 KB apart 1.03 to 1.10. Packed values with it there 1.11 to 1.17, at rows
// of 4 KB 1.09, at 2048 tokens with rows of 16 KB 1.02 to 1.03; at rows of 2 KB and less 0.98 to
// 1.01. Packed keys beside them 0.97 to 1.03, so that was left out.
//
// On an AMD EPYC (family 25, model 17, Zen 4; float32, plain), one thread of a busy machine:
// fetching ahead 1.04 to 1.08 at 8192 tokens, 1.00 to 1.04 at 2048, 0.98 to 1.02 at 512 and with
// rows of 16 KB; packed values 0.91 to 0.98 with rows of 16 KB, else 0.98 to 1.00. Two threads of a
// quiet one, three interleaved runs: fetching ahead 0.95 to 0.98 at 2048 tokens of 64 channels,
// 0.99 to 1.02 of 128, 1.00 to 1.05 at 6000. Nothing pays everywhere, so nothing is done there, nor
// on processors that were not measured.
ForwardTuning forward_tuning(std::int64_t row_bytes) {
  {
    const std::lock_guard lock(mutex);
    if (chosen) return *chosen;
  }
  if (!takes_tuning()) return {};
  return {.fetches_ahead = true, .packs_values = row_bytes >= 4096};
}

void set_forward_tuning(const std::optional<ForwardTuning>& tuning) {
  const std::lock_guard lock(mutex);
  chosen = tuning;
}

}  // namespace phasescope::kernels
