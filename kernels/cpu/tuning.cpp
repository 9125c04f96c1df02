#include "kernels/cpu/tuning.h"

#include <mutex>

namespace phasescope::kernels {
namespace {

std::mutex mutex;
std::optional<ForwardTuning> chosen;

}  // namespace

ForwardTuning forward_tuning(std::int64_t row_bytes) {
  {
    const std::lock_guard lock(mutex);
    if (chosen) return *chosen;
  }
  static_cast<void>(row_bytes);
  return {};
}

void set_forward_tuning(const std::optional<ForwardTuning>& tuning) {
  const std::lock_guard lock(mutex);
  chosen = tuning;
}

}  // namespace phasescope::kernels
