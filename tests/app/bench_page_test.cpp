// The page and the figures that `bench kernels` writes.
#include "app/verbs/bench_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "app/figures/bench_figures.h"

namespace phasescope::app {
namespace {

protocol::AttentionBench bench_of(const std::string& processor, double ms) {
  protocol::AttentionBench bench;
  bench.processor = processor;
  bench.device = "cpu";
  bench.kernel = bench.build = "fused cpu avx3";
  bench.threads = 2;
  bench.runs = 5;
  bench.fma_peak_gflops = 400;
  protocol::AttentionBenchRow row;
  row.variant = "plain", row.pass = "forward", row.probes = "none", row.dtype = "f32";
  row.heads = 4, row.n = 512, row.d = 64;
  row.ms = ms, row.cpu_ms = 2 * ms, row.gflops = 100, row.over_plain = 1;
  row.rival = "SDPA", row.rival_ms = 3 * ms, row.rival_cpu_ms = 5 * ms;
  row.speedup_over_rival = 3;
  bench.rows.push_back(row);
  row.variant = "tape", row.rival = "", row.over_plain = 1.5, row.cpu_ms = 4 * ms;
  row.rival_ms = row.rival_cpu_ms = row.speedup_over_rival = row.rival_peak_mb = std::nan("");
  bench.rows.push_back(row);
  return bench;
}

TEST(BenchPage, KeepsTheSectionsOfOtherProcessors) {
  const std::string a = bench_section(bench_of("Chip A", 1), "bench kernels");
  const std::string b = bench_section(bench_of("Chip B", 10), "bench kernels");
  const std::string page = with_bench_section(with_bench_section("", a), b);
  EXPECT_EQ(page.rfind("# Benchmarks\n", 0), 0u);
  EXPECT_NE(page.find("\n" + a), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - b.size()), b);
  const std::string again = bench_section(bench_of("Chip A", 7), "bench kernels --runs 9");
  const std::string newer = with_bench_section(page, again);
  EXPECT_EQ(newer.find("\n" + a), std::string::npos);
  EXPECT_NE(newer.find("\n" + again), std::string::npos);
  EXPECT_EQ(newer.substr(newer.size() - b.size()), b);
  // The same run leaves the page as it is.
  EXPECT_EQ(with_bench_section(newer, again), newer);
  EXPECT_EQ(with_bench_section(newer, b), newer);
}

TEST(BenchPage, GivesTheStatisticsOfHeadsASectionOfTheirOwn) {
  const std::string kernels = bench_section(bench_of("Chip A", 1), "bench kernels");
  auto bench = bench_of("Chip A", 1);
  for (auto& row : bench.rows) row.variant = "heads";
  const std::string heads = bench_section(bench, "bench kernels --variants heads");
  const std::string page = with_bench_section(with_bench_section("", kernels), heads);
  EXPECT_NE(page.find("\n" + kernels), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - heads.size()), heads);
}

TEST(BenchPage, KeepsTheSectionsOfOtherNumbersOfHeads) {
  auto bench = bench_of("Chip A", 1);
  const std::string four = bench_section(bench, "bench kernels");
  for (auto& row : bench.rows) row.heads = 12;
  const std::string twelve = bench_section(bench, "bench kernels --heads 12");
  bench.rows[0].heads = 2;
  EXPECT_EQ(bench_section(bench, "").rfind("## Chip A, avx3, 2 threads, 2 and 12 heads\n", 0), 0u);
  const std::string page = with_bench_section(with_bench_section("", four), twelve);
  EXPECT_NE(page.find("\n" + four), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - twelve.size()), twelve);
}

TEST(BenchPage, GivesRatiosOfBothClocks) {
  const std::string section = bench_section(bench_of("Chip A", 1), "bench");
  EXPECT_EQ(section.rfind("## Chip A, avx3, 2 threads, 4 heads\n", 0), 0u);
  // 100 GFLOP/s in 1 ms of wall and 2 ms of processor time: 50 of a core's 200.
  EXPECT_NE(
      section.find("| plain | 4 | 512 | 64 | 1 | 2 | 100 | 25 % | 1.00, 1.00 | 0 | SDPA | 3 | "
                   "3.00, 2.50 | 0 |"),
      std::string::npos)
      << section;
  EXPECT_NE(section.find("| tape | 4 | 512 | 64 | 1 | 4 | 100 | 13 % | 1.50, 2.00 | 0 | - | - | "
                         "-, - | - |"),
            std::string::npos)
      << section;
  EXPECT_EQ(section.find("### Backward"), std::string::npos);
}

TEST(BenchPage, GivesAGpuAndOtherNumbersSectionsOfTheirOwn) {
  auto bench = bench_of("Chip A", 1);
  for (auto& row : bench.rows) row.dtype = "bf16";
  const std::string sixteen = bench_section(bench, "bench kernels --dtype bf16");
  EXPECT_EQ(sixteen.rfind("## Chip A, avx3, 2 threads, bf16, 4 heads\n", 0), 0u);
  EXPECT_NE(sixteen.find("causal, batch 1, bf16; medians"), std::string::npos);
  bench.device = "cuda", bench.kernel = "cuda-unverified", bench.threads = 0;
  for (auto& row : bench.rows) row.cpu_ms = row.rival_cpu_ms = std::nan("");
  const std::string gpu = bench_section(bench, "bench kernels --backend cuda-unverified");
  EXPECT_EQ(gpu.rfind("## Chip A, cuda-unverified, bf16, 4 heads\n", 0), 0u) << gpu;
  // 100 of 400 GFLOP/s.
  EXPECT_NE(gpu.find("| plain | 4 | 512 | 64 | 1 | - | 100 | 25 % | 1.00, - | 0 | SDPA | 3 | "
                     "3.00, - | 0 |"),
            std::string::npos)
      << gpu;
  bench.fma_peak_gflops = std::nan("");
  const std::string without = bench_section(bench, "");
  EXPECT_EQ(without.find("peak "), without.find("peak | over plain")) << without;
  EXPECT_TRUE(kernel_speed_figure(bench, "forward").markers.empty());
}

TEST(BenchFigures, DrawALineForEachCaseAndThePeak) {
  const auto bench = bench_of("Chip A", 1);
  const widgets::PlotSpec speed = kernel_speed_figure(bench, "forward");
  ASSERT_EQ(speed.series.size(), 2u);
  EXPECT_EQ(speed.series[0].x, std::vector<double>{512});
  EXPECT_EQ(speed.series[0].y, std::vector<double>{100});
  ASSERT_EQ(speed.markers.size(), 1u);
  EXPECT_EQ(speed.markers[0].at, 400);
  EXPECT_EQ(rival_figure(bench, "forward").series.size(), 1u);
  EXPECT_TRUE(kernel_speed_figure(bench, "backward").series.empty());
}

}  // namespace
}  // namespace phasescope::app
