// Gradients of ranks that compute on a device: they are added up in the order of the ranks, by way
// of the host or by NCCL from device to device. Devices are simulated (phantom_device.h, or the
// host's memory), and NCCL is the stand-in of stand_in_nccl.cpp.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "formats/file_system.h"
#include "tests/model/phantom_device.h"
#include "tests/temporary_folder.h"
#include "tests/training/free_port.h"
#include "tests/training/small_run.h"
#include "tests/training/started_processes.h"
#include "training/ranks/ranks.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

// The gradients of a rank: three tensors of other shapes, whose sums no two orders round alike.
std::vector<at::Tensor> gradients_of(int rank) {
  std::vector<at::Tensor> all;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{5}, {3, 2}, {2}}) {
    at::Tensor one = at::arange(1, 1 + at::zeros(shape).numel(), at::kFloat);
    all.push_back((one * 0.1 + rank * 1e3 / 7).sin().reshape(shape));
  }
  return all;
}

// What three ranks on one device come to, whichever way their gradients go.
void expect_sums(const std::function<void(Ranks&, const at::Device&)>& meet) {
  constexpr int kRanks = 3;
  const at::Device device = model::phantom_device();
  const std::uint16_t port = free_port();
  std::vector<std::vector<at::Tensor>> found(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks ranks({.rank = rank, .size = kRanks, .master = "127.0.0.1", .port = port});
      meet(ranks, device);
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

TEST(RanksOnADevice, AddUpWhatLiesThere) {
#ifndef PHASESCOPE_GLOO
  GTEST_SKIP() << "built without Gloo (libgloo-dev)";
#endif
  expect_sums([](Ranks&, const at::Device&) {});
}

using Variables = std::map<std::string, std::string>;

class RanksByNccl : public testing::Test {
 protected:
  void SetUp() override {
#ifndef PHASESCOPE_GLOO
    GTEST_SKIP() << "built without Gloo (libgloo-dev)";
#endif
    // A library that is loaded is found by its name, as that of libtorch_cuda is.
    ASSERT_NE(::dlopen(PHASESCOPE_STAND_IN_NCCL, RTLD_NOW), nullptr) << ::dlerror();
    ::setenv("STAND_IN_NCCL_FOLDER", folder_.path().c_str(), 1);
    small_run(folder_.path(), 1);  // writes its text
  }

  // Two processes that train; `second` is set for rank 1 alone.
  std::vector<pid_t> start(std::int64_t steps, Variables both, const Variables& second) {
    both.insert({"PHASESCOPE_RANK_TIMEOUT", "120"});
    both.insert({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}});
    both.insert({"MASTER_PORT", std::to_string(free_port())});
    std::vector<pid_t> ids;
    for (int rank = 0; rank < 2; ++rank) {
      ids.push_back(::fork());
      if (ids.back() != 0) {
        processes_.add(ids.back());
        continue;
      }
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      for (const auto& [name, value] : both) ::setenv(name.c_str(), value.c_str(), 1);
      if (rank == 1) {
        for (const auto& [name, value] : second) ::setenv(name.c_str(), value.c_str(), 1);
      }
      const fs::path said = folder_ / ("said-" + std::to_string(rank));
      if (!std::freopen(said.c_str(), "w", stderr)) ::_exit(126);
      ::execl(PHASESCOPE_NCCL_RANK, PHASESCOPE_NCCL_RANK, folder_.path().c_str(),
              std::to_string(steps).c_str(), nullptr);
      ::_exit(127);
    }
    return ids;
  }

  int end_of(pid_t id, double seconds = 60) { return processes_.end_of(id, seconds); }

  std::string said_by(int rank) const {
    return text_of(folder_ / ("said-" + std::to_string(rank)));
  }

  // What the stand-in has left in the communicator's folder.
  bool tells(const std::string& name) const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().starts_with("nccl.") &&
          fs::exists(entry.path() / name)) {
        return true;
      }
    }
    return false;
  }

  TemporaryFolder folder_;
  StartedProcesses processes_;
};

TEST_F(RanksByNccl, AddUpInTheOrderOfTheRanks) {
  expect_sums([](Ranks& ranks, const at::Device& device) {
    EXPECT_EQ(ranks.meet_on(device), "NCCL 2.17.0");
  });
}

// Nothing crosses to the host: that is what it is for.
TEST_F(RanksByNccl, LeaveGradientsOnTheDevice) {
  const at::Device device = model::phantom_device();
  const std::uint16_t port = free_port();
  std::vector<std::thread> threads;
  model::reset_phantom_counts();
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks ranks({.rank = rank, .size = 2, .master = "127.0.0.1", .port = port});
      ranks.meet_on(device);
      const std::vector<at::Tensor> ones{
          at::ones({7}, at::TensorOptions(device).dtype(at::kFloat))};
      ranks.add_up(ones);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(model::phantom_counts().to_host, 0);
  EXPECT_EQ(model::phantom_counts().reads, 0);
}

// The same batch, whose parts one process reads one after the other: bit for bit, since the sums
// are taken in the same order.
TEST_F(RanksByNccl, MakeTheLossesAndWeightsOfOneProcess) {
  constexpr std::int64_t kSteps = 12;
  const auto ids = start(kSteps, {}, {});
  ASSERT_EQ(end_of(ids[0]), 0) << said_by(0);
  ASSERT_EQ(end_of(ids[1]), 0) << said_by(1);
  RunConfig config = small_run(folder_.path(), kSteps);
  config.train.accumulate = 2;
  auto corpus = std::make_shared<const Corpus>(
      Corpus::open(config.data.corpus, config.data, config.model.context));
  Trainer alone(config, corpus,
                read_validation_texts(config.data.validation, config.model.context));
  std::ifstream first(folder_ / "losses-0"), second(folder_ / "losses-1");
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const double loss = alone.step().loss;
    std::string told, also;
    ASSERT_TRUE(first >> told && second >> also) << step;
    EXPECT_EQ(nlohmann::json::parse(told).get<double>(), loss) << step;
    EXPECT_EQ(told, also) << step;
  }
  fs::create_directory(folder_ / "weights-alone");
  alone.write_files(formats::real_file_system(), folder_ / "weights-alone");
  const auto weights = [&](const char* of) {
    return text_of(folder_ / (std::string("weights-") + of) / "model.safetensors");
  };
  EXPECT_TRUE(weights("0") == weights("alone"));
  EXPECT_TRUE(weights("1") == weights("alone"));
}

// Of its two exchanges a step the second's middle: the other one waits in it, and NCCL would go on
// waiting. Nothing waits for the 120 seconds of the ranks' patience.
TEST_F(RanksByNccl, OneThatIsKilledInAnExchangeEndsTheOther) {
  const auto ids = start(50, {}, {{"STAND_IN_NCCL_STOPS_AT", "6"}});
  ASSERT_TRUE(within(60, [&] { return tells("stopped"); })) << said_by(0) << said_by(1);
  ::kill(ids[1], SIGKILL);
  end_of(ids[1]);
  EXPECT_EQ(end_of(ids[0], 30), 4) << said_by(0);
  EXPECT_NE(said_by(0).find("rank 0 of 2 has lost another one"), std::string::npos) << said_by(0);
  EXPECT_TRUE(tells("aborted-0"));
  EXPECT_EQ(text_of(folder_ / "losses-0"), text_of(folder_ / "losses-1"));
}

TEST_F(RanksByNccl, OneThatWaitsForTooLongIsGivenUp) {
  const auto ids =
      start(50, {{"PHASESCOPE_RANK_TIMEOUT", "10"}}, {{"STAND_IN_NCCL_STOPS_AT", "6"}});
  EXPECT_EQ(end_of(ids[0], 60), 4) << said_by(0);
  EXPECT_EQ(end_of(ids[1], 60), 4) << said_by(1);
  EXPECT_NE((said_by(0) + said_by(1)).find("cannot go on by NCCL: it takes longer than ranks wait"),
            std::string::npos)
      << said_by(0) << said_by(1);
  EXPECT_TRUE(tells("aborted-0"));
  EXPECT_TRUE(tells("aborted-1"));
}

// What fails at one rank is named by all.
TEST_F(RanksByNccl, WhatFailsAtOneRankEndsAll) {
  const auto ids = start(50, {}, {{"STAND_IN_NCCL_FAILS_AT", "3"}});
  EXPECT_EQ(end_of(ids[0]), 4) << said_by(0);
  EXPECT_EQ(end_of(ids[1]), 4) << said_by(1);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE(said_by(rank).find("rank 1 cannot go on by NCCL: unhandled cuda error"),
              std::string::npos)
        << said_by(rank);
  }
  EXPECT_NE(said_by(1).find("Cuda failure 'planted'"), std::string::npos) << said_by(1);
}

TEST_F(RanksByNccl, TwoOnOneGpuAreRefused) {
  const auto ids = start(5, {{"STAND_IN_NCCL_GPU", "GPU 1b000"}}, {});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(end_of(ids[static_cast<std::size_t>(rank)]), 3) << said_by(rank);
    EXPECT_NE(said_by(rank).find("each rank needs a GPU of its own, that of its LOCAL_RANK"),
              std::string::npos)
        << said_by(rank);
  }
  // In NCCL's words too, at those that have them when they hear of another's failure.
  EXPECT_NE((said_by(0) + said_by(1)).find("Duplicate GPU detected"), std::string::npos);
  EXPECT_FALSE(tells("1-0-1"));  // nothing was exchanged
}

}  // namespace
}  // namespace phasescope::training
