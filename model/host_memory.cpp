#include "model/host_memory.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>

namespace phasescope::model {
namespace {

std::atomic<at::DeviceType> other_type = at::DeviceType::CPU;

}  // namespace

bool in_host_memory(const at::Device& device) {
  return device.is_cpu() || device.type() == other_type.load();
}

void reads_host_memory(at::DeviceType type) { other_type = type; }

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kCPU) : tensor;
}

at::Tensor HostCopies::begin(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (!tensor.is_cuda()) return on_host(tensor);
  const at::Tensor there = tensor.detach().contiguous();
  const at::Tensor here =
      at::empty(there.sizes(), there.options().device(at::kCPU).pinned_memory(true));
  here.copy_(there, /*non_blocking=*/true);
  if (std::find(devices_.begin(), devices_.end(), there.device()) == devices_.end()) {
    devices_.push_back(there.device());
  }
  return here;
}

void HostCopies::begin_all(std::initializer_list<at::Tensor*> tensors) {
  for (at::Tensor* tensor : tensors) *tensor = begin(*tensor);
}

void HostCopies::wait() {
  for (const at::Device& device : devices_) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.synchronizeStream(guard.getStream(device));
  }
  devices_.clear();
}

}  // namespace phasescope::model
