#pragma once

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

}  // namespace phasescope::kernels
