#pragma once
// Runs with a number of threads, and whether two gave the same.

#include <omp.h>

#include <cstring>
#include <vector>

namespace phasescope::kernels::testing {

/// So many of OpenMP's threads while it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace phasescope::kernels::testing
