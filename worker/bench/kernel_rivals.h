// The list of variants that `bench kernels` times, each with what somebody without our kernels
// would call. To add a variant: a line of kernels/problems/bench_forms.cpp with its problem, and in
// kernel_rivals.cpp its rival, where that is not attention with a dense bias.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/bench/kernel_problems.h"

namespace phasescope::worker {

// Outputs of one attention call, for their sum's gradient.
using AttentionCall = std::function<std::vector<at::Tensor>(const KernelProblem&)>;

// A rival, and how many arrays of N x N numbers a head it holds at once (forward, and with what its
// backward pass keeps), so that it is left out where these do not fit.
struct RivalInfo {
  std::string name;
  AttentionCall call;
  double forward_maps = 0, backward_maps = 0;
  void (*prepare)(const KernelProblem&) = nullptr;  // what `call` needs made before, not timed
};

struct KernelVariant {
  std::string name;
  kernels::problems::Problem form;  // but for its shape, seed and storage
  std::vector<RivalInfo> rivals;
  bool halves = false;  // takes the two halves of a head's numbers for two things
};

// Rivals on the processor; or on a GPU, for which the problem's q, k, v and state are there
// (on_gpu()).
std::vector<KernelVariant> kernel_variants_at(const KernelSize& size, bool gpu);

// Whether this LibTorch has a GPU to run rivals on.
bool rivals_have_gpu();
KernelProblem on_gpu(const KernelProblem& problem);
// Until the GPU has done what was asked of it.
void wait_for_gpu(int index = 0);
// What a call holds on the GPU at its peak above what was there before, in MB (2^20 bytes).
double gpu_peak_mb_of(const std::function<void()>& call, int index = 0);
// GFLOP/s of a large matrix product on the GPU.
double gpu_product_gflops(at::ScalarType dtype);

}  // namespace phasescope::worker
