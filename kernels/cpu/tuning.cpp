#include "kernels/cpu/tuning.h"

#include <mutex>

#include "kernels/cpu/targets.h"

namespace phasescope::kernels {
namespace {

std::mutex mutex;
std::optional<ForwardTuning> chosen;

// The processors that were measured, with AVX-512; family 25 of AMD has it from Zen 4 on.
enum class Measured { none, intel, zen4 };

Measured measured() {
#if defined(__x86_64__) || defined(_M_X64)
  if (current_target() != Target::avx3) return Measured::none;
  if (__builtin_cpu_is("intel")) return Measured::intel;
  if (__builtin_cpu_is("amdfam19h")) return Measured::zen4;
#endif
  return Measured::none;
}

}  // namespace

// Measured on an Intel Xeon (family 6, model 207, AVX-512, 2 MB of second-level cache), plain, 128
// channels, speed beside neither, two interleaved runs: fetching ahead 1.02 at 8192 tokens (1.00 at
// 2048), where rows are 16 KB apart 1.03 to 1.10. Packed values with it there 1.11 to 1.17, at rows
// of 4 KB 1.09, at 2048 tokens with rows of 16 KB 1.02 to 1.03; at rows of 2 KB and less 0.98 to
// 1.01. Packed keys beside them 0.97 to 1.03, so that was left out.
//
// On an AMD EPYC (family 25, model 17, Zen 4), plain, one thread's processor time, medians of seven
// interleaved runs, twice: fetching ahead with rows one behind the other 1.04 to 1.08 at 8192
// tokens (64 and 128 channels), 1.00 to 1.04 at 2048, 0.98 to 1.02 at 512; with rows of 16 KB 0.98
// to 1.02, so it is left out there. Packed values 0.91 to 0.98 with rows of 16 KB, else 0.98 to
// 1.00: never. All of float32. On other processors nothing has been measured, so nothing is done
// there.
ForwardTuning forward_tuning(std::int64_t row_bytes) {
  {
    const std::lock_guard lock(mutex);
    if (chosen) return *chosen;
  }
  switch (measured()) {
    case Measured::intel:
      return {.fetches_ahead = true, .packs_values = row_bytes >= 4096};
    case Measured::zen4:
      return {.fetches_ahead = row_bytes > 0 && row_bytes < 4096, .packs_values = false};
    case Measured::none:
      break;
  }
  return {};
}

void set_forward_tuning(const std::optional<ForwardTuning>& tuning) {
  const std::lock_guard lock(mutex);
  chosen = tuning;
}

}  // namespace phasescope::kernels
