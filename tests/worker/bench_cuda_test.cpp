// bench.kernels on the CUDA kernels, whose sources run here in their emulation: which rows there
// are, and what is said of rivals that need a GPU.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "model/attention/cuda_attention.h"
#include "protocol/bench_results.h"
#include "tests/worker/fake_context.h"
#include "worker/bench/handle_bench.h"
#include "worker/bench/kernel_rivals.h"

namespace phasescope::worker {
namespace {

class BenchCuda : public testing::Test {
 protected:
  BenchCuda() {
    at::set_num_threads(1);
    model::use_cuda_kernels(&kernels::cuda_kernels());
  }
  ~BenchCuda() override { model::use_cuda_kernels(nullptr); }
};

TEST_F(BenchCuda, HasRowsForEveryVariantWithTheDeviceNamed) {
  FakeContext context;
  const nlohmann::json params{{"backend", "cuda-unverified"},
                              {"lengths", {17}},
                              {"dims", {8}},
                              {"heads", {2}},
                              {"runs", 1}};
  const auto result = protocol::from_json_form<protocol::AttentionBench>(
      ask(bench_handlers(), "bench.kernels", params, context).result);
  EXPECT_EQ(result.device, "cuda");
  EXPECT_EQ(result.processor, model::cuda_device_name());
  EXPECT_FALSE(result.processor.empty());
  EXPECT_EQ(result.kernel, "cuda-unverified");
  // Four forms of SDPA for plain, one rival for each other variant, and three rows of probes.
  EXPECT_EQ(result.rows.size(), 2u * (4 + 11) + 3);
  for (const protocol::AttentionBenchRow& row : result.rows) {
    EXPECT_EQ(row.kernel, "cuda-unverified");
    EXPECT_EQ(row.dtype, "bf16");
    EXPECT_GT(row.ms, 0) << row.variant;
    EXPECT_TRUE(std::isnan(row.cpu_ms));
    // The output at least.
    EXPECT_GE(row.peak_mb * (1 << 20), 2 * 17 * 8 * 2) << row.variant;
    if (rivals_have_gpu() || row.rival.empty()) continue;
    EXPECT_NE(row.rival.find(" (left out: this LibTorch has no GPU)"), std::string::npos)
        << row.rival;
    EXPECT_TRUE(std::isnan(row.rival_ms));
  }
}

// What adds up gradients in any order is named, row by row.
TEST_F(BenchCuda, NamesBackwardPassesThatAddAtomically) {
  FakeContext context;
  const nlohmann::json params{{"backend", "cuda-unverified"},
                              {"atomic_dq", true},
                              {"variants", {"plain", "fire"}},
                              {"lengths", {17}},
                              {"dims", {8}},
                              {"heads", {1}},
                              {"runs", 1}};
  const auto result = protocol::from_json_form<protocol::AttentionBench>(
      ask(bench_handlers(), "bench.kernels", params, context).result);
  std::set<std::string> ran;
  for (const protocol::AttentionBenchRow& row : result.rows) {
    ASSERT_TRUE(row.ran.has_value());
    EXPECT_EQ(row.kernel, row.ran->text());
    ran.insert(row.variant + " " + row.pass + " " + row.kernel);
  }
  EXPECT_EQ(ran,
            (std::set<std::string>{
                "plain forward cuda-unverified", "plain backward cuda-unverified with atomic dq",
                "fire forward cuda-unverified", "fire backward cuda-unverified"}));
}

TEST_F(BenchCuda, RefusesWhatItCannotTime) {
  for (const char* text :
       {R"({"dtype": "f32"})", R"({"variants": ["layer"]})", R"({"dims": [9]})"}) {
    auto params = nlohmann::json::parse(text);
    params.update({{"backend", "cuda-unverified"}, {"lengths", {16}}, {"heads", {1}}});
    EXPECT_EQ(code_of(bench_handlers(), "bench.kernels", params), "bad_usage") << text;
  }
}

TEST_F(BenchCuda, LeavesOutSizesThatTheKernelsDoNotTake) {
  FakeContext context;
  const nlohmann::json params{{"backend", "cuda-unverified"},
                              {"variants", {"plain", "tape"}},
                              {"passes", {"forward"}},
                              {"lengths", {9}},
                              {"dims", {8, 9}},
                              {"heads", {1}},
                              {"runs", 1}};
  const auto result = protocol::from_json_form<protocol::AttentionBench>(
      ask(bench_handlers(), "bench.kernels", params, context).result);
  std::multiset<std::string> left_out;
  for (const protocol::AttentionBenchRow& row : result.rows) {
    if (row.d == 8) {
      EXPECT_GT(row.ms, 0) << row.variant;
    } else {
      EXPECT_TRUE(std::isnan(row.ms)) << row.variant;
      left_out.insert(row.variant + " " + row.kernel);
    }
  }
  // Without probes and with three sets of them.
  const std::string plain = "plain left out: heads of 9 channels have no form in the CUDA kernels";
  EXPECT_EQ(left_out,
            (std::multiset<std::string>{plain, plain, plain, plain,
                                        "tape left out: a head of 9 numbers has no halves"}));
}

}  // namespace
}  // namespace phasescope::worker
