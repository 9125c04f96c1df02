#pragma once
// Every CUDA call and launch is checked, and says what failed and where.

#include <cuda_runtime.h>

#include <string>

#include "kernels/cuda/cuda_error.h"

#define PHASESCOPE_CUDA(call)                                                                      \
  do {                                                                                             \
    const cudaError_t phasescope_status = (call);                                                  \
    if (phasescope_status != cudaSuccess) {                                                        \
      throw ::phasescope::kernels::CudaError(                                                      \
          phasescope_status, std::string(#call) + " failed with \"" +                              \
                                 cudaGetErrorString(phasescope_status) + "\" at " __FILE__ + ":" + \
                                 std::to_string(__LINE__));                                        \
    }                                                                                              \
  } while (false)
