#pragma once

#include <ATen/core/Tensor.h>

// Which devices the CPU's own kernels (attention, the root mean square norm) can read: they are
// handed pointers, and a device's memory is not the host's.

namespace phasescope::model {

// The CPU, and what reads_host_memory() has named.
bool in_host_memory(const at::Device& device);

// Another device type whose tensors lie in the host's memory: how tests show that models run on a
// device with no copy between the two.
void reads_host_memory(at::DeviceType type);

// `tensor` where the host can read it: itself, or a copy. Undefined stays undefined.
at::Tensor on_host(const at::Tensor& tensor);

}  // namespace phasescope::model
