// The CUDA kernels' times without LibTorch, for a bare GPU machine: what `./dev carry` takes along.
// Causal, batch 1, bfloat16, random data; every case once, then all again; a time is that of a call
// among `calls` one after the other. Prints the JSON of `bench kernels` (protocol/bench_results.h),
// without rivals. In the emulation the same program runs in place of a device, and its times say
// nothing.
//
//   kernels_cuda_bench [--lengths 2048,8192,32768] [--dims 64,128] [--runs 5] [--calls 20]
//     [--heads 0]     (0: as many as make a length fill a device)
// Of dims beyond 128 those variants that have a form of them.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/problems/bench_forms.h"
#include "protocol/bench_results.h"
#include "tests/kernels/device_probes.h"

namespace phasescope::kernels::testing {
namespace {

using protocol::AttentionBench;
using protocol::AttentionBenchRow;

struct Asked {
  std::vector<std::int64_t> lengths{2048, 8192, 32768}, dims{64, 128};
  std::int64_t runs = 5, calls = 20, heads = 0;
};

/// As many as make `length` tokens fill a device, 32 at most.
std::int64_t heads_of(std::int64_t length) {
  return std::clamp<std::int64_t>((1 << 17) / length, 2, 32);
}

struct Size {
  std::int64_t length, dim, heads;
};

/// Whether there are kernels of its score for more than 128 channels.
bool has_wide_form(Problem problem) {
  problem.shape = {1, 1, 1, 1, 1, 8};
  return cuda_has_wide_form(RandomInputs(problem).inputs);
}

/// A problem in the host's memory and on the device, which the passes over it share.
struct Drawn {
  explicit Drawn(const Problem& problem) : on_host(problem), there(kTypes[0], on_host) {
    there.attention.hopper = true;  // as what is chosen by the backend's name runs
    scores = DeviceArray<char>(cuda_score_workspace(there.attention));
    there.outputs.score_workspace = scores.data();
  }

  Case on_host;
  DeviceCase there;
  DeviceArray<char> scores;
};

/// One timed pass over a problem.
class Timed {
 public:
  Timed(const BenchForm& form, std::shared_ptr<Drawn> drawn, std::string pass, bool probes)
      : drawn_(std::move(drawn)), outputs_(drawn_->there.outputs) {
    const AttentionShape& shape = drawn_->there.attention.shape;
    if (probes) {
      probes_ = std::make_unique<DeviceProbes>(drawn_->there.attention, 0);
      probes_->put(outputs_);
    }
    row.variant = form.name, row.pass = std::move(pass), row.dtype = "bf16";
    row.probes = probes ? "all" : "none";
    row.ran = protocol::Ran{.implementation = kCudaBackend, .device = "cuda", .dtype = "bf16"};
    row.kernel = row.ran->text();
    row.heads = shape.heads, row.n = shape.keys, row.d = shape.head_dim;
    row.peak_mb = row.rival_ms = row.speedup_over_rival = std::nan("");
    row.rival_peak_mb = row.cpu_ms = row.rival_cpu_ms = std::nan("");
    prepare();
  }

  /// Milliseconds of a call.
  double time(std::int64_t calls) const {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t n = 0; n < calls; ++n) call_();
    cuda_kernels().wait();
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(end - begin).count() /
           static_cast<double>(calls);
  }

  AttentionBenchRow row;
  std::vector<double> times;

 private:
  void prepare() {
    const auto forward = [this] { cuda_attention_forward(drawn_->there.attention, outputs_); };
    // What a gate multiplies is kept for the backward pass alone.
    if (row.pass == "forward") outputs_.ungated = {};
    forward();
    if (row.pass == "forward") {
      call_ = forward;
    } else {
      DeviceCase& there = drawn_->there;
      workspace_ = DeviceArray<char>(cuda_backward_workspace(there.attention));
      call_ = [&there, saved = there.saved(), gradients = there.gradients(workspace_.data())] {
        cuda_attention_backward(there.attention, saved, gradients);
      };
    }
    call_();
    cuda_kernels().wait();
  }

  std::shared_ptr<Drawn> drawn_;
  std::unique_ptr<DeviceProbes> probes_;
  CudaForwardOutputs outputs_;
  DeviceArray<char> workspace_;
  std::function<void()> call_;
};

/// The forms at this size, forward and then backward; of plain with all probes too.
std::vector<std::unique_ptr<Timed>> cases_of(const Size& size) {
  const bool wide = cuda_padded_heads(size.dim, size.dim).wide();
  std::vector<std::unique_ptr<Timed>> cases, backward;
  for (BenchForm& form : bench_forms(size.length, size.dim)) {
    if (!is_on_cuda(form.problem.kind) || (wide && !has_wide_form(form.problem))) continue;
    form.problem.shape = {1, size.heads, size.heads, size.length, size.length, size.dim};
    const auto drawn = std::make_shared<Drawn>(form.problem);
    cases.push_back(std::make_unique<Timed>(form, drawn, "forward", false));
    if (form.name == "plain") {
      cases.push_back(std::make_unique<Timed>(form, drawn, "forward", true));
    }
    backward.push_back(std::make_unique<Timed>(form, drawn, "backward", false));
  }
  std::ranges::move(backward, std::back_inserter(cases));
  return cases;
}

void add_rows(const std::vector<std::unique_ptr<Timed>>& cases, AttentionBench& bench) {
  double plain = std::nan("");
  for (const auto& one : cases) {
    AttentionBenchRow row = one->row;
    std::vector<double> times = one->times;
    std::sort(times.begin(), times.end());
    row.ms = times[times.size() / 2], row.ms_min = times.front(), row.ms_max = times.back();
    row.gflops = protocol::causal_flops(row) / row.ms / 1e6;
    // Plain is a pass's first.
    if (row.variant == "plain" && row.probes == "none") plain = row.ms;
    row.over_plain = row.ms / plain;
    bench.rows.push_back(row);
  }
}

AttentionBench bench_of(const Asked& asked) {
  AttentionBench bench;
  bench.device = "cuda";
  bench.processor = cuda_kernels().device_name();
  bench.kernel = bench.build = kCudaBackend;
  bench.runs = asked.runs;
  bench.fma_peak_gflops = std::nan("");
  for (const std::int64_t length : asked.lengths) {
    for (const std::int64_t dim : asked.dims) {
      const auto cases = cases_of({length, dim, asked.heads > 0 ? asked.heads : heads_of(length)});
      for (std::int64_t run = 0; run < asked.runs; ++run) {
        for (const auto& one : cases) one->times.push_back(one->time(asked.calls));
      }
      add_rows(cases, bench);
    }
  }
  return bench;
}

std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) numbers.push_back(std::atoll(one.c_str()));
  return numbers;
}

/// False for words that are none.
bool read(int count, char** words, Asked& asked) {
  for (int n = 1; n < count; n += 2) {
    const std::string_view name = words[n];
    const std::vector<std::int64_t> values =
        n + 1 < count ? numbers_of(words[n + 1]) : std::vector<std::int64_t>{};
    if (values.empty() || *std::min_element(values.begin(), values.end()) <= 0) return false;
    if (name == "--lengths") {
      asked.lengths = values;
    } else if (name == "--dims") {
      asked.dims = values;
    } else if (name == "--runs") {
      asked.runs = values[0];
    } else if (name == "--calls") {
      asked.calls = values[0];
    } else if (name == "--heads") {
      asked.heads = values[0];
    } else {
      return false;
    }
  }
  return true;
}

int run(int count, char** words) {
  Asked asked;
  if (!read(count, words, asked)) {
    std::fprintf(stderr,
                 "kernels_cuda_bench [--lengths N,..] [--dims D,..] [--runs N] [--calls N]\n");
    return 2;
  }
  std::string reason;
  if (!cuda_available(reason)) {
    std::fprintf(stderr, "%s\n", reason.c_str());
    return 3;
  }
  try {
    std::printf("%s\n", protocol::to_json_form(bench_of(asked)).dump(1).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace phasescope::kernels::testing

int main(int count, char** words) { return phasescope::kernels::testing::run(count, words); }
