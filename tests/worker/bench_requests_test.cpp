// bench.kernels: every variant, pass and rival has a row whose numbers hang together.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "formats/error.h"
#include "protocol/bench_results.h"
#include "tests/worker/fake_context.h"
#include "worker/bench/bench_timing.h"
#include "worker/bench/handle_bench.h"
#include "worker/bench/kernel_cases.h"

namespace phasescope::worker {
namespace {

protocol::AttentionBench bench(nlohmann::json params) {
  FakeContext context;
  return protocol::from_json_form<protocol::AttentionBench>(
      ask(bench_handlers(), "bench.kernels", std::move(params), context).result);
}

TEST(BenchKernels, HasARowForEveryVariantPassAndRival) {
  const auto result = bench({{"lengths", {33}}, {"dims", {8}}, {"heads", {2}}, {"runs", 2}});
  std::set<std::string> seen;
  std::map<std::string, double> plain;  // by pass
  bool spread = false;
  for (const protocol::AttentionBenchRow& row : result.rows) {
    seen.insert(row.variant + "/" + row.pass + "/" + row.probes + "/" + row.rival);
    EXPECT_EQ(row.n, 33);
    EXPECT_EQ(row.d, 8);
    EXPECT_EQ(row.heads, 2);
    EXPECT_GT(row.ms_min, 0) << row.variant;
    EXPECT_NEAR(row.ms, (row.ms_min + row.ms_max) / 2, 1e-9 * row.ms);  // of two runs
    EXPECT_LE(row.ms_min, row.ms_max) << row.variant;
    spread = spread || row.ms_min < row.ms_max;
    EXPECT_GT(row.cpu_ms, 0) << row.variant;
    EXPECT_GE(row.peak_mb, 0) << row.variant;  // less than it counts: see the next test
    EXPECT_EQ(row.kernel.rfind("fused cpu", 0), 0u) << row.kernel;
    EXPECT_EQ(row.ran->text(), row.kernel);
    const bool base = row.variant == "plain" && row.probes == "none";
    if (base) plain.emplace(row.pass, row.ms);
    EXPECT_NEAR(row.over_plain, row.ms / plain.at(row.pass), 1e-9);
    // 4 (10) multiply-adds and products of 33 * 34 / 2 pairs, 2 heads of 8 numbers.
    const double flops = (row.pass == "forward" ? 4.0 : 10.0) * 33 * 34 / 2 * 2 * 8;
    EXPECT_NEAR(row.gflops, flops / row.ms / 1e6, 1e-9 * row.gflops);
    if (row.rival.empty()) continue;
    EXPECT_GT(row.rival_cpu_ms, 0);
    EXPECT_NEAR(row.speedup_over_rival, row.rival_ms / row.ms, 1e-9 * row.speedup_over_rival);
  }
  const std::set<std::string> want{
      "plain/forward/none/PyTorch SDPA, flash",
      "plain/forward/none/PyTorch SDPA, math",
      "plain/forward/maximum, entropy/",
      "plain/forward/all/",
      "plain/forward/all, log-sum-exp known/",
      "plain/forward/all, about 32 buckets/",
      "plain/forward/8 top keys/",
      "table/forward/none/PyTorch SDPA, flash, with a dense bias made before",
      "tapa/forward/none/eager tensor operations",
      "tape/forward/none/three PyTorch SDPA calls, flash",
      "cape/forward/none/eager tensor operations",
      "fire/forward/none/PyTorch SDPA, flash, with a dense bias made before",
      "sinks/forward/none/PyTorch SDPA, flash, with a column of sinks made before",
      "gates/forward/none/PyTorch SDPA, flash, times the gate",
      "forgetting/forward/none/PyTorch SDPA, flash, with a dense bias made before",
      "query_table/forward/none/PyTorch SDPA, flash, with a dense bias made before",
      "relative_keys/forward/none/PyTorch SDPA, flash, with a dense bias made before",
      "clamp/forward/none/eager tensor operations",
      "plain/backward/none/PyTorch SDPA, flash",
      "plain/backward/none/PyTorch SDPA, math",
      "table/backward/none/PyTorch SDPA, flash, with a dense bias made before",
      "tapa/backward/none/eager tensor operations",
      "tape/backward/none/three PyTorch SDPA calls, flash",
      "cape/backward/none/eager tensor operations",
      "fire/backward/none/PyTorch SDPA, flash, with a dense bias made before",
      "sinks/backward/none/PyTorch SDPA, flash, with a column of sinks made before",
      "gates/backward/none/PyTorch SDPA, flash, times the gate",
      "forgetting/backward/none/PyTorch SDPA, flash, with a dense bias made before",
      "query_table/backward/none/PyTorch SDPA, flash, with a dense bias made before",
      "relative_keys/backward/none/PyTorch SDPA, flash, with a dense bias made before",
      "clamp/backward/none/eager tensor operations"};
  EXPECT_EQ(seen, want);
  EXPECT_TRUE(spread);
  EXPECT_GT(result.fma_peak_gflops, 0);
  EXPECT_FALSE(result.processor.empty());
}

// On a thread of its own, as in the worker: the C library keeps another heap for it.
void on_a_thread(const std::function<void()>& run) { std::thread(run).join(); }

TEST(BenchKernels, CountsTheMemoryOfResultsWhateverRanBefore) {
  on_a_thread([] {
    for (int n = 0; n < 2; ++n) {
      const auto result = bench({{"variants", {"plain"}},
                                 {"lengths", {2048}},
                                 {"dims", {64, 128}},
                                 {"heads", {2}},
                                 {"runs", 1}});
      ASSERT_EQ(result.rows.size(), 2u * (2 + 5 + 2));
      for (const protocol::AttentionBenchRow& row : result.rows) {
        // out, or dq, dk and dv. Each processor's count of pages may be 32 behind, the peak's too.
        const double late = 2 * 32 * 4096.0 * at::get_num_threads() / (1 << 20);
        const double array = 2048.0 * static_cast<double>(row.heads * row.d) * 4 / (1 << 20);
        const double least = (row.pass == "forward" ? 1 : 3) * array - late;
        EXPECT_GE(row.peak_mb, least) << row.pass << " " << row.d << " " << row.probes;
        // Far from a map of N x N, 32 MB, or of one beside what the backward pass sums in.
        EXPECT_LE(row.peak_mb, row.pass == "forward" ? 16 : 64) << row.d << " " << row.probes;
        if (row.rival.empty()) continue;
        const bool whole_maps = row.rival.find("math") != std::string::npos;
        EXPECT_GE(row.rival_peak_mb, whole_maps ? 32 : least) << row.pass << " " << row.rival;
      }
    }
  });
}

TEST(BenchKernels, RunsWhatIsAskedForAlone) {
  const auto result = bench({{"variants", {"tape", "heads"}},
                             {"passes", {"forward"}},
                             {"lengths", {40}},
                             {"dims", {8}},
                             {"heads", {2}},
                             {"runs", 1}});
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].variant, "tape");
  EXPECT_TRUE(std::isnan(result.rows[0].over_plain));
  EXPECT_EQ(result.rows[1].variant, "heads");
  EXPECT_GT(result.rows[1].rival_ms, 0);
}

TEST(BenchKernels, RefusesNamesAndSizesThatAreNone) {
  for (const char* text :
       {R"({"variants": ["tapir"]})", R"({"passes": ["sideways"]})", R"({"lengths": [0]})",
        R"({"lengths": []})", R"({"dims": []})", R"({"runs": 0})", R"({"backend": "plain"})",
        R"({"atomic_dq": true})", R"({"dtype": "f64"})",
        R"({"variants": ["heads"], "dtype": "bf16"})",
        R"({"variants": ["layer"], "passes": ["backward"], "lengths": [8], "dims": [8]})",
        R"({"variants": ["tape"], "lengths": [8], "dims": [1, 7]})"}) {
    const auto params = nlohmann::json::parse(text);
    EXPECT_EQ(code_of(bench_handlers(), "bench.kernels", params), "bad_usage") << text;
  }
}

TEST(BenchKernels, NamesAPassInTheSingular) {
  try {
    bench({{"passes", {"sideways"}}});
    FAIL();
  } catch (const formats::Error& error) {
    EXPECT_STREQ(error.what(), "there is no pass \"sideways\"; use forward, backward");
  }
}

TEST(BenchKernels, RefusesWhatDoesNotFitBeforeAnythingRuns) {
  // 1.3 TB an array, and more bytes than a 64-bit number has. The small size is not timed before.
  for (const char* text : {R"({"lengths": [8, 10000000], "heads": [512]})",
                           R"({"lengths": [8, 9000000000000000000]})"}) {
    FakeContext context;
    const auto params = nlohmann::json::parse(text);
    EXPECT_EQ(code_of(bench_handlers(), "bench.kernels", params, context), "out_of_memory") << text;
    EXPECT_TRUE(context.said.empty());
  }
}

TEST(BenchKernels, RefusesADeviceThatItDoesNotRunOn) {
  for (const char* method : {"bench.kernels", "bench.load"}) {
    EXPECT_EQ(code_of(bench_handlers(), method, {{"device", "cuda:7"}}), "device_unavailable");
  }
}

TEST(BenchKernels, TimesEachSizeOnceFromTheSmallest) {
  const auto result = bench({{"variants", {"table"}},
                             {"passes", {"forward"}},
                             {"lengths", {40, 8, 40}},
                             {"dims", {8, 8}},
                             {"heads", {2}},
                             {"runs", 1}});
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_EQ(result.rows[0].n, 8);
  EXPECT_EQ(result.rows[1].n, 40);
}

TEST(BenchKernels, LeavesOutCasesThatNeedTwoHalvesOfAHead) {
  const auto result = bench(
      {{"passes", {"backward"}}, {"lengths", {16}}, {"dims", {1, 8}}, {"heads", {2}}, {"runs", 1}});
  std::set<std::string> left_out;
  for (const protocol::AttentionBenchRow& row : result.rows) {
    if (row.kernel == "left out: a head of 1 number has no halves") {
      left_out.insert(row.variant);
      EXPECT_FALSE(row.ran);
      EXPECT_EQ(row.d, 1);
      EXPECT_EQ(row.rival, "");
      for (const double value : {row.ms, row.ms_min, row.ms_max, row.gflops, row.peak_mb}) {
        EXPECT_TRUE(std::isnan(value)) << row.variant;
      }
    } else {
      EXPECT_GT(row.ms, 0) << row.variant;
      EXPECT_GT(row.rival_ms, 0) << row.rival;
    }
  }
  EXPECT_EQ(left_out, (std::set<std::string>{"tapa", "tape"}));
}

TEST(BenchLoad, RefusesToRunNever) {
  for (const int runs : {0, -3}) {
    EXPECT_EQ(code_of(bench_handlers(), "bench.load", {{"runs", runs}}), "bad_usage");
  }
}

TEST(BenchKernels, TimesSixteenBitNumbers) {
  const auto result = bench({{"lengths", {33}},
                             {"dims", {8}},
                             {"heads", {2}},
                             {"runs", 1},
                             {"dtype", "bf16"},
                             {"passes", {"forward", "backward"}}});
  EXPECT_EQ(result.rows.size(), 31u);
  for (const protocol::AttentionBenchRow& row : result.rows) {
    EXPECT_EQ(row.dtype, "bf16");
    EXPECT_GT(row.ms, 0);
    if (row.rival.empty()) continue;
    EXPECT_GT(row.rival_ms, 0) << row.rival;
  }
}

TEST(BenchKernels, LeavesOutRivalsWhoseMapsDoNotFit) {
  // Three maps of 64 heads x 8192 x 8192 floats.
  const auto cases = kernel_cases({{64, 8192, 8}, {"table"}, {"forward"}});
  ASSERT_EQ(cases.size(), 1u);
  for (const KernelCase& one : cases) {
    ASSERT_EQ(one.rivals.size(), 1u);
    EXPECT_FALSE(one.rivals[0].run);
    EXPECT_NE(one.rivals[0].name.find("left out: 48 GB"), std::string::npos) << one.rivals[0].name;
  }
}

// 40 MB, of which another thread's heap keeps what lies at its end when they are freed: the second
// call holds as much.
void expect_memory_seen(std::size_t pieces) {
  for (int n = 0; n < 2; ++n) {
    const double held = peak_mb_of(timed_whole([pieces] {
      std::vector<at::Tensor> blocks;
      while (blocks.size() < pieces) {
        blocks.push_back(at::ones({(10 << 20) / static_cast<std::int64_t>(pieces)}));
      }
    }));
    EXPECT_GE(held, 38) << pieces << " pieces, call " << n;
    EXPECT_LE(held, 43) << pieces << " pieces, call " << n;
  }
}

TEST(BenchTiming, SeesMemoryThatTheAllocatorHadKept) {
  const auto some_and_few = [] {
    for (const std::size_t pieces : {320, 2, 20}) expect_memory_seen(pieces);
  };
  some_and_few();
  on_a_thread(some_and_few);
}

TEST(BenchTiming, SaysMedianLeastAndLargest) {
  EXPECT_EQ(spread_of({3, 1, 2}).median, 2);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(spread_of({3, 1, 2}).least, 1);
  EXPECT_EQ(spread_of({2, 3, 1}).largest, 3);
  EXPECT_TRUE(std::isnan(spread_of({}).median));
}

TEST(BenchTiming, NamesTheProcessorWithItsNumbersWhereTheNameHasNone) {
  const auto name = [](const std::string& text) {
    std::istringstream cpuinfo(text);
    return processor_name(cpuinfo);
  };
  const std::string numbers = "cpu family\t: 25\nmodel\t\t: 17\n";
  EXPECT_EQ(name("processor\t: 0\n" + numbers + "model name\t: AMD EPYC\n\nmodel\t\t: 18\n"),
            "AMD EPYC (family 25, model 17)");
  EXPECT_EQ(name(numbers + "model name\t: AMD EPYC 9B14\n"), "AMD EPYC 9B14");
  EXPECT_EQ(name("processor\t: 0\nmodel name\t: Cortex\n"), "Cortex");
  EXPECT_EQ(name("BogoMIPS\t: 50.00\n"), "unknown processor");
}

}  // namespace
}  // namespace phasescope::worker
