// The page and the figures that `bench kernels` writes.
#include "app/verbs/bench_page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "app/figures/bench_figures.h"
#include "app/verbs/bench_goals.h"
#include "app/verbs/bench_transfers.h"
#include "formats/error.h"

namespace phasescope::app {
namespace {

constexpr const char* kDay = "2026-11-22";

void set_ran(protocol::AttentionBenchRow& row, protocol::Ran ran) {
  row.kernel = ran.text();
  row.ran = std::move(ran);
}

void set_plain(protocol::AttentionBenchRow& row) {
  set_ran(row, {.implementation = "plain", .reason = "no form for D 7", .dtype = "f32"});
}

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
  set_ran(row, {.implementation = bench.kernel, .dtype = row.dtype});
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
  const std::string a = bench_section(bench_of("Chip A", 1), "bench kernels", kDay);
  const std::string b = bench_section(bench_of("Chip B", 10), "bench kernels", kDay);
  const std::string page = with_bench_section(with_bench_section("", a), b);
  EXPECT_EQ(page.rfind("# Benchmarks\n", 0), 0u);
  EXPECT_NE(page.find("\n" + a), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - b.size()), b);
  const std::string again = bench_section(bench_of("Chip A", 7), "bench kernels --runs 9", kDay);
  const std::string newer = with_bench_section(page, again);
  EXPECT_EQ(newer.find("\n" + a), std::string::npos);
  EXPECT_NE(newer.find("\n" + again), std::string::npos);
  EXPECT_EQ(newer.substr(newer.size() - b.size()), b);
  // The same run leaves the page as it is.
  EXPECT_EQ(with_bench_section(newer, again), newer);
  EXPECT_EQ(with_bench_section(newer, b), newer);
}

TEST(BenchPage, GivesTheStatisticsOfHeadsASectionOfTheirOwn) {
  const std::string kernels = bench_section(bench_of("Chip A", 1), "bench kernels", kDay);
  auto bench = bench_of("Chip A", 1);
  for (auto& row : bench.rows) row.variant = "heads";
  const std::string heads = bench_section(bench, "bench kernels --variants heads", kDay);
  const std::string page = with_bench_section(with_bench_section("", kernels), heads);
  EXPECT_NE(page.find("\n" + kernels), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - heads.size()), heads);
}

TEST(BenchPage, KeepsTheSectionsOfOtherNumbersOfHeads) {
  auto bench = bench_of("Chip A", 1);
  const std::string four = bench_section(bench, "bench kernels", kDay);
  for (auto& row : bench.rows) row.heads = 12;
  const std::string twelve = bench_section(bench, "bench kernels --heads 12", kDay);
  bench.rows[0].heads = 2;
  EXPECT_EQ(bench_section(bench, "", kDay).rfind("## Chip A, avx3, 2 threads, 2 and 12 heads\n", 0),
            0u);
  const std::string page = with_bench_section(with_bench_section("", four), twelve);
  EXPECT_NE(page.find("\n" + four), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - twelve.size()), twelve);
}

TEST(BenchPage, GivesRatiosOfBothClocks) {
  const std::string section = bench_section(bench_of("Chip A", 1), "bench", kDay);
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
  const std::string sixteen = bench_section(bench, "bench kernels --dtype bf16", kDay);
  EXPECT_EQ(sixteen.rfind("## Chip A, avx3, 2 threads, bf16, 4 heads\n", 0), 0u);
  EXPECT_NE(sixteen.find("causal, batch 1, bf16; medians"), std::string::npos);
  bench.device = "cuda", bench.kernel = "cuda-unverified", bench.threads = 0;
  for (auto& row : bench.rows) {
    set_ran(row, {.implementation = bench.kernel, .dtype = row.dtype});
    row.cpu_ms = row.rival_cpu_ms = std::nan("");
  }
  const std::string gpu = bench_section(bench, "bench kernels --backend cuda-unverified", kDay);
  EXPECT_EQ(gpu.rfind("## Chip A, cuda-unverified, bf16, 4 heads\n", 0), 0u) << gpu;
  // 100 of 400 GFLOP/s.
  EXPECT_NE(gpu.find("| plain | 4 | 512 | 64 | 1 | - | 100 | 25 % | 1.00, - | 0 | SDPA | 3 | "
                     "3.00, - | 0 |"),
            std::string::npos)
      << gpu;
  bench.fma_peak_gflops = std::nan("");
  const std::string without = bench_section(bench, "", kDay);
  EXPECT_EQ(without.find("peak "), without.find("peak | over plain")) << without;
  EXPECT_TRUE(bench_figures(bench, "")[0].markers.empty());
}

TEST(BenchPage, KeepsWhatIsWrittenByHandAtItsEndAndWritesItsIntroductionAnew) {
  const std::string a = bench_section(bench_of("Chip A", 1), "bench kernels", kDay);
  const std::string b = bench_section(bench_of("Chip B", 1), "bench kernels", kDay);
  const std::string start = with_bench_section("", a);
  const std::string why = "\n## Why some are slower than aimed at\n\n- Because.\n";
  const std::string old = "# Benchmarks\n\nAn older introduction.\n\n" + a + why;
  EXPECT_EQ(with_bench_section(old, a), start + why);
  EXPECT_EQ(with_bench_section(old, b), start + "\n" + b + why);
  EXPECT_EQ(with_bench_section(with_bench_section(old, b), b), start + "\n" + b + why);
}

TEST(BenchPage, TheProjectsOwnHasTheIntroductionOfTheProgram) {
  std::ifstream file(PHASESCOPE_SOURCE "/docs/benchmarks.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  ASSERT_TRUE(!page.empty() && is_bench_page(page));
  const std::string start = with_bench_section("", "## A section\n");
  EXPECT_EQ(page.substr(0, page.find("\n## ")), start.substr(0, start.find("\n## ")));
  EXPECT_NE(page.find("\n## Why some are slower than aimed at\n"), std::string::npos);
}

TEST(BenchPage, NoOtherFileIsOne) {
  EXPECT_TRUE(is_bench_page(""));
  EXPECT_TRUE(is_bench_page("# Benchmarks\n"));
  EXPECT_FALSE(is_bench_page("{\"rows\": []}"));
  EXPECT_FALSE(is_bench_page("# Benchmarks of another kind\n"));
  EXPECT_FALSE(is_bench_page("\n# Benchmarks\n"));
}

TEST(BenchPage, SaysTheDayTheSpreadAndWhatRanInstead) {
  auto bench = bench_of("Chip A", 2);
  bench.rows[0].ms_min = 1.5, bench.rows[0].ms_max = 3.25;
  set_plain(bench.rows[1]);
  bench.rows[1].ms_min = bench.rows[1].ms_max = 2;
  const std::string section = bench_section(bench, "bench", "2026-02-03");
  EXPECT_NE(
      section.find("medians of 5 interleaved runs, 2026-02-03; multiply-add peak 400 GFLOP/s. "
                   "`bench`\n"),
      std::string::npos)
      << section;
  EXPECT_NE(section.find("| plain | 4 | 512 | 64 | 2 [1.5, 3.25] | 4 |"), std::string::npos)
      << section;
  EXPECT_NE(section.find("| tape, ran as plain (no form for D 7) | 4 | 512 | 64 | 2 | 8 |"),
            std::string::npos)
      << section;
  bench.rows[1].ran.reset(), bench.rows[1].kernel = "left out: it has no halves";
  EXPECT_NE(bench_section(bench, "bench", kDay).find("| tape, left out: it has no halves | 4 |"),
            std::string::npos);
}

// ---- limits --------------------------------------------------------------------------------------

// One row of a variant beside plain, which takes 100 ms by both clocks.
protocol::AttentionBench variant_beside_plain(const std::string& variant, double wall, double cpu) {
  auto bench = bench_of("Chip A", 100);
  for (auto& row : bench.rows) {
    row.n = 4096, row.cpu_ms = 100, row.rival = "none";
    row.rival_ms = row.rival_cpu_ms = row.speedup_over_rival = std::nan("");
  }
  bench.rows[1].variant = variant;
  set_ran(bench.rows[1], {.implementation = bench.kernel, .dtype = "f32"});
  bench.rows[1].over_plain = wall / 100, bench.rows[1].cpu_ms = cpu;
  return bench;
}

// What the one limit that applies says; "-" where there is none.
std::string miss_of(const protocol::AttentionBench& bench) {
  const auto checks = goal_checks(bench);
  if (checks.empty()) return "-";
  EXPECT_EQ(checks.size(), 1u) << checks[1].what;
  return missed(checks[0]);
}

TEST(BenchGoals, TellTheLeastFromTheAimAndOneClockFromTheOther) {
  // A table may cost 1.03 and should cost 1.00.
  EXPECT_EQ(miss_of(variant_beside_plain("table", 99, 100)), "");
  EXPECT_EQ(miss_of(variant_beside_plain("table", 100.4, 100.4)), "");  // printed as 1.00
  EXPECT_EQ(miss_of(variant_beside_plain("table", 103, 101)), "aim");
  EXPECT_EQ(miss_of(variant_beside_plain("table", 103, 99)), "aim, by wall time alone");
  EXPECT_EQ(miss_of(variant_beside_plain("table", 104, 104)), "at least");
  EXPECT_EQ(miss_of(variant_beside_plain("table", 104, 103)), "at least, by wall time alone");
  EXPECT_EQ(miss_of(variant_beside_plain("table", 101, 104)), "at least, by processor time alone");
}

TEST(BenchGoals, ProbesAreLimitedWithAFewBuckets) {
  auto bench = variant_beside_plain("plain", 136, 136);
  for (auto& row : bench.rows) row.n = 512;
  bench.rows[1].probes = "all";
  EXPECT_EQ(miss_of(bench), "-");
  bench.rows[1].probes = "all, about 32 buckets";
  EXPECT_EQ(miss_of(bench), "at least");  // 1.35
}

TEST(BenchGoals, ApplyWhereTheyWereMade) {
  auto bench = variant_beside_plain("cape", 161, 161);
  EXPECT_EQ(miss_of(bench), "");  // 1.9 and 1.65 at D 64
  for (auto& row : bench.rows) row.d = 128;
  EXPECT_EQ(miss_of(bench), "at least");  // 1.6 and 1.4
  for (auto& row : bench.rows) row.heads = 32;
  EXPECT_EQ(miss_of(bench), "");  // 2.3 and 1.7
  for (auto& row : bench.rows) row.heads = 20;
  EXPECT_EQ(miss_of(bench), "-");
  for (auto& row : bench.rows) row.heads = 4, row.n = 1024;
  EXPECT_EQ(miss_of(bench), "-");
  for (auto& row : bench.rows) row.n = 2048, row.dtype = "bf16";
  EXPECT_EQ(miss_of(bench), "-");
}

TEST(BenchGoals, ShareOfThePeakDependsOnTheInstructions) {
  auto bench = bench_of("Chip A", 1);
  bench.rows.resize(1);
  // 292 of 400 GFLOP/s by wall time; by processor time, which all threads spent, the same.
  bench.rows[0].n = 8192, bench.rows[0].gflops = 292, bench.rows[0].rival = "another";
  EXPECT_EQ(miss_of(bench), "aim");  // 70 and 82 %
  set_ran(bench.rows[0], {.implementation = "fused cpu avx2", .dtype = "f32"});
  EXPECT_EQ(miss_of(bench), "at least");  // 75 and 83 %
  bench.rows[0].cpu_ms = 1.5;             // 97 % of what they were given
  EXPECT_EQ(miss_of(bench), "at least, by wall time alone");
  set_ran(bench.rows[0], {.implementation = "fused cpu sse4", .dtype = "f32"});
  EXPECT_EQ(miss_of(bench), "-");
}

TEST(BenchGoals, CompareWithTheRivalThatTheyName) {
  auto bench = bench_of("Chip A", 1);
  bench.rows.resize(1);
  bench.rows[0].rival = "PyTorch SDPA, math";
  EXPECT_EQ(miss_of(bench), "-");
  bench.rows[0].rival = "PyTorch SDPA, flash";
  EXPECT_EQ(miss_of(bench), "");  // 3 and 2.5 times; 1.7 and 2.2 at 512 tokens
  bench.rows[0].d = 96;
  EXPECT_EQ(miss_of(bench), "-");
  bench.rows[0].d = 128, bench.rows[0].rival_cpu_ms = 4.2;
  EXPECT_EQ(miss_of(bench), "aim, by processor time alone");
  // The same row beside another rival is not counted twice.
  bench.rows.push_back(bench.rows[0]);
  EXPECT_EQ(goal_checks(bench).size(), 1u);
  bench.rows[0].n = bench.rows[1].n = 2048;
  bench.rows[1].rival = "PyTorch SDPA, math";
  EXPECT_EQ(goal_checks(bench).size(), 2u);  // speed, and the share of the peak once
}

TEST(BenchGoals, OfAGpuHaveOneClock) {
  auto bench = bench_of("NVIDIA H200", 1);
  bench.device = "cuda";
  bench.rows.resize(1);
  bench.rows[0].n = 8192, bench.rows[0].d = 128, bench.rows[0].dtype = "bf16";
  bench.rows[0].cpu_ms = std::nan(""), bench.rows[0].gflops = 480'000;
  EXPECT_EQ(miss_of(bench), "at least");
  bench.rows[0].gflops = 500'000;
  EXPECT_EQ(miss_of(bench), "aim");
  bench.processor = "NVIDIA A100";
  EXPECT_EQ(miss_of(bench), "-");
  bench.processor = "NVIDIA H200";
  for (const auto& [pass, n, tflops] : {std::tuple{"forward", 8192, 645.0},
                                        {"forward", 32768, 690.0},
                                        {"backward", 8192, 545.0},
                                        {"backward", 32768, 585.0}}) {
    bench.rows[0].pass = pass, bench.rows[0].n = n;
    bench.rows[0].gflops = 1e3 * tflops;
    EXPECT_EQ(miss_of(bench), "") << pass << " " << n;
    bench.rows[0].gflops = 1e3 * (tflops - 1);
    EXPECT_EQ(miss_of(bench), "aim") << pass << " " << n;
  }
}

TEST(BenchGoals, ListWhatIsMissedUnderTheTables) {
  const std::string section = goals_section(variant_beside_plain("table", 104, 102));
  EXPECT_EQ(
      section,
      "\n### Slower than aimed at\n\nLimits that apply to these rows: 1. By both clocks 0 are "
      "reached at least, 0 of these with their aim. The others:\n\n"
      "| what | heads | N | D | by wall time | by processor time | at least | aim | misses |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|---|\n"
      "| table, forward, over plain | 4 | 4096 | 64 | 1.04 | 1.02 | 1.03 | 1.00 | at least, by "
      "wall time alone |\n");
  EXPECT_EQ(goals_section(variant_beside_plain("fire", 104, 102)), "");
  EXPECT_EQ(goals_section(variant_beside_plain("table", 100, 100)).find("The others"),
            std::string::npos);
  // What misses the least comes first.
  auto bench = variant_beside_plain("table", 101, 101);
  bench.rows.push_back(bench.rows[1]);
  bench.rows[2].d = 128, bench.rows[2].over_plain = 1.2;
  ASSERT_EQ(goal_checks(bench).size(), 2u);
  EXPECT_EQ(goal_checks(bench)[0].d, 128);
}

// ---- figures -------------------------------------------------------------------------------------

std::vector<std::string> ids_of(const std::vector<widgets::PlotSpec>& figures) {
  std::vector<std::string> ids;
  for (const auto& figure : figures) ids.push_back(figure.id);
  return ids;
}

TEST(BenchFigures, HaveAPanelForEachPassHeadDimensionAndNumberOfHeads) {
  auto bench = bench_of("Chip A", 1);
  const auto add = [&](auto change) {
    bench.rows.push_back(bench.rows[0]);
    change(bench.rows.back());
  };
  add([](auto& row) { row.d = 128; });
  add([](auto& row) { row.heads = 8; });
  add([](auto& row) { row.probes = "all", row.rival = "", row.speedup_over_rival = std::nan(""); });
  add([](auto& row) { row.pass = "backward"; });
  const auto figures = bench_figures(bench, "on Chip A");
  EXPECT_EQ(ids_of(figures), (std::vector<std::string>{
                                 "kernel_speed_forward_h4_d64", "kernel_rivals_forward_h4_d64",
                                 "kernel_probes_forward_h4_d64", "kernel_speed_forward_h4_d128",
                                 "kernel_rivals_forward_h4_d128", "kernel_speed_forward_h8_d64",
                                 "kernel_rivals_forward_h8_d64", "kernel_speed_backward_h4_d64",
                                 "kernel_rivals_backward_h4_d64"}));
  for (const auto& figure : figures) EXPECT_EQ(figure.notes.back(), "on Chip A.");
}

TEST(BenchFigures, DrawALineForEachVariantWithItsOwnShapeBelowThePeak) {
  auto bench = bench_of("Chip A", 1);
  bench.rows.push_back(bench.rows[0]);  // a shorter text, given later
  bench.rows[2].n = 100, bench.rows[2].gflops = 50;
  const widgets::PlotSpec speed = bench_figures(bench, "")[0];
  ASSERT_EQ(speed.series.size(), 2u);
  EXPECT_EQ(speed.series[0].label, "plain");
  EXPECT_EQ(speed.series[0].x, (std::vector<double>{100, 512}));
  EXPECT_EQ(speed.series[0].y, (std::vector<double>{50, 100}));
  EXPECT_NE(speed.series[0].points, widgets::PointShape::none);
  EXPECT_NE(speed.series[0].points, speed.series[1].points);
  EXPECT_NE(speed.series[0].color, speed.series[1].color);
  ASSERT_EQ(speed.x.ticks.size(), 2u);
  EXPECT_EQ(speed.x.ticks[1].at, 512);
  EXPECT_EQ(speed.x.ticks[1].label, "512");
  ASSERT_EQ(speed.markers.size(), 1u);
  EXPECT_EQ(speed.markers[0].at, 400);
  EXPECT_GT(*speed.y.high, 400);  // room for its label
}

// As many as there are colours: a figure of all variants has lines of eight shapes, not six.
TEST(BenchFigures, GiveEachOfEightVariantsAShapeOfItsOwn) {
  auto bench = bench_of("Chip A", 1);
  for (const char* variant : {"table", "fire", "cape", "tapa", "xpos", "clamp"}) {
    bench.rows.push_back(bench.rows[0]);
    bench.rows.back().variant = variant;
  }
  std::set<widgets::PointShape> shapes;
  const widgets::PlotSpec speed = bench_figures(bench, "")[0];
  for (const widgets::Series& series : speed.series) shapes.insert(series.points);
  EXPECT_EQ(speed.series.size(), 8u);
  EXPECT_EQ(shapes.size(), 8u);
}

TEST(BenchFigures, TellRivalsOfAVariantApartAndNameThem) {
  auto bench = bench_of("Chip A", 1);
  bench.rows[0].rival = "PyTorch SDPA, flash";
  bench.rows.insert(bench.rows.begin() + 1, bench.rows[0]);
  bench.rows[1].rival = "PyTorch SDPA, math", bench.rows[1].speedup_over_rival = 9;
  const widgets::PlotSpec rivals = bench_figures(bench, "")[1];
  ASSERT_EQ(rivals.series.size(), 2u);  // tape has none
  EXPECT_EQ(rivals.series[0].label, "plain (flash)");
  EXPECT_EQ(rivals.series[1].label, "plain (math)");
  EXPECT_EQ(rivals.series[1].y, std::vector<double>{9});
  EXPECT_EQ(rivals.series[0].color, rivals.series[1].color);
  EXPECT_TRUE(!rivals.series[0].dashed && rivals.series[1].dashed);
  EXPECT_EQ(rivals.y.scale, widgets::Scale::log10);
  EXPECT_EQ(rivals.notes[0],
            "plain against PyTorch SDPA, flash; plain against PyTorch SDPA, math.");
}

TEST(BenchFigures, SayWhereAVariantWasNotFused) {
  auto bench = bench_of("Chip A", 1);
  set_plain(bench.rows[1]);
  EXPECT_EQ(bench_figures(bench, "")[0].series[1].label, "tape, not fused");
}

// A file as tools/device/first_minutes.py writes it.
nlohmann::json carried_file() {
  protocol::AttentionBench bench = bench_of("NVIDIA H200", 1);
  bench.device = "cuda", bench.kernel = "cuda-unverified";
  return {{"date", kDay},
          {"emulated", false},
          {"times", {{"table", protocol::to_json_form(bench)}, {"passed", true}}}};
}

TEST(BenchPage, TakesWhatADeviceHasMeasured) {
  const CarriedBench carried = carried_bench(carried_file().dump(), "result.json");
  EXPECT_EQ(carried.date, kDay);
  EXPECT_EQ(carried.bench.processor, "NVIDIA H200");
  ASSERT_EQ(carried.bench.rows.size(), 2u);
  EXPECT_TRUE(std::isnan(carried.bench.rows[1].rival_ms));
  EXPECT_EQ(bench_section(carried.bench, "bench kernels --import result.json", carried.date)
                .rfind("## NVIDIA H200, cuda-unverified", 0),
            0u);
}

TEST(BenchPage, TakesNothingElseForADevicesTimes) {
  const auto said = [](const nlohmann::json& file) -> std::string {
    try {
      carried_bench(file.dump(), "result.json");
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_input");
      return error.what();
    }
    return "";
  };
  const auto changed = [](const auto& change) {
    nlohmann::json file = carried_file();
    change(file);
    return file;
  };
  EXPECT_NE(said(nlohmann::json::array()).find("is no result of a device"), std::string::npos);
  EXPECT_NE(said(changed([](auto& f) { f.erase("date"); })).find("is no result of a device"),
            std::string::npos);
  EXPECT_NE(said(changed([](auto& f) { f["emulated"] = true; })).find("the kernels' emulation"),
            std::string::npos);
  EXPECT_NE(said(changed([](auto& f) { f.erase("emulated"); })).find("the kernels' emulation"),
            std::string::npos);
  EXPECT_NE(said(changed([](auto& f) { f["times"]["table"] = nullptr; })).find("result.json"),
            std::string::npos);
  EXPECT_NE(said(changed([](auto& f) {
              f["times"]["table"]["rows"] = nlohmann::json::array();
            })).find("holds no times of a device"),
            std::string::npos);
}

// Small ones: what is measured has arrived, by itself and by the rival.
TEST(BenchTransfers, FramesAndFilesArriveAndStandBesideTheirRivals) {
  std::vector<protocol::BenchRow> rows = frame_rows(1 << 20, 2);
  for (protocol::BenchRow& row : file_rows(1 << 20, 2)) rows.push_back(std::move(row));
  ASSERT_EQ(rows.size(), 4u);
  for (const protocol::BenchRow& row : rows) {
    EXPECT_GT(row.min, 0) << row.name;
    EXPECT_TRUE(row.min <= row.value && row.value <= row.max) << row.name;
    EXPECT_EQ(row.over_rival, row.value / row.rival_value) << row.name;
    EXPECT_EQ(row.runs, 2) << row.name;
  }
}

// 1 MB in 1 ms is 1 GB/s; the first of each is not counted, and they take turns.
TEST(BenchTransfers, CountGigabytesASecondInTurns) {
  std::string turns;
  const auto row = transfer_row(
      "a", "b", 1'000'000, 3,
      [&] {
        turns += 'a';
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      [&] {
        turns += 'b';
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
      });
  EXPECT_EQ(turns, "abababab");
  EXPECT_LE(row.max, 1.0);  // a sleep is never shorter than it was asked for
  EXPECT_LE(row.rival_value, 0.25);
}

}  // namespace
}  // namespace phasescope::app
