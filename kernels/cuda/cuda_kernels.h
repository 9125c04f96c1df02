#pragma once
// The CUDA backend as a model calls it: an interface, so that programs which link no CUDA can name
// it, and the emulation can stand in for a device.

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/attention_cuda.h"

namespace phasescope::kernels {

/// Device memory and what attention_cuda.h enqueues, on the current device; copies are made on
/// its default stream.
/// Everything but `available` throws like those passes; CudaOutOfMemory where its memory is short.
class CudaKernels {
 public:
  virtual ~CudaKernels() = default;

  /// Whether a device can be used; if not, `reason` says why in one sentence.
  virtual bool available(std::string& reason) const = 0;
  /// "NVIDIA H200"
  virtual std::string device_name() const = 0;
  /// Its compute capability, 90 for 9.0.
  virtual int capability() const = 0;
  /// Bytes of shared memory that a block of it may have.
  virtual std::int64_t shared_bytes() const = 0;

  virtual void* allocate(std::size_t bytes) const = 0;
  virtual void release(void* data) const noexcept = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) const = 0;
  /// Waits for what was enqueued before.
  virtual void download(void* to, const void* from, std::size_t bytes) const = 0;
  /// Until everything that was enqueued has ended.
  virtual void wait() const = 0;

  virtual void forward(const CudaAttention& attention, const CudaForwardOutputs& outputs) const = 0;
  virtual void backward(const CudaAttention& attention, const SavedForward& saved,
                        const CudaGradients& gradients) const = 0;
  virtual void score_sums(const CudaAttention& attention, const CudaScoreSums& sums) const = 0;
  virtual void region(const CudaAttention& attention, const CudaRegion& region) const = 0;
  virtual std::size_t sums_workspace(const CudaAttention& attention,
                                     const ScoreSums& sums) const = 0;
  virtual std::size_t score_workspace(const CudaAttention& attention) const = 0;
  virtual std::size_t bucket_workspace(const CudaAttention& attention,
                                       const BucketProbes& buckets) const = 0;
  virtual std::size_t backward_workspace(const CudaAttention& attention) const = 0;
  virtual bool adds_atomically(const CudaAttention& attention) const = 0;
};

/// The kernels of this folder.
const CudaKernels& cuda_kernels();

}  // namespace phasescope::kernels
