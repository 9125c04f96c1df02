#include "phantom_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <memory>
#include <utility>

#include "boxed_tensors.h"
#include "guarded_memory.h"
#include "model/host_memory.h"

namespace phasescope::model {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

struct Counters {
  std::atomic<std::int64_t> to_device = 0, to_host = 0, reads = 0, allocations = 0;
};
Counters& counters() {
  static Counters all;
  return all;
}

MemoryRead& memory_read() {
  static MemoryRead told;
  return told;
}

at::Device the_device() { return {kType, 0}; }

// One device, always the current one, with one stream.
struct PhantomGuard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return the_device(); }
  c10::Device getDevice() const override { return the_device(); }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, the_device());
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, the_device());
  }
};

// Autograd asks the device's streams, and LibTorch has such a device only by these.
struct PhantomHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

// While one lives, the device works on its memory, of which this thread allocates more.
class AtWork {
 public:
  AtWork() {
    GuardedMemory::shared().open();
    ++depth();
  }
  ~AtWork() {
    --depth();
    GuardedMemory::shared().close();
  }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  static bool here() { return depth() > 0; }

 private:
  static int& depth() {
    static thread_local int count = 0;
    return count;
  }
};

// The CPU's own allocator, but for what operators of the device allocate while its memory is
// guarded: their results are the device's.
class HostAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    return AtWork::here() && GuardedMemory::shared().guards() ? guarded(bytes, at::kCPU)
                                                              : own_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return own_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static c10::DataPtr guarded(std::size_t bytes, c10::Device device) {
    void* memory = GuardedMemory::shared().allocate(bytes);
    return {memory, memory, [](void* given) { GuardedMemory::shared().free(given); }, device};
  }

 private:
  c10::Allocator* const own_ = c10::GetCPUAllocator();
};

// Memory of the CPU's own allocator, or guarded memory.
class PhantomAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    ++counters().allocations;
    if (GuardedMemory::shared().guards()) return HostAllocator::guarded(bytes, the_device());
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    return {memory.get(), memory.release_context(), memory.get_deleter(), the_device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const AtWork at_work;
    default_copy_data(to, from, bytes);
  }
};

PhantomAllocator& allocator() {
  static PhantomAllocator one;
  return one;
}

// The same numbers, sizes and strides as a tensor of the other side. `x` lives as long as the
// result.
at::Tensor alias_of(const at::Tensor& x, const c10::Device& device, c10::DispatchKeySet keys) {
  auto* keeper = new at::Tensor(x);
  const c10::Storage& storage = x.storage();
  c10::DataPtr data(
      const_cast<void*>(storage.data()), keeper,
      [](void* kept) { delete static_cast<at::Tensor*>(kept); }, device);
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data),
                   /*allocator=*/nullptr, /*resizable=*/false),
      keys, x.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(x.sizes(), x.strides(), x.storage_offset());
  return alias;
}

at::Tensor as_cpu(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  // What is to be made larger must own its memory.
  if (x.numel() == 0) {
    return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU));
  }
  return alias_of(x, at::kCPU, c10::DispatchKeySet(c10::DispatchKey::CPU));
}

at::Tensor as_phantom(const at::Tensor& x) { return alias_of(x, the_device(), kKeys); }

void run_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const AtWork at_work;
  if (reads_values(op.schema().name())) ++counters().reads;
  bool of_host = false, of_device = false;
  const std::vector<Stand> stands = run_on_cpu(
      op, stack,
      [&](const at::Tensor& x) {
        (x.is_cpu() ? of_host : of_device) = true;
        if (!x.is_cpu() && memory_read()) memory_read()(x.storage().data());
        TORCH_CHECK(!x.is_cpu() || x.dim() == 0, "an operand of ", op.schema().name(),
                    " lies on the host, beside a device");
        return as_cpu(x);
      },
      &as_phantom);
  // What was given to be filled may have another size now.
  for (const Stand& one : stands) {
    if (one.given.is_cpu() || one.stand_in.sizes() == one.given.sizes()) continue;
    const at::Tensor made = as_phantom(one.stand_in);
    at::TensorImpl* impl = one.given.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(made.storage());
    impl->set_sizes_and_strides(made.sizes(), made.strides(), made.storage_offset());
  }
}

torch::CppFunction boxed() { return torch::CppFunction::makeFromBoxedFunction<&run_boxed>(); }

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(), kKeys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys,
                                           dtype.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  const AtWork at_work;
  if (from.is_cpu() != to.is_cpu()) ++(from.is_cpu() ? counters().to_device : counters().to_host);
  as_cpu(to).copy_(as_cpu(from));
  return to;
}

at::Scalar local_scalar(const at::Tensor& x) {
  ++counters().reads;
  const AtWork at_work;
  return as_cpu(x).item();
}

void register_phantom() {
  static PhantomHooks hooks;
  c10::register_privateuse1_backend("phantom");
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kType, &allocator());
  // Never taken back: operators of the device may run until the program ends.
  auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                     __FILE__, __LINE__);
  library->impl("empty.memory_format", &empty);
  library->impl("empty_strided", &empty_strided);
  library->impl("_copy_from", &copy_from);
  library->impl("_local_scalar_dense", &local_scalar);
  const std::set<std::string> own = {"aten::empty", "aten::empty_strided", "aten::_copy_from",
                                     "aten::_local_scalar_dense"};
  register_for(*library, &boxed,
               [&own](const c10::OperatorHandle& op) { return !own.contains(op.schema().name()); });
  reads_host_memory(kType, [](bool begins) {
    begins ? GuardedMemory::shared().open() : GuardedMemory::shared().close();
  });
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, PhantomGuard);

}  // namespace

at::Device phantom_device() {
  static const bool registered = (register_phantom(), true);
  (void)registered;
  return the_device();
}

PhantomCounts phantom_counts() {
  const Counters& all = counters();
  return {all.to_device, all.to_host, all.reads, all.allocations};
}

void reset_phantom_counts() {
  Counters& all = counters();
  all.to_device = all.to_host = all.reads = all.allocations = 0;
}

GuardedPhantom::GuardedPhantom() {
  (void)phantom_device();
  static HostAllocator host;
  static const bool taken = (c10::SetCPUAllocator(&host, /*priority=*/1), true);
  (void)taken;
  GuardedMemory::shared().guard(true);
}

GuardedPhantom::~GuardedPhantom() { GuardedMemory::shared().guard(false); }

void watch_phantom_reads(MemoryRead told) { memory_read() = std::move(told); }

}  // namespace phasescope::model
