#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/verified.h"
#include "model/attention/attention.h"

// Attention by the CUDA kernels of kernels/cuda. Of models on a CUDA device they read the tensors
// where these are, on LibTorch's current stream; of models on the CPU what a pass reads is copied
// to the device, and what it makes comes back. For 16-bit tensors alone, which the kernels compute
// on as they are, with float32 sums.

namespace phasescope::model {

// The kernels that this program links, said once at its start; null for none.
void use_cuda_kernels(const kernels::CudaKernels* kernels);

// Throws Error "device_unavailable" where there are none, or no device.
void require_cuda_kernels();

// The kernel that is a program's over these values, by the name of its sources: "plain",
// "plain_tokens", "table_multiplied", "plain_wide".
std::string cuda_kernel_of(const AttentionProgram& program, const at::Tensor& v);
// Whether it has passed its tests on a device like the current one (kernels/cuda/verified.h).
bool is_verified_on_cuda(const AttentionProgram& program, const at::Tensor& v);

// The form of a program's passes, and whether all that runs then has passed. The Hopper form
// ("hopper_plain" of that list) is chosen by itself where it has passed; by the name
// `cuda-unverified`, wherever there is one.
struct CudaForm {
  bool hopper = false;
  bool verified = false;
};
CudaForm cuda_form_of(const AttentionProgram& program, const at::Tensor& v, Backend backend,
                      const std::vector<kernels::VerifiedKernel>& list, int capability);
// Of the list and the device that there are.
CudaForm cuda_form_of(const AttentionProgram& program, const at::Tensor& v, Backend backend);

// What ran where that backend was asked for; without one (attention.h), where none was.
Ran ran_on_cuda(const AttentionProgram& program, const at::Tensor& v, Backend backend);

// What follows the name of what ran where gradients are summed by atomic additions, for their last
// bits then differ from time to time: " with atomic dq", of backward passes that are made so where
// AttentionOptions::atomic_dq asks for it; nothing of all others.
std::string words_of_atomic_dq(const AttentionProgram& program, const at::Tensor& v);

// Whether a backward pass may follow a forward pass over these.
bool wants_gradients(const AttentionProgram& program, const at::Tensor& v);

// Why the CUDA kernels cannot run this, with its backward pass too where gradients are wanted and
// with these probes where they are given; empty where they can.
std::string cuda_obstacle(const AttentionProgram& program, const at::Tensor& v, bool gradients,
                          const ProbeRequest* probes = nullptr);

// As fused_attention().
AttentionResult cuda_attention(const AttentionProgram& program, const at::Tensor& v,
                               const AttentionOptions& options);

// As KernelInputs::score_sums() (fused_attention.h), of what cuda_obstacle() lets run; arrays lie
// where v does.
void cuda_score_sums(const AttentionProgram& program, const at::Tensor& v,
                     const kernels::ScoreSums& sums);

// A region of every batch entry, (B, heads, rows, columns) in float32, where v lies: its scores, or
// its weights where there is a log-sum-exp, (B, H, N) and in float32 too. Of what cuda_obstacle()
// lets run.
at::Tensor cuda_region(const AttentionProgram& program, const at::Tensor& v, kernels::Region region,
                       const at::Tensor& lse = {});

class CudaPass;

// One pass over operands that stay in device memory, so that it alone can be repeated and timed.
class CudaCall {
 public:
  // The forward pass with `probes` (null for none), or the backward pass for a gradient of ones,
  // after a forward pass. For what cuda_obstacle() lets run.
  CudaCall(const AttentionProgram& program, const at::Tensor& v, const ProbeRequest* probes);
  static CudaCall backward(const AttentionProgram& program, const at::Tensor& v, bool atomic_dq);
  CudaCall(CudaCall&&) noexcept;
  ~CudaCall();

  void enqueue() const;
  // Until all that was enqueued has ended.
  void wait() const;
  // The device memory that results and workspaces take.
  std::size_t bytes() const;

 private:
  explicit CudaCall(std::unique_ptr<CudaPass> pass);
  std::unique_ptr<CudaPass> pass_;
};

// The name of the device that the kernels run on.
std::string cuda_device_name();

}  // namespace phasescope::model
