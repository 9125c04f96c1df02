// The emulation finds what it says it finds, on kernels that do one thing wrong each; and its
// fragments are those of CuTe.

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

namespace phasescope::kernels::cuda {
namespace {

/// What a launch of `threads` threads says, "" where it is right.
std::string error_of(const std::function<void()>& kernel, unsigned threads = 64) {
  const NvtxRange range("test");
  try {
    emulation::run_kernel({1, 1, 1}, threads, 1024, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void expect_error(const std::string& part, const std::function<void()>& kernel) {
  const std::string error = error_of(kernel);
  EXPECT_NE(error.find(part), std::string::npos) << "'" << error << "' for '" << part << "'";
}

class Emulation : public ::testing::Test {
 protected:
  void SetUp() override { data_ = static_cast<char*>(emulation::allocate(1024)); }
  void TearDown() override { emulation::release(data_); }

  std::uint32_t own() const { return threadIdx.x * 16; }
  char* data_ = nullptr;
};

TEST_F(Emulation, RunsWhatIsRight) {
  EXPECT_EQ(error_of([this] {
              copy_async(own(), data_ + own(), true);
              commit_copies();
              wait_copies<0>();
              __syncthreads();
              load_shared<float>(own() ^ 512);
              __syncthreads();
              store_shared(own(), 1.0f);
              __syncwarp();
              load_shared<float>((threadIdx.x ^ 1) * 16);
              __shfl_xor_sync(~0u, 1, 1);
            }),
            "");
}

TEST_F(Emulation, FindsLanesThatDiverge) {
  expect_error("is not where lane 0", [] {
    if (threadIdx.x % 32 != 7) __syncwarp();
  });
  expect_error("is not where lane 0", [] {
    if (threadIdx.x % 32 < 16) {
      __shfl_xor_sync(~0u, 1, 1);
    } else {
      __shfl_xor_sync(~0u, 1, 1);
    }
  });
  expect_error("waits for the block", [] {
    if (threadIdx.x < 32) __syncthreads();
  });
}

TEST_F(Emulation, FindsCopiesThatAreNotWaitedFor) {
  expect_error("not waited for", [this] {
    copy_async(own(), data_ + own(), true);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    load_shared<float>(own());
  });
  expect_error("ends without waiting", [this] { copy_async(own(), data_ + own(), true); });
  expect_error("overwrites a copy", [this] {
    copy_async(own(), data_ + own(), true);
    store_shared(own(), 1.0f);
  });
}

TEST_F(Emulation, FindsCopiesFromElsewhere) {
  expect_error("outside every allocation", [this] { copy_async(own(), data_ + 1024, true); });
  expect_error("alignment", [this] { copy_async(own(), data_ + 4, true); });
  expect_error("alignment", [this] { copy_async(4, data_, true); });
}

TEST_F(Emulation, FindsMemoryThatWasNeverWritten) {
  expect_error("never written", [this] { load_shared<float>(own()); });
  expect_error("leaves", [] { load_shared<float>(1024); });
}

// Which of two warps comes first is drawn: one reads what the other wrote, or overwrites what it
// read.
TEST_F(Emulation, FindsRacesBetweenWarps) {
  for (int n = 0; n < 8; ++n) {
    expect_error("another warp", [this] {
      store_shared(own(), 1.0f);
      __syncthreads();
      if (threadIdx.x < 32) {
        store_shared(own(), 1.0f);
      } else {
        load_shared<float>(own() ^ 512);
      }
    });
    expect_error("another warp", [this] {
      store_shared(own(), 1.0f);
      __syncthreads();
      if (threadIdx.x < 32) {
        copy_async(own(), data_, true);
        commit_copies();
        wait_copies<0>();
      } else {
        load_shared<float>(own() ^ 512);
      }
    });
    expect_error("another warp", [this] { store_shared(own() % 512, 1.0f); });
  }
}

TEST_F(Emulation, FindsRacesWithinAWarp) {
  expect_error("another lane wrote", [this] {
    if (threadIdx.x % 2 == 0) {
      store_shared(own(), 1.0f);
    } else {
      load_shared<float>(own() ^ 16);
    }
  });
}

TEST_F(Emulation, FindsWritesOutside) {
  auto* data = static_cast<char*>(emulation::allocate(10));
  data[10] = 0;
  EXPECT_THROW(emulation::release(data), std::runtime_error);
}

TEST_F(Emulation, StopsAtReadsPastTheEnd) {
  auto* data = static_cast<volatile char*>(emulation::allocate(4096));
  EXPECT_EQ(data[4095], static_cast<char>(0xFF));
  EXPECT_DEATH(static_cast<void>(data[4096]), "");
  emulation::release(const_cast<char*>(data));
}

TEST_F(Emulation, MemoryThatRunsOutIsSaidWithWhatIsFree) {
  try {
    cuda_kernels().allocate(std::size_t{1} << 60);
    ADD_FAILURE() << "an exbibyte was there";
  } catch (const CudaOutOfMemory& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_STREQ(error.what(),
                 "CUDA out of memory. Tried to allocate 1073741824.00 GiB. The device has a total "
                 "capacity of 80.00 GiB of which 3.00 GiB is free.");
  }
  void* data = cuda_kernels().allocate(16);
  EXPECT_NE(data, nullptr);
  cuda_kernels().release(data);
}

TEST_F(Emulation, WantsAnNvtxRange) {
  EXPECT_THROW(emulation::run_kernel({1, 1, 1}, 32, 0, [] {}), std::runtime_error);
}

// CuTe's MMA_Traits<SM80_16x8x16_F32BF16BF16F32_TN>: (lane, value) to m + 16 k, n + 8 k, m + 16 n,
// as strides of lane % 4, lane / 4 and the bits of the value's number.
int cute_a(int lane, int v) {
  return lane % 4 * 32 + lane / 4 + v % 2 * 16 + v / 2 % 2 * 8 + v / 4 * 128;
}
int cute_b(int lane, int v) { return lane % 4 * 16 + lane / 4 + v % 2 * 8 + v / 2 * 64; }
int cute_c(int lane, int v) { return lane % 4 * 32 + lane / 4 + v % 2 * 16 + v / 2 * 8; }

TEST_F(Emulation, HasTheFragmentsOfCute) {
  // Small whole numbers, exact in both types.
  const auto a = [](int at) { return static_cast<float>((at * 7 + at / 16) % 11 - 5); };
  const auto b = [](int at) { return static_cast<float>((at * 5 + at / 8) % 13 - 6); };
  const NvtxRange range("test");
  emulation::run_kernel({1, 1, 1}, 32, 0, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    std::uint32_t as[4], bs[2];
    for (int r = 0; r < 4; ++r) {
      as[r] = Half<__half>::pack(a(cute_a(lane, 2 * r)), a(cute_a(lane, 2 * r + 1)));
    }
    for (int r = 0; r < 2; ++r) {
      bs[r] = Half<__half>::pack(b(cute_b(lane, 2 * r)), b(cute_b(lane, 2 * r + 1)));
    }
    float c[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    Half<__half>::multiply(c, as, bs[0], bs[1]);
    for (int v = 0; v < 4; ++v) {
      const int m = cute_c(lane, v) % 16, n = cute_c(lane, v) / 16;
      float sum = 0.5f;
      for (int k = 0; k < 16; ++k) sum += a(m + 16 * k) * b(n + 8 * k);
      EXPECT_EQ(c[v], sum) << "row " << m << ", column " << n;
    }
  });
}

}  // namespace
}  // namespace phasescope::kernels::cuda
