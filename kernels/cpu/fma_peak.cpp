#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fma_peak.cpp"
#include "kernels/cpu/targets.h"
// After the list of targets.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <numeric>
#include <thread>
#include <vector>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/fma_peak.h"

#if PHASESCOPE_TARGET_RUNS
HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// `rounds` of one chain; see below.
double multiply_add_chain(long rounds, float& keep) {
  const hn::ScalableTag<float> tag;
  const auto factor = hn::Set(tag, 0.999f), addend = hn::Set(tag, 1e-3f);
  auto a = hn::Iota(tag, 0);
  for (long n = 0; n < rounds; ++n) a = hn::MulAdd(a, factor, addend);
  keep = hn::GetLane(hn::SumOfLanes(tag, a));
  return 2.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(tag));
}

/// `rounds` of 12 independent chains; returns the operations done, and a sum that keeps them alive.
double multiply_add(long rounds, float& keep) {
  const hn::ScalableTag<float> tag;
  const auto factor = hn::Set(tag, 0.999f), addend = hn::Set(tag, 1e-3f);
  // Different values, or the compiler would see that the chains are the same.
  auto a = hn::Iota(tag, 0), b = hn::Iota(tag, 1), c = hn::Iota(tag, 2), d = hn::Iota(tag, 3);
  auto e = hn::Iota(tag, 4), f = hn::Iota(tag, 5), g = hn::Iota(tag, 6), h = hn::Iota(tag, 7);
  auto i = hn::Iota(tag, 8), j = hn::Iota(tag, 9), k = hn::Iota(tag, 10), l = hn::Iota(tag, 11);
  for (long n = 0; n < rounds; ++n) {
    a = hn::MulAdd(a, factor, addend);
    b = hn::MulAdd(b, factor, addend);
    c = hn::MulAdd(c, factor, addend);
    d = hn::MulAdd(d, factor, addend);
    e = hn::MulAdd(e, factor, addend);
    f = hn::MulAdd(f, factor, addend);
    g = hn::MulAdd(g, factor, addend);
    h = hn::MulAdd(h, factor, addend);
    i = hn::MulAdd(i, factor, addend);
    j = hn::MulAdd(j, factor, addend);
    k = hn::MulAdd(k, factor, addend);
    l = hn::MulAdd(l, factor, addend);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(a, b), hn::Add(c, d)),
      hn::Add(hn::Add(hn::Add(e, f), hn::Add(g, h)), hn::Add(hn::Add(i, j), hn::Add(k, l))));
  keep = hn::GetLane(hn::SumOfLanes(tag, sum));
  return 24.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(tag));
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace phasescope::kernels {
namespace {

constexpr double kSeconds = 0.2;
constexpr long kRounds = 100'000;  // well under a millisecond between two looks at the clock

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Operations a second of this thread.
double thread_rate() {
  const auto run = PHASESCOPE_SELECT_TARGET(multiply_add);
  volatile float sink = 0;
  double operations = 0, passed = 0;
  for (const double start = thread_seconds(); passed < kSeconds;
       passed = thread_seconds() - start) {
    float keep = 0;
    operations += run(kRounds, keep);
    sink = keep;
  }
  static_cast<void>(sink);
  return operations / passed;
}

/// The least seconds of an operation, in short runs.
double seconds_of_operation(double (*run)(long, float&), long rounds) {
  constexpr int kRuns = 40;
  double least = 1;
  volatile float sink = 0;
  for (int n = 0; n < kRuns; ++n) {
    float keep = 0;
    const auto begin = std::chrono::steady_clock::now();
    const double operations = run(rounds, keep);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    sink = keep;
    least = std::min(least, passed.count() / operations);
  }
  static_cast<void>(sink);
  return least;
}

}  // namespace

double fma_vectors_a_cycle() {
  constexpr double kLatency = 4;  // cycles
  constexpr long kSteps = 20'000;
  const auto chain = PHASESCOPE_SELECT_TARGET(multiply_add_chain);
  const auto chains = PHASESCOPE_SELECT_TARGET(multiply_add);
  return seconds_of_operation(chain, kSteps) / seconds_of_operation(chains, kSteps / 3) / kLatency;
}

double fma_peak(int threads) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (double& rate : rates) running.emplace_back([&rate] { rate = thread_rate(); });
  for (std::thread& thread : running) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace phasescope::kernels
#endif
