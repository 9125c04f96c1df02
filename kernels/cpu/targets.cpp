#include "kernels/cpu/targets.h"

#include <atomic>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace phasescope::kernels {
namespace {

#if defined(__x86_64__) || defined(_M_X64)
bool is_compiled(Target target) {
  return (PHASESCOPE_TARGETS >> static_cast<int>(target) & 1) != 0;
}

/// What Highway takes each target to have.
bool has_target(Target target) {
  if (!is_compiled(target)) return false;
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
#else
bool has_target(Target target) { return target == Target::scalar; }
#endif

std::atomic<Target>& chosen() {
  static std::atomic<Target> target{best_target(std::getenv("PHASESCOPE_SIMD"))};
  return target;
}

}  // namespace

Target best_target(const char* wanted) {
  const std::string_view name = wanted ? wanted : "";
  std::optional<Target> best;
  for (const Target target : kTargets) {
    if (!has_target(target)) continue;
    best = target;
    if (name == target_name(target)) return target;
  }
  if (!best) {
    throw std::invalid_argument(
        "[attention] this build's kernels are for another processor alone; build them here (./dev "
        "build)");
  }
  if (name.empty()) return *best;
  throw std::invalid_argument(
      "[attention] expected PHASESCOPE_SIMD to be one of scalar, sse4, avx2 and avx3, as far as "
      "this processor and this build have them (up to " +
      std::string(target_name(*best)) + "), but got \"" + std::string(name) + "\"");
}

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
