#include "worker/bench/handle_bench.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "formats/error.h"
#include "kernels/cuda/attention_cuda.h"
#include "kernels/fma_peak.h"
#include "model/attention/attention.h"
#include "model/attention/cuda_attention.h"
#include "model/checkpoints/open_model.h"
#include "model/devices.h"
#include "protocol/bench_results.h"
#include "protocol/messages/bench.h"
#include "worker/bench/bench_timing.h"
#include "worker/bench/kernel_cases.h"
#include "worker/bench/kernel_rivals.h"
#include "worker/bench/step_bench.h"

namespace phasescope::worker {
namespace {

using protocol::AttentionBenchRow;
using protocol::Reply;

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

// What is timed here is the CPU's.
void require_cpu(const std::string& device) {
  if (model::device_named(device).is_cpu()) return;
  throw formats::bad_usage("this is timed on the CPU, not on " + device, "device",
                           "--backend cuda-unverified times the CUDA kernels");
}

// ---- bench.kernels -----------------------------------------------------------------------------

// Every case once, then all again: what drifts on a shared machine drifts for all of them.
class InterleavedRuns {
 public:
  InterleavedRuns(std::vector<KernelCase> cases, std::int64_t runs, RequestContext& context)
      : cases_(std::move(cases)), runs_(runs), context_(context) {
    for (KernelCase& one : cases_) {
      ours_.push_back({warm_up(one), {}, {}});
      std::vector<Timed>& rivals = rivals_.emplace_back();
      for (Rival& rival : one.rivals) {
        rivals.push_back({warm_up(rival, one.gpu), {}, {}});
        context_.throw_if_cancelled();
      }
      context_.throw_if_cancelled();
    }
    for (std::int64_t run = 0; run < runs_; ++run) run_all(run);
  }

  // One a case and rival; one alone where there is no rival.
  void add_rows(std::vector<AttentionBenchRow>& rows) const {
    const std::map<std::string, double> plain = plain_ms();
    for (std::size_t n = 0; n < cases_.size(); ++n) {
      AttentionBenchRow row = cases_[n].row;
      const Spread wall = spread_of(ours_[n].wall);
      row.ms = wall.median;
      row.ms_min = wall.least;
      row.ms_max = wall.largest;
      row.cpu_ms = spread_of(ours_[n].cpu).median;
      row.peak_mb = ours_[n].peak_mb;
      row.gflops =
          row.variant == "heads" ? std::nan("") : protocol::causal_flops(row) / row.ms / 1e6;
      const auto base = plain.find(row.pass);
      row.over_plain =
          base == plain.end() || row.variant == "heads" ? std::nan("") : row.ms / base->second;
      row.rival_ms = row.rival_cpu_ms = row.rival_peak_mb = row.speedup_over_rival = std::nan("");
      if (rivals_[n].empty()) rows.push_back(row);
      for (std::size_t r = 0; r < rivals_[n].size(); ++r) {
        row.rival = cases_[n].rivals[r].name;
        row.rival_ms = spread_of(rivals_[n][r].wall).median;
        row.rival_cpu_ms = spread_of(rivals_[n][r].cpu).median;
        row.rival_peak_mb = rivals_[n][r].peak_mb;
        row.speedup_over_rival = row.rival_ms / row.ms;
        rows.push_back(row);
      }
    }
  }

 private:
  struct Timed {
    double peak_mb;
    std::vector<double> wall, cpu;

    void run(const Preparation& prepare, const KernelCase& of) {
      const CallTime time = time_of(prepare);
      wall.push_back(time.wall / static_cast<double>(of.calls));
      cpu.push_back(of.gpu ? std::nan("") : time.cpu);
    }
  };

  // Runs once; MB held at the peak.
  static double warm_up(const KernelCase& one) {
    if (!one.ours) return std::nan("");
    if (!one.gpu) return peak_mb_of(one.ours);
    one.ours()();
    return one.row.peak_mb;
  }
  // A rival that cannot run here is left out, and its name says why.
  static double warm_up(Rival& rival, bool gpu) {
    if (!rival.run) return std::nan("");
    try {
      return gpu ? gpu_peak_mb_of(rival.run()) : peak_mb_of(rival.run);
    } catch (const c10::Error& error) {
      rival.name += left_out(error.what_without_backtrace());
    } catch (const std::exception& error) {
      rival.name += left_out(error.what());
    }
    rival.run = {};
    return std::nan("");
  }
  static std::string left_out(const std::string& reason) {
    return " (left out: " + reason.substr(0, reason.find('\n')) + ")";
  }

  void run_all(std::int64_t run) {
    for (std::size_t n = 0; n < cases_.size(); ++n) {
      const AttentionBenchRow& row = cases_[n].row;
      context_.progress(static_cast<double>(run) / static_cast<double>(runs_),
                        row.variant + " " + row.pass + " N " + std::to_string(row.n));
      if (cases_[n].ours) ours_[n].run(cases_[n].ours, cases_[n]);
      for (std::size_t r = 0; r < rivals_[n].size(); ++r) {
        context_.throw_if_cancelled();
        if (cases_[n].rivals[r].run) rivals_[n][r].run(cases_[n].rivals[r].run, cases_[n]);
      }
      context_.throw_if_cancelled();
    }
  }

  // The time of plain attention without probes, by pass.
  std::map<std::string, double> plain_ms() const {
    std::map<std::string, double> ms;
    for (std::size_t n = 0; n < cases_.size(); ++n) {
      const AttentionBenchRow& row = cases_[n].row;
      if (row.variant == "plain" && row.probes == "none") {
        ms[row.pass] = spread_of(ours_[n].wall).median;
      }
    }
    return ms;
  }

  std::vector<KernelCase> cases_;
  std::int64_t runs_;
  RequestContext& context_;
  std::vector<Timed> ours_;
  std::vector<std::vector<Timed>> rivals_;
};

// Ascending, each once.
std::vector<std::int64_t> ascending(std::vector<std::int64_t> values, const char* name) {
  if (values.empty()) throw formats::bad_usage(std::string(name) + " are none", name);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Throws Error "bad_usage" where no case could run.
void require_times(const std::vector<AttentionBenchRow>& rows) {
  if (rows.empty()) {
    throw formats::bad_usage("layer and heads are timed in the forward pass alone", "passes");
  }
  for (const AttentionBenchRow& row : rows) {
    if (!std::isnan(row.ms)) return;
  }
  throw formats::bad_usage(rows[0].variant + " is " + rows[0].kernel, "dims");
}

// "f32" or "bf16"; nothing for what the backend takes.
at::ScalarType dtype_named(const std::string& name, model::Backend backend) {
  const bool device = backend == model::Backend::cuda_unverified;
  if (name == "bf16" || (name.empty() && device)) return at::kBFloat16;
  if (device || (name != "f32" && !name.empty())) {
    throw formats::bad_usage(
        "bench kernels has no " + name + (device ? " on CUDA; use bf16" : "; use f32 or bf16"),
        "dtype");
  }
  return at::kFloat;
}

// What ran, but for its rows.
double cpu_peak_gflops() { return kernels::fma_peak(at::get_num_threads()) * 1e-9; }

protocol::AttentionBench bench_on(const KernelRequest& request) {
  protocol::AttentionBench bench;
  const std::string libraries = std::string(kCompiler) + ", LibTorch " TORCH_VERSION;
  if (request.backend == model::Backend::cuda_unverified) {
    bench.device = "cuda";
    bench.processor = model::cuda_device_name();
    bench.kernel = kernels::kCudaBackend;
    bench.fma_peak_gflops = rivals_have_gpu() ? gpu_product_gflops(request.dtype) : std::nan("");
  } else {
    bench.device = "cpu";
    std::ifstream cpuinfo("/proc/cpuinfo");
    bench.processor = processor_name(cpuinfo);
    bench.kernel = model::fused_kernel_name();
    bench.threads = at::get_num_threads();
    bench.fma_peak_gflops = cpu_peak_gflops();
  }
  bench.build = bench.kernel + ", " + libraries;
  return bench;
}

Reply bench_kernels(const protocol::KernelsBenchRequest& asked, RequestContext& context) {
  const auto lengths = ascending(asked.lengths, "lengths");
  const auto dims = ascending(asked.dims, "dims");
  const auto heads = ascending(asked.heads, "heads");
  KernelRequest request;
  request.variants = asked.variants;
  request.passes = asked.passes;
  request.backend = model::backend_named(asked.backend);
  if (request.backend == model::Backend::plain) {
    throw formats::bad_usage("plain is a rival; use fused or cuda-unverified", "backend");
  }
  // The CUDA kernels' own backend runs on the device whatever else is computed where.
  if (request.backend != model::Backend::cuda_unverified) {
    require_cpu(asked.device.empty() ? context.settings().device : asked.device);
  }
  request.atomic_dq = asked.atomic_dq;
  request.dtype = dtype_named(asked.dtype, request.backend);
  request.seed = static_cast<std::uint64_t>(asked.seed);
  request.layout = asked.layout == "model" ? Layout::model : Layout::contiguous;
  std::vector<KernelRequest> requests;
  for (const std::int64_t h : heads) {
    for (const std::int64_t n : lengths) {
      for (const std::int64_t d : dims) {
        request.size = {h, n, d};
        check_kernel_request(request);
        requests.push_back(request);
      }
    }
  }
  protocol::AttentionBench bench = bench_on(request);
  bench.runs = asked.runs;
  bench.layout = asked.layout;
  for (const KernelRequest& one : requests) {
    InterleavedRuns(kernel_cases(one), asked.runs, context).add_rows(bench.rows);
    // A neighbour on the machine can halve it while it is measured: the largest is the processor's.
    if (bench.device == "cpu") {
      bench.fma_peak_gflops = std::max(bench.fma_peak_gflops, cpu_peak_gflops());
    }
  }
  require_times(bench.rows);
  return reply_of(bench);
}

// ---- bench.load --------------------------------------------------------------------------------

protocol::BenchRow seconds_row(const std::string& name, const std::vector<double>& ms) {
  const Spread spread = spread_of(ms);
  return {.name = name,
          .unit = "s",
          .value = spread.median / 1e3,
          .min = spread.least / 1e3,
          .max = spread.largest / 1e3,
          .runs = static_cast<std::int64_t>(ms.size())};
}

Reply bench_load(const protocol::LoadBenchRequest& asked, RequestContext& context) {
  require_cpu(asked.device.empty() ? context.settings().device : asked.device);
  protocol::BenchResult bench{.device = "cpu"};
  std::vector<std::string> names = asked.models;
  if (names.empty()) {
    for (const model::BundledModel& bundled : model::bundled_models()) {
      names.push_back(bundled.name);
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    context.progress(static_cast<double>(i) / static_cast<double>(names.size()), names[i]);
    std::vector<double> ms;
    for (std::int64_t run = 0; run < asked.runs; ++run) {
      context.throw_if_cancelled();
      ms.push_back(time_of(timed_whole([&] { model::open_model(names[i]); })).wall);
    }
    bench.rows.push_back(seconds_row("open " + names[i], ms));
  }
  return reply_of(bench);
}

}  // namespace

std::vector<Handler> bench_handlers() {
  return {method("attention kernels against named rivals", bench_kernels),
          method("a training's steps against each other and a plain loop", bench_step),
          method("time to open models", bench_load)};
}

}  // namespace phasescope::worker
