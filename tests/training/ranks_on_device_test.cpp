// Gradients of ranks that compute on a device (phantom_device.h): they cross to the host, are added
// up in the order of the ranks, and go back.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "tests/model/phantom_device.h"
#include "tests/training/free_port.h"
#include "training/ranks/ranks.h"

namespace phasescope::training {
namespace {

// The gradients of a rank: three tensors of other shapes, whose sums no two orders round alike.
std::vector<at::Tensor> gradients_of(int rank) {
  std::vector<at::Tensor> all;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{5}, {3, 2}, {2}}) {
    at::Tensor one = at::arange(1, 1 + at::zeros(shape).numel(), at::kFloat);
    all.push_back((one * 0.1 + rank * 1e3 / 7).sin().reshape(shape));
  }
  return all;
}

TEST(RanksOnADevice, AddUpWhatLiesThere) {
#ifndef PHASESCOPE_GLOO
  GTEST_SKIP() << "built without Gloo (libgloo-dev)";
#endif
  constexpr int kRanks = 3;
  const at::Device device = model::phantom_device();
  const std::uint16_t port = free_port();
  std::vector<std::vector<at::Tensor>> found(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const Ranks ranks({.rank = rank, .size = kRanks, .master = "127.0.0.1", .port = port});
      for (const at::Tensor& one : gradients_of(rank)) {
        found[static_cast<std::size_t>(rank)].push_back(one.to(device));
      }
      ranks.add_up(found[static_cast<std::size_t>(rank)]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto a = gradients_of(0), b = gradients_of(1), c = gradients_of(2);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::size_t n = 0; n < a.size(); ++n) {
      const at::Tensor& one = found[static_cast<std::size_t>(rank)][n];
      EXPECT_EQ(one.device().type(), device.type());
      EXPECT_TRUE(one.cpu().equal((a[n] + b[n]) + c[n])) << rank << ", " << n;
    }
  }
}

}  // namespace
}  // namespace phasescope::training
