#include "worker/bench/bench_timing.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <istream>
#include <map>
#include <sstream>
#include <string>

#include "kernels/scratch.h"

namespace phasescope::worker {
namespace {

double status_mb(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) != 0) continue;
    std::istringstream words(line.substr(key.size() + 1));
    double kilobytes = 0;
    words >> kilobytes;
    return kilobytes / 1024;
  }
  return std::nan("");
}

// While it lives, every block of some size is made of pages of its own, which go back when it is
// freed. Otherwise a call that gets what an earlier one freed seems to hold nothing: glibc keeps
// what lies at the end of a thread's heap, up to 64 MB of it, where malloc_trim() does not reach.
class PagesOfTheirOwn {
 public:
  PagesOfTheirOwn() {
    give_back_end_of_heap();
    malloc_trim(0);  // pages among small blocks that are free
    mallopt(M_MMAP_THRESHOLD, 16 << 10);
    mallopt(M_TRIM_THRESHOLD, -1);  // what other threads' heaps keep is not to go during a call
  }
  // To the largest that glibc raises both to by itself as blocks are freed: what is timed next
  // reuses memory, whatever was measured before it.
  ~PagesOfTheirOwn() {
    mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
    mallopt(M_TRIM_THRESHOLD, 2 * kLargestThreshold);
  }
  PagesOfTheirOwn(const PagesOfTheirOwn&) = delete;
  PagesOfTheirOwn& operator=(const PagesOfTheirOwn&) = delete;

 private:
  static constexpr int kLargestThreshold = 32 << 20;

  // Freeing a block of 64 KB or more is when glibc looks at the end of its heap.
  static void give_back_end_of_heap() {
    mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
    mallopt(M_TRIM_THRESHOLD, 0);
    void* volatile block = std::malloc(std::size_t{128} << 10);  // volatile: neither is left out
    std::free(block);
  }
};

double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Preparation timed_whole(std::function<void()> call) {
  return [call = std::move(call)] { return call; };
}

CallTime time_of(const Preparation& prepare) {
  const std::function<void()> call = prepare();
  const double cpu = processor_ms();
  const auto begin = std::chrono::steady_clock::now();
  call();
  const auto end = std::chrono::steady_clock::now();
  return {std::chrono::duration<double, std::milli>(end - begin).count(), processor_ms() - cpu};
}

double peak_mb_of(const Preparation& prepare) {
  prepare()();
  kernels::release_scratch();
  const PagesOfTheirOwn pages;
  const std::function<void()> call = prepare();
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from the present size
  const double before = status_mb("VmRSS");
  call();
  const double held = status_mb("VmHWM") - before;
  return held < 0 ? 0 : held;  // NaN stays what it is
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {std::nan(""), std::nan(""), std::nan("")};
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::string processor_name(std::istream& cpuinfo) {
  std::map<std::string, std::string> first;  // value by key
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const std::size_t colon = line.find(": ");
    const std::size_t key = line.find_first_of("\t:");
    if (colon != std::string::npos) first.emplace(line.substr(0, key), line.substr(colon + 2));
  }
  const std::string name = first.contains("model name") ? first["model name"] : "unknown processor";
  const bool numbered = name.find_first_of("0123456789") != std::string::npos;
  if (numbered || !first.contains("cpu family") || !first.contains("model")) return name;
  return name + " (family " + first["cpu family"] + ", model " + first["model"] + ")";
}

}  // namespace phasescope::worker
