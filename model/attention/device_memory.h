#pragma once
// Memory of a device for one call of the CUDA kernels, and for gradients.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "model/attention/fused_attention.h"
#include "model/host_memory.h"

namespace phasescope::model {

// Device memory of one call, of tokens in a 16-bit type. Tensors that lie on a device stay there,
// and so does what is made of them: no copy, and memory of LibTorch's allocator on its current
// device. Those of the CPU are copied there, and what is to come back is written into the host's
// memory by finish().
class DeviceMemory : public TypedNumbers<DeviceMemory> {
 public:
  DeviceMemory(const kernels::CudaKernels& kernels, at::ScalarType type, const at::Device& device)
      : cuda_(kernels), type_(type), device_(device) {}
  ~DeviceMemory() {
    for (void* data : allocated_) cuda_.release(data);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  const kernels::CudaKernels& cuda() const { return cuda_; }

  void* allocate(std::size_t bytes) {
    if (resident()) {
      kept_.push_back(at::empty({static_cast<std::int64_t>(bytes)}, options(at::kByte)));
      return kept_.back().mutable_data_ptr();
    }
    allocated_.push_back(nullptr);  // room first: what was allocated must not be lost
    allocated_.back() = cuda_.allocate(bytes);
    bytes_ += bytes;
    return allocated_.back();
  }
  // The bytes of all that was allocated.
  std::size_t bytes() const { return bytes_; }

  // What the kernels are enqueued on: LibTorch's current stream, on which its operators made what
  // lies on the device; for copies of the host's tensors the default one.
  void* stream() const {
    if (!device_.is_cuda()) return nullptr;
    const c10::impl::VirtualGuardImpl guard(device_.type());
    return guard.getStreamNativeHandle(guard.getStream(device_));
  }

  template <typename T>
  const T* copy(const T* host, std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    void* data = allocate(bytes);
    cuda_.upload(data, host, bytes);
    return static_cast<const T*>(data);
  }

  // A copy of the host's array, or the device's own; null for null.
  template <typename T>
  const T* given(const T* host, std::int64_t count) {
    return host == nullptr || resident() ? host : copy(host, count);
  }
  // A copy of the host's array that comes back into it, or the device's own; null for null.
  template <typename T>
  T* mirror(T* host, std::int64_t count) {
    if (host == nullptr || resident()) return host;
    T* data = const_cast<T*>(copy<T>(host, count));
    returning_.push_back({host, data, static_cast<std::size_t>(count) * sizeof(T)});
    return data;
  }

  const std::int64_t* integers(const std::vector<std::int64_t>& values) {
    if (!resident()) return copy(values.data(), static_cast<std::int64_t>(values.size()));
    kept_.push_back(list_on(values, device_));
    return static_cast<const std::int64_t*>(kept_.back().const_data_ptr());
  }

  // The tensor's numbers in a dtype, T in the kernels' words, contiguous.
  template <typename T>
  const T* numbers(const at::Tensor& tensor, at::ScalarType dtype) {
    const at::Tensor values = tensor.to(dtype).contiguous();
    const T* data = static_cast<const T*>(values.const_data_ptr());
    if (!resident()) return copy(data, values.numel());
    kept_.push_back(values);
    return data;
  }

  at::TensorOptions options(at::ScalarType dtype) const {
    return at::TensorOptions(dtype).device(device_);
  }

  // A (B, H, N, d) tensor in the 16-bit type.
  kernels::InputTensor tokens(const at::Tensor& tensor) {
    const at::Tensor values = tensor.to(type_).contiguous();
    return {numbers<std::uint16_t>(values, type_), values.stride(0), values.stride(1),
            values.stride(2), storage()};
  }

  // One to write to, where the operands are, as (B, N, H, d), so that joining the heads is free.
  kernels::OutputTensor output(at::Tensor& host, at::IntArrayRef sizes) {
    host = at::empty({sizes[0], sizes[2], sizes[1], sizes[3]}, options(type_)).transpose(1, 2);
    if (resident()) {
      return {host.mutable_data_ptr(), host.stride(0), host.stride(1), host.stride(2), storage()};
    }
    const std::size_t bytes = static_cast<std::size_t>(host.numel()) * sizeof(std::uint16_t);
    void* data = allocate(bytes);
    returning_.push_back({host.mutable_data_ptr(), data, bytes});
    return {data, host.stride(0), host.stride(1), host.stride(2), storage()};
  }

  // Waits for the kernels and brings back what they made.
  void finish() {
    for (const Returning& one : returning_) cuda_.download(one.host, one.device, one.bytes);
  }

 private:
  struct Returning {
    void* host;
    const void* device;
    std::size_t bytes;
  };

  kernels::Storage storage() const {
    return type_ == at::kHalf ? kernels::Storage::float16 : kernels::Storage::bfloat16;
  }

  bool resident() const { return !device_.is_cpu(); }

  const kernels::CudaKernels& cuda_;
  at::ScalarType type_;  // of tokens
  at::Device device_;    // of the operands
  std::vector<at::Tensor> kept_;
  std::vector<void*> allocated_;
  std::vector<Returning> returning_;
  std::size_t bytes_ = 0;
};

// Memory for gradients there, which come back.
struct DeviceGradientMemory {
  DeviceMemory& memory;

  float* floats(at::Tensor& tensor) const {
    tensor = at::empty(tensor.sizes(), memory.options(at::kFloat));
    return memory.mirror(tensor.mutable_data_ptr<float>(), tensor.numel());
  }
  double* doubles(at::Tensor& tensor) const {
    tensor = at::empty(tensor.sizes(), memory.options(at::kDouble));
    return memory.mirror(tensor.mutable_data_ptr<double>(), tensor.numel());
  }
  kernels::OutputTensor tokens(at::Tensor& tensor) const {
    const std::vector<std::int64_t> sizes = tensor.sizes().vec();
    return memory.output(tensor, sizes);
  }
};

}  // namespace phasescope::model
