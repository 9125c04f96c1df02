#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

// A second device over the host's memory. Its tensors are of LibTorch's device type PrivateUse1;
// all operators are the CPU's own, on the same numbers, so that results are equal bit for bit. What
// crosses between the two sides is counted, and an operator that meets tensors of both is refused,
// as a device refuses it (numbers of one element alone may come from the host).

namespace phasescope::model {

struct PhantomCounts {
  std::int64_t to_device = 0, to_host = 0;  // copies of tensors
  std::int64_t reads = 0;  // values that the host asked for: item(), nonzero() and their kind
  std::int64_t allocations = 0;
};

// Registers it, once; the CPU's kernels of attention and norms read it too.
at::Device phantom_device();
PhantomCounts phantom_counts();
void reset_phantom_counts();

// Told of the memory of each of the device's tensors that an operator is given, before it runs; one
// at a time, and nobody where it is empty. Gradients are made on a thread of the device's own.
using MemoryRead = std::function<void(const void* memory)>;
void watch_phantom_reads(MemoryRead told);

// As long as it lives, what the device allocates lies where nobody may read or write but its
// operators and the CPU's kernels: host code that does dies by SIGSEGV. One at a time.
class GuardedPhantom {
 public:
  GuardedPhantom();
  ~GuardedPhantom();
  GuardedPhantom(const GuardedPhantom&) = delete;
  GuardedPhantom& operator=(const GuardedPhantom&) = delete;
};

}  // namespace phasescope::model
