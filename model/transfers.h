#pragma once

#include <cstdint>

namespace phasescope::model {

// Counts what LibTorch's operators bring across between the host and devices while it lives, on all
// threads. One at a time; what the CUDA kernels copy themselves (kernels/cuda) is not among it.
class Transfers {
 public:
  Transfers();
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  std::int64_t to_device() const;  // tensors
  std::int64_t to_host() const;    // tensors, and single values that the host asked for

 private:
  std::uint64_t handle_;
};

}  // namespace phasescope::model
