#pragma once
// The check that every test of the CUDA form makes; defined in cuda_test.cpp.

#include <cstddef>
#include <functional>

#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"

namespace phasescope::kernels::testing {

/// Forward (with all probes and the sums by distance, or without) and backward of the problem in
/// the type, against float64, with at most twice the error of the plain operation in the same type.
/// cape_bytes: of the attention; where 0, strips of CAPE of 64 rows and keys with probes, else of
/// all.
void expect_right(const HalfType& type, const Problem& problem, bool with_probes,
                  std::size_t cape_bytes = 0);
/// The same with a case of the problem that the test has changed.
void expect_right(const HalfType& type, const Problem& problem, Case& c, bool with_probes,
                  std::size_t cape_bytes = 0);
/// The same with a change of what the device is given.
using DeviceChange = std::function<void(CudaAttention&)>;
void expect_right(const HalfType& type, const Problem& problem, Case& c, bool with_probes,
                  const DeviceChange& change);

}  // namespace phasescope::kernels::testing
