#include "worker/bench/kernel_rivals.h"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "kernels/problems/bench_forms.h"
#include "model/attention/attention.h"
#include "model/attention/fused_attention.h"

namespace phasescope::worker {
namespace {

using at::Tensor;

// Fused attention without the score transforms that only ours knows.
using Sdpa = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

RivalInfo sdpa_rival(const std::string& form, const Sdpa& sdpa, double forward_maps = 0,
                     double backward_maps = 0) {
  return {"PyTorch SDPA, " + form,
          [sdpa](const KernelProblem& p) -> std::vector<Tensor> {
            return {sdpa(p.program.q, p.program.k, p.v)};
          },
          forward_maps, backward_maps};
}

Tensor math(const Tensor& q, const Tensor& k, const Tensor& v) {
  return std::get<0>(at::_scaled_dot_product_attention_math(q, k, v, {}, 0.0, true));
}

using BiasedSdpa =
    std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias)>;

// No gradient of the bias is asked for, nor are the time and memory to make it counted: both in the
// rival's favour.
RivalInfo dense_bias_rival(const std::string& form, const BiasedSdpa& sdpa) {
  return {"PyTorch SDPA, " + form + ", with a dense bias made before",
          [sdpa](const KernelProblem& p) -> std::vector<Tensor> {
            return {sdpa(p.program.q, p.program.k, p.v, *p.bias)};
          },
          3, 3, &make_dense_bias};
}

// One more key that stands for the sinks: its score is a head's sink, its value 0.
RivalInfo sink_column_rival(const std::string& form, const BiasedSdpa& sdpa) {
  return {"PyTorch SDPA, " + form + ", with a column of sinks made before",
          [sdpa](const KernelProblem& p) -> std::vector<Tensor> {
            const auto with_sinks = [](const Tensor& rows) {
              return at::constant_pad_nd(rows, {0, 0, 0, kSinkColumns});
            };
            return {sdpa(p.program.q, with_sinks(p.program.k), with_sinks(p.v), *p.bias)};
          },
          3, 3, &make_sink_bias};
}

RivalInfo gated_rival(const std::string& form, const Sdpa& sdpa) {
  return {"PyTorch SDPA, " + form + ", times the gate",
          [sdpa](const KernelProblem& p) -> std::vector<Tensor> {
            return {sdpa(p.program.q, p.program.k, p.v) * p.program.gate};
          }};
}

// Values, cosines and sines, each half of the state as wide as a head, as the public code has them.
RivalInfo three_calls_rival(const Sdpa& sdpa) {
  return {"three PyTorch SDPA calls, flash", [sdpa](const KernelProblem& p) -> std::vector<Tensor> {
            const auto both = p.program.as<model::TapeProgram>()->state.chunk(2, -1);
            std::vector<Tensor> out{sdpa(p.program.q, p.program.k, p.v)};
            for (const Tensor& half : both) {
              out.push_back(sdpa(p.program.q, p.program.k, at::cat({half, half}, -1)));
            }
            return out;
          }};
}

// Tensor operations on scores: blocks of rows where no gradient is wanted, else all at once.
RivalInfo eager_rival(double backward_maps) {
  return {"eager tensor operations",
          [](const KernelProblem& p) -> std::vector<Tensor> {
            const auto program = model::in_dtype(p.program, p.v.scalar_type());
            return {model::attention(program, p.v, {.backend = model::Backend::plain}).out};
          },
          0, backward_maps};
}

// ---- forms of PyTorch's attention --------------------------------------------------------------

Tensor cpu_flash_with(const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::optional<Tensor>& bias) {
  return std::get<0>(
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, !bias.has_value(), bias));
}
Tensor cpu_flash(const Tensor& q, const Tensor& k, const Tensor& v) {
  return cpu_flash_with(q, k, v, {});
}

Tensor gpu_flash(const Tensor& q, const Tensor& k, const Tensor& v) {
  return std::get<0>(at::_scaled_dot_product_flash_attention(q, k, v, 0.0, true));
}
Tensor gpu_cudnn(const Tensor& q, const Tensor& k, const Tensor& v) {
  return std::get<0>(at::_scaled_dot_product_cudnn_attention(
      q, k, v, {}, /*compute_log_sumexp=*/q.requires_grad(), 0.0, true));
}
Tensor gpu_efficient_with(const Tensor& q, const Tensor& k, const Tensor& v,
                          const std::optional<Tensor>& bias) {
  return std::get<0>(at::_scaled_dot_product_efficient_attention(
      q, k, v, bias, /*compute_log_sumexp=*/q.requires_grad(), 0.0, !bias.has_value()));
}
Tensor gpu_efficient(const Tensor& q, const Tensor& k, const Tensor& v) {
  return gpu_efficient_with(q, k, v, {});
}

}  // namespace

std::vector<KernelVariant> kernel_variants_at(const KernelSize& size, bool gpu) {
  const Sdpa flash = gpu ? &gpu_flash : &cpu_flash;
  std::vector<RivalInfo> plain{sdpa_rival("flash", flash), sdpa_rival("math", &math, 3, 6)};
  if (gpu) {
    plain.push_back(sdpa_rival("cuDNN", &gpu_cudnn));
    plain.push_back(sdpa_rival("memory-efficient", &gpu_efficient));
  }
  const std::string biased_form = gpu ? "memory-efficient" : "flash";
  const BiasedSdpa biased_sdpa = gpu ? &gpu_efficient_with : &cpu_flash_with;
  const RivalInfo biased = dense_bias_rival(biased_form, biased_sdpa);
  const auto rivals_of = [&](const kernels::problems::BenchForm& form) -> std::vector<RivalInfo> {
    // The maps of eager CAPE: inputs of both layers, hidden units before and after the rectifier.
    const double cape_maps =
        8 + 3 * static_cast<double>(form.problem.hidden) / static_cast<double>(size.heads);
    const std::map<std::string, RivalInfo> own = {
        {"tapa", eager_rival(9)},
        {"tape", three_calls_rival(flash)},
        {"cape", eager_rival(cape_maps)},
        {"sinks", sink_column_rival(biased_form, biased_sdpa)},
        {"gates", gated_rival("flash", flash)},
        // Near and far scores, which of them is meant, and what is made of them.
        {"clamp", eager_rival(9)}};
    const auto found = own.find(form.name);
    return {found == own.end() ? biased : found->second};
  };
  std::vector<KernelVariant> variants;
  for (const kernels::problems::BenchForm& form : kernels::problems::bench_forms(size.n, size.d)) {
    const bool halves = form.name == "tapa" || form.name == "tape";
    variants.push_back(
        {form.name, form.problem, form.name == "plain" ? plain : rivals_of(form), halves});
  }
  return variants;
}

bool rivals_have_gpu() { return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0; }

KernelProblem on_gpu(const KernelProblem& problem) {
  KernelProblem result = problem;
  model::AttentionProgram& program = result.program;
  const auto move = [&problem](Tensor& tensor) {
    tensor = tensor.detach().to(at::kCUDA).requires_grad_(problem.gradients);
  };
  move(result.v);
  model::for_each_tensor(program, [&move](const model::TensorInfo& info, Tensor& tensor) {
    if (info.numbers == model::Numbers::tokens) move(tensor);
  });
  return result;
}

void wait_for_gpu(int index) {
  at::detail::getCUDAHooks().deviceSynchronize(static_cast<c10::DeviceIndex>(index));
}

double gpu_peak_mb_of(const std::function<void()>& call, int index) {
  const auto device = static_cast<c10::DeviceIndex>(index);
  c10::DeviceAllocator& allocator = *c10::getDeviceAllocator(at::kCUDA);
  const auto allocated = [&] { return allocator.getDeviceStats(device).allocated_bytes[0]; };
  allocator.resetPeakStats(device);
  const auto before = allocated().current;
  call();
  wait_for_gpu(index);
  return static_cast<double>(allocated().peak - before) / (1 << 20);
}

double gpu_product_gflops(at::ScalarType dtype) {
  constexpr std::int64_t kSize = 8192, kProducts = 20;
  const Tensor a = at::randn({kSize, kSize}).to(at::kCUDA, dtype);
  at::matmul(a, a);
  wait_for_gpu();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t n = 0; n < kProducts; ++n) at::matmul(a, a);
  wait_for_gpu();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return 2e-9 * kSize * kSize * kSize * kProducts / seconds.count();
}

}  // namespace phasescope::worker
