#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"

namespace phasescope::model {

// The kernels, how often they are asked for memory or for copies, and how backward passes and their
// workspaces are to sum.
class WatchedKernels final : public kernels::CudaKernels {
 public:
  mutable int asked = 0, passes = 0;
  mutable std::vector<bool> atomic, atomic_workspaces;

  bool available(std::string& reason) const override { return real_.available(reason); }
  std::string device_name() const override { return real_.device_name(); }
  int capability() const override { return real_.capability(); }
  std::int64_t shared_bytes() const override { return real_.shared_bytes(); }
  void* allocate(std::size_t bytes) const override { return ++asked, real_.allocate(bytes); }
  void release(void* data) const noexcept override { real_.release(data); }
  void upload(void* to, const void* from, std::size_t bytes) const override {
    ++asked;
    real_.upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) const override {
    ++asked;
    real_.download(to, from, bytes);
  }
  void wait() const override { real_.wait(); }
  void forward(const kernels::CudaAttention& attention,
               const kernels::CudaForwardOutputs& outputs) const override {
    ++passes;
    real_.forward(attention, outputs);
  }
  void backward(const kernels::CudaAttention& attention, const kernels::SavedForward& saved,
                const kernels::CudaGradients& gradients) const override {
    ++passes;
    atomic.push_back(attention.atomic_dq);
    real_.backward(attention, saved, gradients);
  }
  void score_sums(const kernels::CudaAttention& attention,
                  const kernels::CudaScoreSums& sums) const override {
    ++passes;
    real_.score_sums(attention, sums);
  }
  void region(const kernels::CudaAttention& attention,
              const kernels::CudaRegion& region) const override {
    ++passes;
    real_.region(attention, region);
  }
  std::size_t sums_workspace(const kernels::CudaAttention& attention,
                             const kernels::ScoreSums& sums) const override {
    return real_.sums_workspace(attention, sums);
  }
  std::size_t score_workspace(const kernels::CudaAttention& attention) const override {
    return real_.score_workspace(attention);
  }
  std::size_t bucket_workspace(const kernels::CudaAttention& attention,
                               const kernels::BucketProbes& buckets) const override {
    return real_.bucket_workspace(attention, buckets);
  }
  std::size_t backward_workspace(const kernels::CudaAttention& attention) const override {
    atomic_workspaces.push_back(attention.atomic_dq);
    return real_.backward_workspace(attention);
  }
  bool adds_atomically(const kernels::CudaAttention& attention) const override {
    return real_.adds_atomically(attention);
  }

 private:
  const kernels::CudaKernels& real_ = kernels::cuda_kernels();
};

}  // namespace phasescope::model
