// The emulation finds what it says it finds of copies of tensors, barriers and products of a
// warpgroup, on kernels that do one thing wrong each; and their layouts are those of CuTe.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/kernels/half_types.h"

namespace phasescope::kernels::cuda {
namespace {

// Shared memory here: two tiles of 8192 bytes, then barriers.
constexpr std::uint32_t kTile = 0, kOther = 8192, kBarrier = 16384, kSecond = kBarrier + 8;
constexpr unsigned kWarpgroup = 128;

/// What a launch of a warpgroup says, "" where it is right.
std::string error_of(const std::function<void()>& kernel) {
  const NvtxRange range("test");
  try {
    emulation::run_kernel({1, 1, 1}, kWarpgroup, kBarrier + 64, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}
/// `parts`: one of these, with | between them, as the order of the threads has it.
void expect_error(const std::string& parts, const std::function<void()>& kernel) {
  const std::string error = error_of(kernel);
  EXPECT_TRUE(std::regex_search(error, std::regex(parts)))
      << "'" << error << "' for '" << parts << "'";
}

/// A (1, 1, 70, 72) tensor of small whole numbers, of which a box holds 64 x 64.
class HopperEmulation : public ::testing::Test {
 protected:
  static constexpr int kTensorRows = 70, kChannels = 72;

  void SetUp() override {
    data_ = static_cast<std::uint16_t*>(emulation::allocate(kTensorRows * kChannels * 2));
    for (int n = 0; n < kTensorRows * kChannels; ++n) data_[n] = testing::to_float16(number(n));
    map_ = tensor_map({data_, kTensorRows * kChannels, kTensorRows * kChannels, kChannels},
                      kChannels, kTensorRows, 1, 1);
  }
  void TearDown() override { emulation::release(data_); }

  static float number(int n) { return static_cast<float>((n * 7 + n / 16) % 11 - 5); }
  /// Of a box from a row and a channel on; zeros beyond the tensor.
  static float of_box(int row, int channel, int n, int c) {
    const int r = row + n, d = channel + c;
    return r < kTensorRows && d < kChannels ? number(r * kChannels + d) : 0;
  }

  static void make_barriers() {
    if (threadIdx.x == 0) {
      make_barrier(kBarrier, 1);
      make_barrier(kSecond, 4);
      fence_barriers();
    }
    __syncthreads();
  }
  void copy(std::uint32_t to, int row = 0, int channel = 0) const {
    if (threadIdx.x != 0) return;
    arrive_expecting(kBarrier, 8192);
    copy_box(to, map_, channel, row, 0, 0, kBarrier);
  }
  /// Two tiles that are there.
  void have_tiles() const {
    make_barriers();
    if (threadIdx.x == 0) {
      arrive_expecting(kBarrier, 2 * 8192);
      for (const std::uint32_t to : {kTile, kOther}) copy_box(to, map_, 0, 0, 0, 0, kBarrier);
    }
    wait_phase(kBarrier, 0);
  }
  /// A tile that is there.
  void have_tile() const {
    make_barriers();
    copy(kTile);
    wait_phase(kBarrier, 0);
  }

  std::uint16_t* data_ = nullptr;
  TensorMap map_;
};

// CuTe's MMA_64x64x16_F32F16F16_RS: (thread, value) to m + 64 k of a (ALayout_64x16) and m + 64 n
// of c (CLayout_64xN), as strides of lane % 4, lane / 4, the warp and the bits of the value's
// number.
int cute_place(int thread, int v) {
  const int lane = thread % 32;
  return lane % 4 * 128 + lane / 4 + thread / 32 * 16 + v % 2 * 64 + v / 2 % 2 * 8 + v / 4 * 512;
}

TEST_F(HopperEmulation, MultipliesAsCuteDoes) {
  const auto a = [](int at) { return static_cast<float>((at * 5 + at / 64) % 13 - 6); };
  // The box goes past the tensor's rows and channels.
  const int row = 10, channel = 16;
  for (const bool by_rows : {false, true}) {
    // Of columns: channels 32 .. 47 of the tile's rows. Of rows: rows 16 .. 31 with all channels.
    const std::uint32_t at = kTile + (by_rows ? 16 * 128 : 32 * 2);
    const auto b = [&](int k, int n) {
      return by_rows ? of_box(row, channel, 16 + k, n) : of_box(row, channel, n, 32 + k);
    };
    EXPECT_EQ(error_of([&] {
                make_barriers();
                copy(kTile, row, channel);
                wait_phase(kBarrier, 0);
                const int thread = static_cast<int>(threadIdx.x);
                std::uint32_t as[4];
                for (int r = 0; r < 4; ++r) {
                  as[r] = Half<__half>::pack(a(cute_place(thread, 2 * r)),
                                             a(cute_place(thread, 2 * r + 1)));
                }
                float c[8][4];
                for (auto& four : c) {
                  for (float& x : four) x = 0.5f;
                }
                fence_products();
                if (by_rows) {
                  multiply_group<__half, true>(c, as, descriptor(at));
                } else {
                  multiply_group<__half, false>(c, as, descriptor(at));
                }
                commit_products();
                wait_products<0>();
                for (int v = 0; v < 32; ++v) {
                  const int m = cute_place(thread, v) % 64, n = cute_place(thread, v) / 64;
                  float sum = 0.5f;
                  for (int k = 0; k < 16; ++k) sum += a(m + 64 * k) * b(k, n);
                  ASSERT_EQ(c[v / 4][v % 4], sum) << "row " << m << ", column " << n;
                }
              }),
              "");
  }
}

// CuTe's MMA_64x64x16_F32F16F16_SS: both operands by columns of 16 channels.
TEST_F(HopperEmulation, MultipliesRowsOfTilesAsCuteDoes) {
  const int row = 3, channel = 8, other_row = 20, other_channel = 0;
  EXPECT_EQ(error_of([&] {
              make_barriers();
              if (threadIdx.x == 0) {
                arrive_expecting(kBarrier, 2 * 8192);
                copy_box(kTile, map_, channel, row, 0, 0, kBarrier);
                copy_box(kOther, map_, other_channel, other_row, 0, 0, kBarrier);
              }
              wait_phase(kBarrier, 0);
              float c[8][4];
              for (auto& four : c) {
                for (float& x : four) x = 0.5f;
              }
              fence_products();
              multiply_tiles<__half>(c, descriptor(kTile + 16 * 2), descriptor(kOther + 48 * 2));
              commit_products();
              wait_products<0>();
              const int thread = static_cast<int>(threadIdx.x);
              for (int v = 0; v < 32; ++v) {
                const int m = cute_place(thread, v) % 64, n = cute_place(thread, v) / 64;
                float sum = 0.5f;
                for (int k = 0; k < 16; ++k) {
                  sum +=
                      of_box(row, channel, m, 16 + k) * of_box(other_row, other_channel, n, 48 + k);
                }
                ASSERT_EQ(c[v / 4][v % 4], sum) << "row " << m << ", column " << n;
              }
            }),
            "");
}

TEST_F(HopperEmulation, LeavesOutWhatTheSumsWere) {
  EXPECT_EQ(error_of([this] {
              have_tile();
              const std::uint32_t none[4] = {};
              float c[8][4];
              for (auto& four : c) {
                for (float& x : four) x = 3;
              }
              fence_products();
              multiply_group<__half, false>(c, none, descriptor(kTile), 0);
              commit_products();
              // Until they are waited for there are none.
              EXPECT_TRUE(std::isnan(c[0][0]));
              wait_products<1>();
              EXPECT_TRUE(std::isnan(c[0][0]));
              wait_products<0>();
              EXPECT_EQ(c[7][3], 0);
            }),
            "");
}

TEST_F(HopperEmulation, FindsCopiesThatAreNotWaitedFor) {
  expect_error("not waited for", [this] {
    make_barriers();
    copy(kTile);
    __syncthreads();
    load_shared<float>(kTile);
  });
  // Warp 1 alone waits: the others may find the bytes there, on their way, or not sent for yet.
  for (int n = 0; n < 8; ++n) {
    expect_error("shared memory that was never written|waited for", [this] {
      make_barriers();
      copy(kTile);
      if (threadIdx.x / 32 == 1) wait_phase(kBarrier, 0);
      load_shared<float>(kTile);
    });
  }
  expect_error("overwrites a copy", [this] {
    make_barriers();
    copy(kTile);
    if (threadIdx.x == 0) store_shared(kTile, 1.0f);
  });
}

TEST_F(HopperEmulation, FindsTilesThatAreOverwrittenTooEarly) {
  // What products read until they are waited for.
  expect_error("not waited for", [this] {
    have_tile();
    const std::uint32_t a[4] = {};
    float c[8][4];
    fence_products();
    multiply_group<__half, false>(c, a, descriptor(kTile), 0);
    commit_products();
    copy(kTile);
    wait_products<0>();
  });
  // The same of what lies to the left.
  expect_error("not waited for", [this] {
    have_tiles();
    float c[8][4];
    fence_products();
    multiply_tiles<__half>(c, descriptor(kTile), descriptor(kOther), 0);
    commit_products();
    copy(kTile);
    wait_products<0>();
  });
  // What other warps read, and did not say that they are done with: they find it overwritten, or
  // their reading is found.
  for (int n = 0; n < 8; ++n) {
    EXPECT_NE(error_of([this] {
                have_tile();
                load_shared<float>(kTile + threadIdx.x * 4);
                copy(kTile);
              }),
              "");
  }
  EXPECT_EQ(error_of([this] {
              have_tile();
              load_shared<float>(kTile + threadIdx.x * 4);
              __syncwarp();
              if (threadIdx.x % 32 == 0) arrive(kSecond);
              if (threadIdx.x / 32 != 0) return;
              wait_phase(kSecond, 0);
              copy(kTile);
              wait_phase(kBarrier, 1);
              load_shared<float>(kTile);
            }),
            "");
}

TEST_F(HopperEmulation, FindsProductsOutOfOrder) {
  const std::uint32_t a[4] = {};
  const auto multiply = [&a](float(&c)[8][4], std::uint32_t tile) {
    multiply_group<__half, false>(c, a, descriptor(tile), 0);
  };
  expect_error("without a fence", [&] {
    have_tile();
    float c[8][4];
    multiply(c, kTile);
  });
  expect_error("has not committed", [&] {
    have_tile();
    float c[8][4];
    fence_products();
    multiply(c, kTile);
    wait_products<0>();
  });
  expect_error("ends without waiting for its products", [&] {
    have_tile();
    float c[8][4];
    fence_products();
    multiply(c, kTile);
    commit_products();
  });
  expect_error("what threads wrote", [&] {
    have_tile();
    for (std::uint32_t n = threadIdx.x; n < 2048; n += kWarpgroup) store_shared(kOther + n * 4, 0u);
    __syncthreads();
    float c[8][4];
    fence_products();
    multiply(c, kOther);
    commit_products();
    wait_products<0>();
  });
}

TEST_F(HopperEmulation, FindsBarriersThatHoldForEver) {
  expect_error("no one completes", [] {
    make_barriers();
    wait_phase(kBarrier, 0);
  });
  expect_error("no one completes", [] {
    make_barriers();
    if (threadIdx.x < 64) sync_group(1);
  });
  // Bytes that do not come.
  expect_error("no one completes", [this] {
    make_barriers();
    if (threadIdx.x == 0) {
      arrive_expecting(kBarrier, 8192 + 16);
      copy_box(kTile, map_, 0, 0, 0, 0, kBarrier);
    }
    wait_phase(kBarrier, 0);
  });
}

TEST_F(HopperEmulation, FindsBarriersThatAreNone) {
  expect_error("is none", [] { arrive(kBarrier); });
  expect_error("not fenced", [this] {
    if (threadIdx.x != 0) return;
    make_barrier(kBarrier, 1);
    copy(kTile);
  });
  expect_error("is none|without __syncthreads between", [] {
    if (threadIdx.x == 32) make_barrier(kBarrier, 8);
    arrive(kBarrier);
  });
  expect_error("expects no more", [this] {
    make_barriers();
    copy(kTile);
    if (threadIdx.x == 0) {
      arrive(kBarrier);
    }
  });
  expect_error("overwrites a barrier", [] {
    make_barriers();
    store_shared(kBarrier, 0u);
  });
}

TEST_F(HopperEmulation, LetsCopiesByWordsArriveAtABarrier) {
  const auto* words = reinterpret_cast<const char*>(data_);
  const auto copy_words = [&](bool waits) {
    if (threadIdx.x == 0) {
      make_barrier(kBarrier, 32);
      fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      copy_word_async(threadIdx.x * 4, words + threadIdx.x * 4);
      arrive_with_copies(kBarrier);
    }
    if (waits) wait_phase(kBarrier, 0);
    load_shared<float>(threadIdx.x % 32 * 4);
  };
  EXPECT_EQ(error_of([&] { copy_words(true); }), "");
  expect_error("never written|not waited for", [&] { copy_words(false); });
}

TEST_F(HopperEmulation, RefusesTensorsThatTheDriverDoes) {
  EXPECT_THROW(tensor_map({data_, 8, 8, 4}, 8, 8, 1, 1), std::runtime_error);
  EXPECT_THROW(tensor_map({data_, 0, 8, 8}, 8, 8, 1, 1), std::runtime_error);
  EXPECT_THROW(tensor_map({data_, 8, 8, 8}, 8, 0, 1, 1), std::runtime_error);
  EXPECT_THROW(tensor_map({data_ + 1, 8, 8, 8}, 8, 8, 1, 1), std::runtime_error);
}

}  // namespace
}  // namespace phasescope::kernels::cuda
