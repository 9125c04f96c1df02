#include "model/host_memory.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

namespace phasescope::model {
namespace {

std::atomic<at::DeviceType> other_type = at::DeviceType::CPU;
std::atomic<void (*)(bool)> told_of_access = nullptr;

// The lists that devices have, the latest last. A text asks for few of them: older ones may go.
class KeptLists {
 public:
  at::Tensor get(const std::vector<std::int64_t>& values, const at::Device& device) {
    const std::lock_guard lock(mutex_);
    for (const Kept& one : lists_) {
      if (one.device == device && one.values == values) return one.there;
    }
    if (lists_.size() == kMost) lists_.pop_front();
    lists_.push_back({device, values, written(values, device)});
    return lists_.back().there;
  }

 private:
  struct Kept {
    at::Device device;
    std::vector<std::int64_t> values;
    at::Tensor there;
  };
  static constexpr std::size_t kMost = 64;

  static at::Tensor written(const std::vector<std::int64_t>& values, const at::Device& device) {
    const auto count = static_cast<std::int64_t>(values.size());
    at::Tensor list = at::empty({count}, at::TensorOptions(at::kLong).device(device));
    const auto value = [&](std::int64_t n) { return values[static_cast<std::size_t>(n)]; };
    // Numbers that follow each other are written at once: a text's distances are thousands.
    for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
      while (++end < count && value(end) == value(end - 1) + 1) {
      }
      at::Tensor run = list.slice(0, begin, end);
      at::arange_out(run, value(begin), value(end - 1) + 1, 1);
    }
    return list;
  }

  std::mutex mutex_;
  std::deque<Kept> lists_;
};

// The copies that devices have of tensors which somebody still holds.
class KeptCopies {
 public:
  at::Tensor get(const at::Tensor& tensor, const at::Device& device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(copies_, [](const Kept& one) { return one.from.expired(); });
    for (const Kept& one : copies_) {
      if (one.there.device() == device && one.of == tensor.unsafeGetTensorImpl()) return one.there;
    }
    copies_.push_back(
        {Weak(tensor.getIntrusivePtr()), tensor.unsafeGetTensorImpl(), tensor.to(device)});
    return copies_.back().there;
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Kept {
    Weak from;  // which keeps the address from being another tensor's
    const c10::TensorImpl* of;
    at::Tensor there;
  };

  std::mutex mutex_;
  std::deque<Kept> copies_;
};

}  // namespace

at::Tensor kept_on(const at::Tensor& tensor, const at::Device& device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  static auto* copies = new KeptCopies;  // never taken down, as below
  return copies->get(tensor, device);
}

at::Tensor list_on(const std::vector<std::int64_t>& values, const at::Device& device) {
  if (device.is_cpu()) return at::tensor(values, at::kLong);
  // Never taken down: a device may be gone by the end of the program.
  static auto* lists = new KeptLists;
  return lists->get(values, device);
}

bool in_host_memory(const at::Device& device) {
  return device.is_cpu() || device.type() == other_type.load();
}

void reads_host_memory(at::DeviceType type, void (*told)(bool)) {
  other_type = type;
  told_of_access = told;
}

KernelAccess::KernelAccess() {
  if (const auto told = told_of_access.load()) told(true);
}

KernelAccess::~KernelAccess() {
  if (const auto told = told_of_access.load()) told(false);
}

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
