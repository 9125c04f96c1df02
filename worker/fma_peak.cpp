#include "worker/fma_peak.h"

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace phasescope::worker {
namespace {

constexpr std::int64_t kRounds = 20'000;
// Enough chains to hide the latency of a multiply-add on every processor we know.
constexpr int kChains = 16;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float run_512() {
  __m512 sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_set1_ps(float(c));
  const __m512 a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(1e-3F);
  for (std::int64_t i = 0; i < kRounds; ++i)
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  float lanes[16], total = 0;
  for (int c = 0; c < kChains; ++c) {
    _mm512_storeu_ps(lanes, sum[c]);
    for (float lane : lanes) total += lane;
  }
  return total;
}

__attribute__((target("avx2,fma"))) float run_256() {
  constexpr int chains = 12;  // 16 registers: two are constants
  __m256 sum[chains];
  for (int c = 0; c < chains; ++c) sum[c] = _mm256_set1_ps(float(c));
  const __m256 a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(1e-3F);
  for (std::int64_t i = 0; i < kRounds; ++i)
    for (int c = 0; c < chains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  float lanes[8], total = 0;
  for (int c = 0; c < chains; ++c) {
    _mm256_storeu_ps(lanes, sum[c]);
    for (float lane : lanes) total += lane;
  }
  return total;
}
#endif

float run_scalar() {
  float sum[kChains] = {};
  for (std::int64_t i = 0; i < kRounds; ++i)
    for (float& chain : sum) chain = chain * 0.999F + 1e-3F;
  float total = 0;
  for (float chain : sum) total += chain;
  return total;
}

struct Loop {
  float (*run)();
  double flops;  // of one call
};

Loop widest_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {run_512, 2.0 * kRounds * kChains * 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {run_256, 2.0 * kRounds * 12 * 8};
#endif
  return {run_scalar, 2.0 * kRounds * kChains};
}

}  // namespace

double fma_peak_gflops(int threads, double seconds) {
  const Loop loop = widest_loop();
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> workers;
  for (double& rate : rates)
    workers.emplace_back([&rate, loop, seconds] {
      using clock = std::chrono::steady_clock;
      const auto begin = clock::now();
      double calls = 0, passed = 0;
      volatile float kept = 0;  // the sums must not be optimised away
      while (passed < seconds) {
        kept = loop.run();
        ++calls;
        passed = std::chrono::duration<double>(clock::now() - begin).count();
      }
      static_cast<void>(kept);
      rate = calls * loop.flops / passed / 1e9;
    });
  for (std::thread& worker : workers) worker.join();
  double total = 0;
  for (double rate : rates) total += rate;
  return total;
}

}  // namespace phasescope::worker
