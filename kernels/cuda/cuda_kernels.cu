#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_kernels.h"

namespace phasescope::kernels {
namespace {

class Kernels final : public CudaKernels {
 public:
  bool available(std::string& reason) const override { return cuda_available(reason); }
  std::string device_name() const override {
    int device = 0;
    cudaDeviceProp properties{};
    PHASESCOPE_CUDA(cudaGetDevice(&device));
    PHASESCOPE_CUDA(cudaGetDeviceProperties(&properties, device));
    return properties.name;
  }
  int capability() const override { return cuda_capability(); }
  std::int64_t shared_bytes() const override { return cuda_shared_bytes(); }

  void* allocate(std::size_t bytes) const override {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // the next launch would be taken for what failed
      std::size_t free = 0, total = 0;
      PHASESCOPE_CUDA(cudaMemGetInfo(&free, &total));
      throw CudaOutOfMemory(status, bytes, free, total);
    }
    PHASESCOPE_CUDA(status);
    return data;
  }
  void release(void* data) const noexcept override { static_cast<void>(cudaFree(data)); }
  void upload(void* to, const void* from, std::size_t bytes) const override {
    PHASESCOPE_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void download(void* to, const void* from, std::size_t bytes) const override {
    PHASESCOPE_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  void wait() const override { PHASESCOPE_CUDA(cudaDeviceSynchronize()); }

  void forward(const CudaAttention& attention, const CudaForwardOutputs& outputs) const override {
    cuda_attention_forward(attention, outputs);
  }
  void backward(const CudaAttention& attention, const SavedForward& saved,
                const CudaGradients& gradients) const override {
    cuda_attention_backward(attention, saved, gradients);
  }
  void score_sums(const CudaAttention& attention, const CudaScoreSums& sums) const override {
    cuda_attention_score_sums(attention, sums);
  }
  void region(const CudaAttention& attention, const CudaRegion& region) const override {
    cuda_attention_region(attention, region);
  }
  std::size_t sums_workspace(const CudaAttention& attention, const ScoreSums& sums) const override {
    return cuda_sums_workspace(attention, sums);
  }
  std::size_t score_workspace(const CudaAttention& attention) const override {
    return cuda_score_workspace(attention);
  }
  std::size_t bucket_workspace(const CudaAttention& attention,
                               const BucketProbes& buckets) const override {
    return cuda_bucket_workspace(attention, buckets);
  }
  std::size_t backward_workspace(const CudaAttention& attention) const override {
    return cuda_backward_workspace(attention);
  }
  bool adds_atomically(const CudaAttention& attention) const override {
    return cuda_adds_atomically(attention);
  }
};

}  // namespace

const CudaKernels& cuda_kernels() {
  static const Kernels kernels;
  return kernels;
}

}  // namespace phasescope::kernels
