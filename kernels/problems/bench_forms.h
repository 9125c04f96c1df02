#pragma once
// What benchmarks time, on a CPU and on a device, beside LibTorch and without.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/problems/problems.h"

namespace phasescope::kernels::problems {

struct BenchForm {
  std::string name;  ///< of its row
  Problem problem;   ///< but for its shape, seed and storage
};

/// In the order of a table's rows; plain is the first.
std::vector<BenchForm> bench_forms(std::int64_t tokens, std::int64_t head_dim);

}  // namespace phasescope::kernels::problems
