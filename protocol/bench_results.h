#pragma once
// Results of `bench kernels`: fields may be added, never renamed (cli.md, "JSON forms").
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/ran.h"

namespace phasescope::protocol {

// One implementation of ours beside one rival. Times are medians of interleaved runs; what could
// not be measured is NaN. `over_plain` and `speedup_over_rival` are quotients of wall times.
struct AttentionBenchRow {
  std::string variant, pass, dtype, probes, rival;
  // What was timed; none where nothing was, which was left out. `kernel` has its words, or why.
  std::optional<Ran> ran;
  std::string kernel;
  std::int64_t heads = 0, n = 0, d = 0;
  double ms = 0, ms_min = 0, ms_max = 0;  // of our runs
  double gflops = 0, over_plain = 0, rival_ms = 0, speedup_over_rival = 0;
  double peak_mb = 0, rival_peak_mb = 0;  // held at the peak above what was there before
  double cpu_ms = 0, rival_cpu_ms = 0;    // processor time of all threads
  template <class V>
  void fields(V& v) {
    v("variant", variant), v("pass", pass), v("dtype", dtype), v("heads", heads);
    v("n", n, About{.title = "N", .unit = "tokens"});
    v("d", d, About{.title = "D", .unit = "channels"}), v("probes", probes), v("kernel", kernel);
    v("ran", ran);
    v("ms", ms, About{.title = "time", .unit = "ms"});
    v("ms_min", ms_min, About{.title = "shortest", .unit = "ms"});
    v("ms_max", ms_max, About{.title = "longest", .unit = "ms"});
    v("gflops", gflops, About{.title = "GFLOP/s"});
    v("over_plain", over_plain, About{.title = "over plain"}), v("rival", rival);
    v("rival_ms", rival_ms, About{.title = "rival's time", .unit = "ms"});
    v("speedup_over_rival", speedup_over_rival, About{.title = "speedup over rival"});
    v("peak_mb", peak_mb, About{.title = "peak", .unit = "MB"});
    v("rival_peak_mb", rival_peak_mb, About{.title = "rival's peak", .unit = "MB"});
    v("cpu_ms", cpu_ms, About{.title = "processor time", .unit = "ms"});
    v("rival_cpu_ms", rival_cpu_ms, About{.title = "rival's processor time", .unit = "ms"});
  }
};

// Operations of a row's pass: multiply-adds of the causal half count as two; backward is five
// products where forward has two. The same for every variant: what plain attention of this size
// would take.
inline double causal_flops(const AttentionBenchRow& row) {
  const double pairs = 0.5 * static_cast<double>(row.n) * static_cast<double>(row.n + 1);
  return (row.pass == "forward" ? 4.0 : 10.0) * static_cast<double>(row.heads * row.d) * pairs;
}

struct AttentionBench {
  std::string device;                 // "cpu", "cuda"
  std::string processor;              // "AMD EPYC (family 25, model 17)", or the GPU's name
  std::string kernel;                 // "fused cpu avx3", "cuda-unverified"
  std::string build;                  // the same, compiler, LibTorch
  std::string layout = "contiguous";  // of q, k and v: KernelsBenchRequest
  std::int64_t threads = 0;           // of the processor
  std::int64_t runs = 0;              // of each row
  // The peak of all threads, or of a large matrix product on a GPU, measured in the same run.
  double fma_peak_gflops = 0;
  std::vector<AttentionBenchRow> rows;
  template <class V>
  void fields(V& v) {
    v("device", device), v("processor", processor), v("kernel", kernel), v("build", build);
    v("layout", layout), v("threads", threads), v("runs", runs);
    v("fma_peak_gflops", fma_peak_gflops);
    v("rows", rows);
  }
};

}  // namespace phasescope::protocol
