#pragma once

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace phasescope::kernels {

/// A CUDA call or launch that failed. Codes from 700 to 719 leave the process without a device.
class CudaError : public std::runtime_error {
 public:
  CudaError(int code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// The device has no room for `wanted` bytes. It says so in the words of PyTorch's allocator, so
/// that who reads those reads these: "CUDA out of memory. Tried to allocate 2.00 GiB. The device
/// has a total capacity of 80.00 GiB of which 1.25 GiB is free."
class CudaOutOfMemory : public CudaError {
 public:
  CudaOutOfMemory(int code, std::size_t wanted, std::size_t free, std::size_t total)
      : CudaError(code, "CUDA out of memory. Tried to allocate " + words_of(wanted) +
                            ". The device has a total capacity of " + words_of(total) +
                            " of which " + words_of(free) + " is free.") {}

 private:
  static std::string words_of(std::size_t bytes) {
    const double mebi = static_cast<double>(bytes) / (1 << 20);
    char text[32];
    std::snprintf(text, sizeof text, mebi < 1024 ? "%.2f MiB" : "%.2f GiB",
                  mebi < 1024 ? mebi : mebi / 1024);
    return text;
  }
};

}  // namespace phasescope::kernels
