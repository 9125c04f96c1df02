#pragma once
// Which kernels have passed their tests on which devices. What is in the list runs under the name
// `cuda` and is chosen by itself for models on such a device; all else is `cuda-unverified`.

#include <algorithm>
#include <string_view>
#include <vector>

namespace phasescope::kernels {

/// A kernel by the name of its sources ("plain", "table_tokens", "tape"), forward and backward; the
/// compute capability of the device (90 for 9.0), whose architecture it was compiled for.
struct VerifiedKernel {
  std::string_view kernel;
  int capability;
};

/// The list, written by `./dev bench --import` from what a device has said.
inline const std::vector<VerifiedKernel>& verified_kernels() {
  static const std::vector<VerifiedKernel> all = {
#include "kernels/cuda/verified.inc"
  };
  return all;
}

inline bool is_verified(const std::vector<VerifiedKernel>& list, std::string_view kernel,
                        int capability) {
  return std::any_of(list.begin(), list.end(), [&](const VerifiedKernel& one) {
    return one.kernel == kernel && one.capability == capability;
  });
}

}  // namespace phasescope::kernels
