#include "worker/bench_timing.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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

double peak_mb_of(const std::function<void()>& call) {
  kernels::release_scratch();
  malloc_trim(0);  // memory that was freed and kept for the next call would not be seen again
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from the present size
  const double before = status_mb("VmRSS");
  call();
  return std::max(0.0, status_mb("VmHWM") - before);
}

double median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
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
