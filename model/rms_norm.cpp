#include "model/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/host_memory.h"

namespace phasescope::model {
namespace {

// Rows that one task takes. Fixed, so that sums over rows come out the same for any thread count.
constexpr std::int64_t kChunk = 64;
// Running sums side by side, so that the compiler may use vectors without reordering a sum.
constexpr std::int64_t kLanes = 16;

// sum of a[i] b[i] c[i]; c may be null.
float product_sum(const float* a, const float* b, const float* c, std::int64_t size) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::int64_t n = 0; n < kLanes; ++n) {
      lanes[n] += a[i + n] * b[i + n] * (c != nullptr ? c[i + n] : 1.0f);
    }
  }
  for (; i < size; ++i) lanes[0] += a[i] * b[i] * (c != nullptr ? c[i] : 1.0f);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename Out>
void forward_rows(const float* x, const float* weight, double eps, std::int64_t begin,
                  std::int64_t end, std::int64_t width, float* inverse, Out* out) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* from = x + row * width;
    Out* to = out + row * width;
    const float mean = product_sum(from, from, nullptr, width) / static_cast<float>(width);
    const float r = 1.0f / std::sqrt(mean + static_cast<float>(eps));
    inverse[row] = r;
    for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<Out>(from[i] * r * weight[i]);
  }
}

// dx of each row; adds into dw.
void backward_rows(const float* x, const float* weight, const float* inverse, const float* dy,
                   std::int64_t begin, std::int64_t end, std::int64_t width, float* dx, float* dw) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* from = x + row * width;
    const float* given = dy + row * width;
    float* to = dx + row * width;
    const float r = inverse[row];
    const float pull =
        product_sum(given, weight, from, width) * r * r * r / static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      to[i] = given[i] * weight[i] * r - from[i] * pull;
      dw[i] += given[i] * from[i] * r;
    }
  }
}

template <typename Out>
void forward_all(const at::Tensor& x, const at::Tensor& weight, double eps, at::Tensor& inverse,
                 at::Tensor& out) {
  const std::int64_t width = x.size(-1);
  const std::int64_t rows = x.numel() / width;
  const KernelAccess access;
  at::parallel_for(0, rows, kChunk, [&](std::int64_t begin, std::int64_t end) {
    forward_rows(x.const_data_ptr<float>(), weight.const_data_ptr<float>(), eps, begin, end, width,
                 inverse.mutable_data_ptr<float>(), out.mutable_data_ptr<Out>());
  });
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& weight, double eps, at::ScalarType dtype) {
    const at::Tensor x = given.contiguous();
    at::Tensor inverse = at::empty({x.numel() / x.size(-1)}, x.options());
    at::Tensor out = at::empty(x.sizes(), x.options().dtype(dtype));
    if (dtype == at::kBFloat16) {
      forward_all<at::BFloat16>(x, weight, eps, inverse, out);
    } else {
      forward_all<float>(x, weight, eps, inverse, out);
    }
    context->save_for_backward({x, weight, inverse});
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list incoming) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor dy = incoming[0].to(at::kFloat).contiguous();
    const std::int64_t width = x.size(-1);
    const std::int64_t rows = x.numel() / width;
    const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor dw = at::zeros({chunks, width}, x.options());
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        backward_rows(x.const_data_ptr<float>(), saved[1].const_data_ptr<float>(),
                      saved[2].const_data_ptr<float>(), dy.const_data_ptr<float>(), chunk * kChunk,
                      std::min(rows, (chunk + 1) * kChunk), width, dx.mutable_data_ptr<float>(),
                      dw.mutable_data_ptr<float>() + chunk * width);
      }
    };
    {
      const KernelAccess access;
      at::parallel_for(0, chunks, 1, run);
    }
    return {dx, dw.sum(0), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out) {
  const bool single = x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat;
  const bool known = out == at::kFloat || out == at::kBFloat16;
  if (!single || !known || !in_host_memory(x.device()) || !weight.is_contiguous()) {
    return plain_rms_norm(x, weight, eps).to(out);
  }
  return RmsNorm::apply(x, weight, eps, out);
}

}  // namespace phasescope::model
