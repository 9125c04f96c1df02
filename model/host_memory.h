#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

// Which devices the CPU's own kernels (attention, the root mean square norm) can read: they are
// handed pointers, and a device's memory is not the host's.

namespace phasescope::model {

// The CPU, and what reads_host_memory() has named.
bool in_host_memory(const at::Device& device);

// Another device type whose tensors lie in the host's memory: how tests show that models run on a
// device with no copy between the two. `told` hears when the CPU's kernels begin to work on tensors
// (true), and when they have ended (false); null: nobody.
void reads_host_memory(at::DeviceType type, void (*told)(bool begins) = nullptr);

// As long as one lives, the CPU's kernels work on the memory of tensors that they were handed.
class KernelAccess {
 public:
  KernelAccess();
  ~KernelAccess();
  KernelAccess(const KernelAccess&) = delete;
  KernelAccess& operator=(const KernelAccess&) = delete;
};

// `tensor` where the host can read it: itself, or a copy. Undefined stays undefined.
at::Tensor on_host(const at::Tensor& tensor);

// Whole numbers as a tensor (N) int64 on `device`, which nobody may write to; few of them, or in
// few runs. On a device the list is written there, run by run, without a copy from the host, and
// kept: layers and passes that ask for the same numbers share it.
at::Tensor list_on(const std::vector<std::int64_t>& values, const at::Device& device);

// A tensor of the host that nobody writes to, on `device`: itself, or a copy that is made once and
// kept as long as somebody holds the tensor. Undefined stays undefined.
at::Tensor kept_on(const at::Tensor& tensor, const at::Device& device);

// Copies from a device to the host that are under way: begun one after the other on its current
// stream, into memory that the device writes by itself, and waited for once.
class HostCopies {
 public:
  // What holds the tensor's numbers after wait(): the tensor itself where the host can read it.
  // Of the same shape and dtype, contiguous where it was copied; undefined stays undefined.
  at::Tensor begin(const at::Tensor& tensor);
  // All of them, of the tensors in place of those.
  void begin_all(std::initializer_list<at::Tensor*> tensors);
  // Until all that was begun has come.
  void wait();

 private:
  std::vector<at::Device> devices_;  // that copies come from, each once
};

}  // namespace phasescope::model
