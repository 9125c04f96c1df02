#include "kernels/cpu/targets.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace phasescope::kernels {
namespace {

/// What Highway takes each target to have.
bool has_target(Target target) {
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
                    __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
  return target == Target::avx3   ? avx3
         : target == Target::avx2 ? avx2
         : target == Target::sse4 ? sse4
                                  : true;
}

Target best_target() {
  const char* wanted = std::getenv("PHASESCOPE_SIMD");
  Target best = Target::scalar;
  for (const Target target : kTargets) {
    if (!has_target(target)) break;
    best = target;
    if (wanted && std::string_view(wanted) == target_name(target)) break;
  }
  return best;
}

std::atomic<Target>& chosen() {
  static std::atomic<Target> target{best_target()};
  return target;
}

}  // namespace

Target current_target() { return chosen().load(std::memory_order_relaxed); }

bool choose_target(Target target) {
  if (!has_target(target)) return false;
  chosen().store(target, std::memory_order_relaxed);
  return true;
}

const char* target_name(Target target) {
  static const char* const names[] = {"scalar", "sse4", "avx2", "avx3"};
  return names[static_cast<int>(target)];
}

}  // namespace phasescope::kernels
