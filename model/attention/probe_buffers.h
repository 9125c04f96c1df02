#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "model/attention/attention.h"

namespace phasescope::model {

// Memory for what a request measures, and a kernel's outputs that point at it.
class ProbeBuffers {
 public:
  // `request` is read as long as the kernel runs, which writes to `device`.
  ProbeBuffers(const ProbeRequest& request, const kernels::AttentionShape& shape,
               at::Device device = at::kCPU);

  kernels::ForwardOutputs& outputs() { return outputs_; }
  // What the kernel has written; once, after it ran.
  ProbeResult take(Ran ran);

 private:
  void add_row(bool wanted, at::Tensor& tensor, float*& pointer);
  void add_windows(const std::vector<std::int64_t>& windows);
  void add_buckets(const ProbeRequest& request, const kernels::AttentionShape& shape);
  void add_top_keys(std::int64_t count);

  at::TensorOptions options(at::ScalarType dtype) const {
    return at::TensorOptions(dtype).device(device_);
  }

  at::Device device_;
  std::vector<std::int64_t> rows_;
  ProbeResult result_;
  kernels::ForwardOutputs outputs_;
};

}  // namespace phasescope::model
