// What surrounds launches: attributes set once, and devices that the kernels are not for.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/shared_limits.h"

namespace phasescope::kernels::cuda {
namespace {

TEST(SharedLimits, AreSetOnceAndOnlyRise) {
  SharedLimits limits;
  std::vector<int> set;
  const auto keep = [&set](int bytes) { set.push_back(bytes); };
  const int one = 0, other = 0;
  limits.require(&one, 0, SharedLimits::kGiven, keep);
  EXPECT_TRUE(set.empty());  // every kernel has these
  for (const int bytes : {80 << 10, 80 << 10, 64 << 10, 96 << 10, 80 << 10}) {
    limits.require(&one, 0, bytes, keep);
  }
  EXPECT_EQ(set, (std::vector<int>{80 << 10, 96 << 10}));
  limits.require(&one, 1, 64 << 10, keep);    // of another device
  limits.require(&other, 0, 64 << 10, keep);  // of another kernel
  EXPECT_EQ(set.size(), 4u);
}

TEST(SharedLimits, StayWhereTheyAreNotSet) {
  SharedLimits limits;
  const int kernel = 0;
  int calls = 0;
  const auto fail = [&calls](int) {
    ++calls;
    throw std::runtime_error("refused");
  };
  EXPECT_THROW(limits.require(&kernel, 0, 64 << 10, fail), std::runtime_error);
  EXPECT_THROW(limits.require(&kernel, 0, 64 << 10, fail), std::runtime_error);
  EXPECT_EQ(calls, 2);
}

// Two threads that launch one kernel, one of them with less: neither finds less than it asked for.
TEST(SharedLimits, HoldForTwoThreads) {
  SharedLimits limits;
  const int kernel = 0;
  int limit = 0;  // the driver's, under the lock of require()
  bool fell = false;
  const auto ask = [&](int bytes) {
    for (int n = 0; n < 1000; ++n) {
      limits.require(&kernel, 0, bytes + n, [&](int most) {
        fell = fell || most < limit;
        limit = most;
      });
    }
  };
  std::thread more(ask, 96 << 10), less(ask, 64 << 10);
  more.join();
  less.join();
  EXPECT_FALSE(fell);
  EXPECT_EQ(limit, (96 << 10) + 999);
}

TEST(CudaChecks, RefuseDevicesWithoutTheInstructions) {
  std::string reason;
  for (const int capability : {75, 80, 89, 90}) {
    emulated_capability = capability;
    EXPECT_EQ(cuda_capability(), capability);
    EXPECT_EQ(cuda_available(reason), capability >= 80);
  }
  emulated_capability = 80;
  EXPECT_EQ(reason,
            "The CUDA kernels need a device of compute capability 8.0 or more, and this one has "
            "7.5");
}

}  // namespace
}  // namespace phasescope::kernels::cuda
