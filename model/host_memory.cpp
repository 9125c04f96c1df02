#include "model/host_memory.h"

#include <ATen/ATen.h>

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

}  // namespace phasescope::model
