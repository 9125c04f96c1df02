// Time and memory of a call in this process, and what it runs on.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace phasescope::worker {

// Does what is not timed and returns what is.
using Preparation = std::function<std::function<void()>()>;

Preparation timed_whole(std::function<void()> call);

// The time of one call, in milliseconds. Processor time is that of all threads: on a busy machine
// it is nearer the truth than the clock.
struct CallTime {
  double wall = 0, cpu = 0;
};
CallTime time_of(const Preparation& prepare);

// What the call holds at its peak above what was there before it, in MB (2^20 bytes), whatever ran
// before it: it runs once without being measured, since a first call brings in code and buffers
// that libraries keep. The kernels' kept scratch counts as the call's. Linux counts pages by
// processor and adds up late: 0.1 MB a processor may be missing.
double peak_mb_of(const Preparation& prepare);

// All NaN of nothing.
struct Spread {
  double median, least, largest;
};
Spread spread_of(std::vector<double> values);

// The first processor that Linux's /proc/cpuinfo lists: "Intel(R) Xeon(R) CPU @ 2.20GHz", and with
// its numbers where the name has none: "AMD EPYC (family 25, model 17)".
std::string processor_name(std::istream& cpuinfo);

}  // namespace phasescope::worker
