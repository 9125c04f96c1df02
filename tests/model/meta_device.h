#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

// LibTorch's meta device, whose tensors have shapes and no numbers, for programs of tests that
// compile meta_device.cpp: of every operator that the CPU has it knows the shapes, and a host that
// asks it for numbers is refused.

namespace phasescope::model {

struct MetaCounts {
  std::int64_t to_device = 0, to_host = 0;  // copies of tensors
  std::int64_t reads = 0;                   // single values that the host asked for
};
MetaCounts meta_counts();

// As long as one lives, a host that asks for numbers gets zeros, and is counted. One at a time.
class ZerosOfMeta {
 public:
  ZerosOfMeta();
  ~ZerosOfMeta();
  ZerosOfMeta(const ZerosOfMeta&) = delete;
  ZerosOfMeta& operator=(const ZerosOfMeta&) = delete;
};

// What stands for a tensor's memory: its views have the same.
const void* meta_memory_of(const at::Tensor& x);
// Told of that of each of the device's tensors that an operator is given, before it runs; nobody
// where it is empty.
void watch_meta_reads(std::function<void(const void* memory)> told);

}  // namespace phasescope::model
