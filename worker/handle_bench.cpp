#include "worker/handle_bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "kernels/fma_peak.h"
#include "model/attention.h"
#include "model/open_model.h"
#include "protocol/results.h"

namespace phasescope::worker {
namespace {

using model::AttentionProgram;
using nlohmann::json;
using protocol::KernelRow;
using protocol::Reply;

// ---- memory and time ---------------------------------------------------------------------------

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

// What a call holds at its peak above what was there before.
template <class F>
double peak_mb_of(const F& call) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from the present size
  const double before = status_mb("VmRSS");
  call();
  return std::max(0.0, status_mb("VmHWM") - before);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// ---- what is timed -----------------------------------------------------------------------------

struct Size {
  std::int64_t heads, n, d;
};

// Does what is not timed and returns what is.
using Preparation = std::function<std::function<void()>()>;

struct Timed {
  KernelRow row;
  Preparation ours, rival;  // rival empty where there is none
  std::vector<double> ms, rival_ms;
};

at::Tensor random_input(const Size& size) {
  return at::randn({1, size.heads, size.n, size.d}, at::kFloat);
}

// Random terms of every variant, of the sizes that trained models have.
AttentionProgram program_of(const std::string& variant, const Size& size) {
  AttentionProgram program;
  program.q = program.q_plain = random_input(size);
  program.k = program.k_plain = random_input(size);
  program.scale = 1 / std::sqrt(static_cast<double>(size.d));
  program.positions.length = size.n;
  const auto distance = at::arange(size.n, at::kFloat);
  const auto table = at::outer(at::rand({size.heads}) * -0.1, distance).contiguous();
  if (variant == "table") {
    program.kind = AttentionProgram::Kind::table;
    program.table.values = table;
  } else if (variant == "tapa") {
    program.kind = AttentionProgram::Kind::tapa;
    const double half = static_cast<double>(size.d) / 2;
    program.tapa = {.content_dim = size.d / 2,
                    .scale_content = 1 / std::sqrt(half),
                    .scale_phase = 0.1 / std::sqrt(half),
                    .power = distance.pow(0.1) * (2 * M_PI)};
  } else if (variant == "tape") {
    program.kind = AttentionProgram::Kind::tape;
    program.tape.state = random_input(size);
  } else if (variant == "cape") {
    program.kind = AttentionProgram::Kind::cape;
    const std::int64_t hidden = 32;
    program.cape = {.values = table,
                    .w1 = at::randn({hidden, 2 * size.heads}) * 0.1,
                    .b1 = at::zeros({hidden}),
                    .w2 = at::randn({size.heads, hidden}) * 0.1,
                    .b2 = at::zeros({size.heads})};
  }
  return program;
}

Preparation timed_whole(std::function<void()> call) {
  return [call = std::move(call)] { return call; };
}

at::Tensor sdpa(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const std::optional<at::Tensor>& bias = {}) {
  return at::scaled_dot_product_attention(q, k, v, bias, 0.0, !bias.has_value());
}

// What somebody without this kernel would call; named in the row.
std::string add_rival(const std::string& variant, const AttentionProgram& program,
                      const at::Tensor& v, Preparation& rival) {
  if (variant == "plain") {
    rival = timed_whole([=] { sdpa(program.q, program.k, v); });
    return "PyTorch SDPA, float32";
  }
  if (variant == "table") {
    rival = timed_whole([=] {
      const std::int64_t n = v.size(2);
      const auto index = at::arange(n).unsqueeze(1) - at::arange(n).unsqueeze(0);
      const auto bias = program.table.values.index({at::indexing::Slice(), index.clamp_min(0)})
                            .masked_fill(index < 0, -INFINITY);
      sdpa(program.q, program.k, v, bias.unsqueeze(0));
    });
    return "PyTorch SDPA with a dense bias, float32";
  }
  if (variant == "tape") {
    rival = timed_whole([=] {
      sdpa(program.q, program.k, v);
      sdpa(program.q, program.k, program.tape.state);
    });
    return "two PyTorch SDPA calls, float32";
  }
  return "";
}

// Multiply-adds of the causal half count as two; backward is five products where forward has two.
double flops_of(const std::string& pass, const Size& size) {
  const double pairs = 0.5 * static_cast<double>(size.n) * static_cast<double>(size.n + 1);
  return (pass == "forward" ? 4.0 : 10.0) * static_cast<double>(size.heads * size.d) * pairs;
}

KernelRow row_of(const std::string& variant, const std::string& pass, const Size& size,
                 const std::string& probes) {
  return {.variant = variant,
          .pass = pass,
          .dtype = "f32",
          .probes = probes,
          .kernel = model::fused_kernel_name(),
          .heads = size.heads,
          .n = size.n,
          .d = size.d};
}

Timed forward_case(const std::string& variant, const Size& size, bool probes) {
  Timed timed{.row = row_of(variant, "forward", size, probes ? "lse, entropy" : "none")};
  const AttentionProgram program = program_of(variant, size);
  const at::Tensor v = random_input(size);
  const model::AttentionOptions options{.want_lse = probes, .want_entropy = probes};
  timed.ours = timed_whole([=] {
    const at::NoGradGuard no_grad;
    model::attention(program, v, options);
  });
  if (!probes) timed.row.rival = add_rival(variant, program, v, timed.rival);
  return timed;
}

// The gradient of the sum of outputs; the forward pass before it is not timed.
Timed backward_case(const std::string& variant, const Size& size) {
  Timed timed{.row = row_of(variant, "backward", size, "none")};
  AttentionProgram program = program_of(variant, size);
  at::Tensor v = random_input(size).requires_grad_();
  program.q = program.q.clone().requires_grad_();
  program.k = program.k.clone().requires_grad_();
  timed.ours = [=]() -> std::function<void()> {
    const at::Tensor sum = model::attention(program, v, {}).out.sum();
    return [sum] { sum.backward(); };
  };
  if (variant == "plain") {
    timed.row.rival = "PyTorch SDPA, float32";
    timed.rival = [=]() -> std::function<void()> {
      const at::Tensor sum = sdpa(program.q, program.k, v).sum();
      return [sum] { sum.backward(); };
    };
  }
  return timed;
}

// ---- bench.kernels -----------------------------------------------------------------------------

double milliseconds_of(const Preparation& prepare) {
  const std::function<void()> call = prepare();
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Every case once, then all again: what drifts on a shared machine drifts for all of them.
void time_interleaved(std::vector<Timed>& cases, std::int64_t runs, RequestContext& context) {
  for (Timed& timed : cases) {
    timed.row.peak_mb = peak_mb_of(timed.ours());  // the warm-up too
    if (timed.rival) timed.rival()();
  }
  for (std::int64_t run = 0; run < runs; ++run)
    for (Timed& timed : cases) {
      context.throw_if_cancelled();
      context.progress(static_cast<double>(run) / static_cast<double>(runs),
                       timed.row.variant + " " + std::to_string(timed.row.n));
      timed.ms.push_back(milliseconds_of(timed.ours));
      if (timed.rival) timed.rival_ms.push_back(milliseconds_of(timed.rival));
    }
}

void finish_rows(std::vector<Timed>& cases) {
  std::map<std::string, double> plain_ms;  // by pass
  for (Timed& timed : cases) {
    timed.row.ms = median(timed.ms);
    if (timed.row.variant == "plain" && timed.row.probes == "none")
      plain_ms[timed.row.pass] = timed.row.ms;
  }
  for (Timed& timed : cases) {
    KernelRow& row = timed.row;
    row.gflops = flops_of(row.pass, {row.heads, row.n, row.d}) / row.ms / 1e6;
    row.over_plain = row.ms / plain_ms[row.pass];
    if (timed.rival_ms.empty()) continue;
    row.rival_ms = median(timed.rival_ms);
    row.speedup_over_rival = row.rival_ms / row.ms;
  }
}

std::vector<Timed> cases_of(const Size& size) {
  std::vector<Timed> cases;
  for (const char* variant : {"plain", "table", "tapa", "tape", "cape"})
    cases.push_back(forward_case(variant, size, false));
  cases.push_back(forward_case("plain", size, true));
  for (const char* variant : {"plain", "table", "tapa", "tape", "cape"})
    cases.push_back(backward_case(variant, size));
  return cases;
}

Reply bench_kernels(const json& params, RequestContext& context) {
  const auto lengths = params.value("lengths", std::vector<std::int64_t>{512, 2048});
  const auto dims = params.value("dims", std::vector<std::int64_t>{64, 128});
  const std::int64_t heads = params.value("heads", std::int64_t{8});
  const std::int64_t runs = params.value("runs", std::int64_t{5});
  protocol::KernelBench bench{.device = "cpu", .threads = at::get_num_threads()};
  bench.fma_peak_gflops = kernels::fma_peak(at::get_num_threads()) * 1e-9;
  for (const std::int64_t n : lengths)
    for (const std::int64_t d : dims) {
      std::vector<Timed> cases = cases_of({heads, n, d});
      time_interleaved(cases, runs, context);
      finish_rows(cases);
      for (const Timed& timed : cases) bench.rows.push_back(timed.row);
    }
  return {protocol::to_json_form(bench), {}};
}

// ---- bench.load --------------------------------------------------------------------------------

protocol::BenchRow seconds_row(const std::string& name, const std::vector<double>& ms) {
  const auto [low, high] = std::minmax_element(ms.begin(), ms.end());
  return {.name = name,
          .unit = "s",
          .value = median(ms) / 1e3,
          .min = *low / 1e3,
          .max = *high / 1e3,
          .runs = static_cast<std::int64_t>(ms.size())};
}

Reply bench_load(const json& params, RequestContext& context) {
  const std::int64_t runs = params.value("runs", std::int64_t{5});
  protocol::BenchResult bench{.device = "cpu"};
  std::vector<std::string> names = params.value("models", std::vector<std::string>{});
  if (names.empty())
    for (const model::BundledModel& bundled : model::bundled_models())
      names.push_back(bundled.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    context.progress(static_cast<double>(i) / static_cast<double>(names.size()), names[i]);
    std::vector<double> ms;
    for (std::int64_t run = 0; run < runs; ++run) {
      context.throw_if_cancelled();
      ms.push_back(milliseconds_of(timed_whole([&] { model::open_model(names[i]); })));
    }
    bench.rows.push_back(seconds_row("open " + names[i], ms));
  }
  return {protocol::to_json_form(bench), {}};
}

}  // namespace

std::vector<Handler> bench_handlers() {
  return {{"bench.kernels", "attention kernels against named rivals", bench_kernels},
          {"bench.load", "time to open models", bench_load}};
}

}  // namespace phasescope::worker
