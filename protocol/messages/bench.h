#pragma once
// Benchmarks (of kernels: bench_results.h).
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

inline constexpr About kRunsAbout{.help = "timed runs of each", .low = 1, .high = 10'000};

// Times the attention kernels beside their rivals: an AttentionBenchResult.
struct KernelsBenchRequest {
  static constexpr const char* method = "bench.kernels";
  static constexpr const char* verb = "";
  std::vector<std::string> variants, passes;
  std::vector<std::int64_t> lengths{512, 2048, 8192}, dims{64, 128}, heads{4};
  std::string dtype, layout = "contiguous", backend = "fused", device;
  bool atomic_dq = false;
  std::int64_t runs = 5, seed = 0, threads = 0;
  template <class V>
  void fields(V& v) {
    v("variants", variants,
      About{.help = "plain, table, tapa, tape, cape, fire, sinks, gates, forgetting (a bias by "
                    "token), query_table, relative_keys, clamp; layer, heads: all statistics of a "
                    "layer's and of a 12-layer model's heads"});
    v("passes", passes, About{.help = "forward, backward"});
    v("lengths", lengths, About{.help = "tokens", .low = 1});
    v("dims", dims, About{.help = "head dimensions", .low = 1});
    v("heads", heads, About{.help = "heads", .low = 1});
    v("dtype", dtype, About{.help = "of the inputs", .choices = kDtypes});
    v("layout", layout,
      About{.help = "how q, k and v lie in memory: a head's rows one after the other, or a token's "
                    "heads beside each other, as a model's products leave them",
            .choices = "contiguous|model"});
    v("backend", backend, kBackendAbout);
    v("atomic_dq", atomic_dq,
      About{.help =
                "time backward passes that sum the gradients of queries and of tables by atomic "
                "additions, whose last bits differ from run to run",
            .of = "backend=cuda-unverified"});
    v("device", device, kDeviceAbout), v("threads", threads, kThreadsAbout);
    v("runs", runs, kRunsAbout), v("seed", seed, kSeedAbout);
  }
};

// Times how models are opened: a BenchResult.
struct LoadBenchRequest {
  static constexpr const char* method = "bench.load";
  static constexpr const char* verb = "";
  std::vector<std::string> models;
  std::string device;
  std::int64_t runs = 5;
  template <class V>
  void fields(V& v) {
    v("models", models, About{.help = "of them (default: the bundled ones)"});
    v("device", device, kDeviceAbout), v("runs", runs, kRunsAbout);
  }
};

// Times steps of trainings and forward passes of their models, interleaved: a StepBench.
struct StepBenchRequest {
  static constexpr const char* method = "bench.step";
  static constexpr const char* verb = "";
  json configs;
  std::vector<std::int64_t> lengths;
  std::string device, backend;
  bool forward_only = false;
  std::int64_t runs = 5, threads = 0;
  template <class V>
  void fields(V& v) {
    v("configs", configs,
      About{.help = "a list of {\"name\", \"config\"}: run configurations, the first of which the "
                    "others are held against"});
    v("lengths", lengths,
      About{.help = "tokens of a window (default: the model's context)", .low = 1});
    v("device", device, About{.help = "in place of the configurations' own: cpu or cuda[:i]"});
    v("backend", backend,
      About{.help = "in place of the configurations' own", .choices = kBackendAbout.choices});
    v("forward_only", forward_only,
      About{.help = "no steps, whose optimiser takes three times the weights' memory"});
    v("runs", runs, kRunsAbout), v("threads", threads, kThreadsAbout);
  }
};

// One training at one length. Times are medians of interleaved runs; what could not be measured is
// NaN. `over_first` is the step's time over that of the first configuration at the same length;
// where there are no steps, it and `tokens_per_second` are of the forward pass.
struct StepBenchRow {
  std::string name, encoding, kernel, device = "cpu";
  std::string dtype;  // of the products, ours and the rival's
  std::int64_t parameters = 0, length = 0, windows = 0;
  double forward_ms = 0, step_ms = 0, step_ms_min = 0, step_ms_max = 0;
  double over_first = 0, tokens_per_second = 0;
  double peak_mb = 0;  // held by a step at its peak above what was there before
  std::int64_t to_device = 0, to_host = 0;  // copies that a step makes; single values among them
  std::string rival;
  double rival_ms = 0, speedup_over_rival = 0;
  template <class V>
  void fields(V& v) {
    v("name", name), v("encoding", encoding), v("kernel", kernel, About{.title = "attention by"});
    v("device", device), v("dtype", dtype, About{.title = "products in"});
    v("parameters", parameters), v("length", length, About{.title = "N", .unit = "tokens"});
    v("windows", windows);
    v("forward_ms", forward_ms, About{.title = "forward", .unit = "ms"});
    v("step_ms", step_ms, About{.title = "step", .unit = "ms"});
    v("step_ms_min", step_ms_min, About{.title = "shortest", .unit = "ms"});
    v("step_ms_max", step_ms_max, About{.title = "longest", .unit = "ms"});
    v("over_first", over_first, About{.title = "over the first"});
    v("tokens_per_second", tokens_per_second, About{.title = "speed", .unit = "tokens/s"});
    v("peak_mb", peak_mb, About{.title = "peak", .unit = "MB"});
    v("to_device", to_device, About{.title = "copies to the device"});
    v("to_host", to_host, About{.title = "copies to the host"}), v("rival", rival);
    v("rival_ms", rival_ms, About{.title = "rival's time", .unit = "ms"});
    v("speedup_over_rival", speedup_over_rival, About{.title = "speedup over rival"});
  }
};

struct StepBench {
  std::string processor;
  std::int64_t threads = 0, runs = 0;
  std::vector<StepBenchRow> rows;
  template <class V>
  void fields(V& v) {
    v("processor", processor), v("threads", threads), v("runs", runs), v("rows", rows);
  }
};

struct BenchRow {
  std::string name, unit;
  double value = 0, min = 0, max = 0;
  std::int64_t runs = 0;
  // What else did the same in runs between ours, and our value over its own; empty for none.
  std::string rival = {};
  double rival_value = std::numeric_limits<double>::quiet_NaN();
  double over_rival = std::numeric_limits<double>::quiet_NaN();
  template <class V>
  void fields(V& v) {
    v("name", name), v("value", value), v("unit", unit), v("runs", runs), v("min", min);
    v("max", max), v("rival", rival), v("rival_value", rival_value, About{.title = "rival's"});
    v("over_rival", over_rival, About{.title = "over the rival's"});
  }
};

struct BenchResult {
  std::string device;
  std::vector<BenchRow> rows;
  template <class V>
  void fields(V& v) {
    v("device", device), v("rows", rows);
  }
};

}  // namespace phasescope::protocol
