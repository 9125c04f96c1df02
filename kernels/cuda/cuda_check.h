#pragma once
// Every CUDA call and launch is checked, and says what failed and where.

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#define PHASESCOPE_CUDA(call)                                                                    \
  do {                                                                                           \
    const cudaError_t phasescope_status = (call);                                                \
    if (phasescope_status != cudaSuccess) {                                                      \
      throw std::runtime_error(std::string(#call) + " failed with \"" +                          \
                               cudaGetErrorString(phasescope_status) + "\" at " __FILE__ + ":" + \
                               std::to_string(__LINE__));                                        \
    }                                                                                            \
  } while (false)
