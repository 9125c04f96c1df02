#pragma once
// Benchmarks (of kernels: bench_results.h).
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

inline constexpr About kRunsAbout{.help = "runs each", .low = 1, .high = 10'000};

// Times the attention kernels beside their rivals: an AttentionBenchResult.
struct KernelsBenchRequest {
  static constexpr const char* method = "bench.kernels";
  static constexpr const char* verb = "";
  std::vector<std::string> variants, passes;
  std::vector<std::int64_t> lengths{512, 2048, 8192}, dims{64, 128}, heads{4};
  std::string dtype, backend = "fused", device;
  std::int64_t runs = 5, seed = 0, threads = 0;
  template <class V>
  void fields(V& v) {
    v("variants", variants,
      About{.help = "plain, table, tapa, tape, cape, fire; layer, heads: all statistics of a "
                    "layer's and of a 12-layer model's heads"});
    v("passes", passes, About{.help = "forward, backward"});
    v("lengths", lengths, About{.help = "tokens", .low = 1});
    v("dims", dims, About{.help = "head dimensions", .low = 1});
    v("heads", heads, About{.help = "heads", .low = 1});
    v("dtype", dtype, About{.help = "of the inputs", .choices = kDtypes});
    v("backend", backend, kBackendAbout);
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

struct BenchRow {
  std::string name, unit;
  double value = 0, min = 0, max = 0;
  int64_t runs = 0;
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
