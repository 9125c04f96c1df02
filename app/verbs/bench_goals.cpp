#include "app/verbs/bench_goals.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <tuple>

namespace phasescope::app {

using protocol::AttentionBench;
using protocol::AttentionBenchRow;

// ---- ratios of a row -----------------------------------------------------------------------------

bool runs_on_gpu(const AttentionBench& bench) { return bench.device == "cuda"; }

double cpu_over_plain(const AttentionBench& bench, const AttentionBenchRow& row) {
  if (row.variant == "heads") return std::nan("");
  for (const AttentionBenchRow& plain : bench.rows) {
    if (plain.variant == "plain" && plain.probes == "none" && plain.pass == row.pass &&
        plain.n == row.n && plain.d == row.d && plain.heads == row.heads) {
      return row.cpu_ms / plain.cpu_ms;
    }
  }
  return std::nan("");
}

double wall_share_of_peak(const AttentionBench& bench, const AttentionBenchRow& row) {
  return row.gflops / bench.fma_peak_gflops;
}

double cpu_share_of_peak(const AttentionBench& bench, const AttentionBenchRow& row) {
  const double one = bench.fma_peak_gflops / static_cast<double>(bench.threads);
  return row.gflops * row.ms / row.cpu_ms / one;
}

// ---- limits --------------------------------------------------------------------------------------

namespace {

enum class On { avx512, avx2, cpu, h200 };
enum class Measure { over_plain, over_rival, rival_memory, of_peak, tflops };

struct Range {
  std::int64_t low = 0, high = INT64_MAX;
  bool has(std::int64_t value) const { return value >= low && value <= high; }
};
constexpr Range kAny;
constexpr Range only(std::int64_t value) { return {value, value}; }

constexpr const char* kFlash = "PyTorch SDPA, flash";

struct Limit {
  On on;
  const char *variant, *pass, *probes, *rival;  // rival: what its name begins with
  Range n, d, heads;
  Measure measure;
  double at_least, aim;
};

// Of what covers both head dimensions; a share of a peak is in per cent.
constexpr Limit kLimits[] = {
    // Processor: plain forward and backward over PyTorch's, and as a share of the peak.
    {On::avx512,
     "plain",
     "forward",
     "none",
     kFlash,
     {1, 512},
     {64, 128},
     kAny,
     Measure::over_rival,
     1.7,
     2.2},
    {On::avx512,
     "plain",
     "forward",
     "none",
     kFlash,
     only(2048),
     {64, 128},
     kAny,
     Measure::over_rival,
     1.3,
     1.6},
    {On::avx512,
     "plain",
     "forward",
     "none",
     kFlash,
     only(8192),
     {64, 128},
     kAny,
     Measure::over_rival,
     1.2,
     1.45},
    {On::avx512,
     "plain",
     "forward",
     "none",
     "",
     only(2048),
     {64, 128},
     kAny,
     Measure::of_peak,
     62,
     75},
    {On::avx512,
     "plain",
     "forward",
     "none",
     "",
     only(8192),
     {64, 128},
     kAny,
     Measure::of_peak,
     70,
     82},
    {On::avx2,
     "plain",
     "forward",
     "none",
     "",
     {2048, 8192},
     {64, 128},
     kAny,
     Measure::of_peak,
     75,
     83},
    {On::cpu, "plain", "backward", "none", kFlash, only(2048), kAny, kAny, Measure::over_rival, 1.2,
     1.5},
    {On::cpu, "plain", "backward", "none", kFlash, only(8192), kAny, kAny, Measure::over_rival, 1.0,
     1.3},
    // Variants over plain.
    {On::cpu,
     "table",
     "forward",
     "none",
     "",
     {2048, 8192},
     kAny,
     kAny,
     Measure::over_plain,
     1.03,
     1.00},
    {On::cpu,
     "tapa",
     "forward",
     "none",
     "",
     {2048, 8192},
     only(64),
     kAny,
     Measure::over_plain,
     1.12,
     1.07},
    {On::cpu,
     "tapa",
     "forward",
     "none",
     "",
     {2048, 8192},
     only(128),
     kAny,
     Measure::over_plain,
     1.06,
     1.04},
    {On::cpu,
     "tape",
     "forward",
     "none",
     "",
     {2048, 8192},
     kAny,
     kAny,
     Measure::over_plain,
     1.6,
     1.48},
    {On::cpu,
     "cape",
     "forward",
     "none",
     "",
     {2048, 8192},
     only(64),
     {1, 12},
     Measure::over_plain,
     1.9,
     1.65},
    {On::cpu,
     "cape",
     "forward",
     "none",
     "",
     {2048, 8192},
     only(128),
     {1, 12},
     Measure::over_plain,
     1.6,
     1.4},
    {On::cpu,
     "cape",
     "forward",
     "none",
     "",
     {2048, 8192},
     only(128),
     only(32),
     Measure::over_plain,
     2.3,
     1.7},
    // Probes over none.
    {On::cpu, "plain", "forward", "maximum, entropy", "", kAny, kAny, kAny, Measure::over_plain,
     1.02, 1.00},
    {On::cpu, "plain", "forward", "all", "", only(512), kAny, kAny, Measure::over_plain, 1.35, 1.2},
    {On::cpu, "plain", "forward", "all", "", only(2048), kAny, kAny, Measure::over_plain, 1.20,
     1.10},
    {On::cpu, "plain", "forward", "all", "", only(8192), kAny, kAny, Measure::over_plain, 1.12,
     1.05},
    // Every statistic of a layer's heads over eager attention and its maps.
    {On::cpu, "layer", "forward", "all", "eager", only(4096), kAny, only(12), Measure::over_rival,
     20, 55},
    {On::cpu, "layer", "forward", "all", "eager", only(4096), kAny, only(12), Measure::rival_memory,
     10, 10},
    // NVIDIA H200, 16-bit numbers.
    {On::h200,
     "plain",
     "forward",
     "none",
     "",
     {8192, 32768},
     only(128),
     kAny,
     Measure::tflops,
     500,
     640},
    {On::h200,
     "plain",
     "backward",
     "none",
     "",
     {8192, 32768},
     only(128),
     kAny,
     Measure::tflops,
     330,
     540},
    {On::h200, "table", "forward", "none", "", kAny, kAny, kAny, Measure::over_plain, 1.08, 1.03},
    {On::h200, "fire", "forward", "none", "", kAny, kAny, kAny, Measure::over_plain, 1.25, 1.10},
    {On::h200, "tapa", "forward", "none", "", kAny, kAny, kAny, Measure::over_plain, 1.35, 1.12},
    {On::h200, "tape", "forward", "none", "", kAny, kAny, kAny, Measure::over_plain, 1.50, 1.33},
    {On::h200, "cape", "forward", "none", "", kAny, kAny, kAny, Measure::over_plain, 3.0, 1.6},
    {On::h200, "plain", "forward", "all", "", kAny, kAny, kAny, Measure::over_plain, 1.35, 1.15},
};

bool covers(On on, const AttentionBench& bench, const AttentionBenchRow& row) {
  if (on == On::h200) {
    return runs_on_gpu(bench) && bench.processor.find("H200") != std::string::npos;
  }
  if (runs_on_gpu(bench) || row.dtype != "f32") return false;
  const auto runs = [&](const char* target) {
    return row.kernel.find(target) != std::string::npos;
  };
  return on == On::cpu || runs(on == On::avx512 ? " avx3" : " avx2");
}

bool covers(const Limit& limit, const AttentionBench& bench, const AttentionBenchRow& row) {
  return row.variant == limit.variant && row.pass == limit.pass && row.probes == limit.probes &&
         row.rival.rfind(limit.rival, 0) == 0 && limit.n.has(row.n) && limit.d.has(row.d) &&
         limit.heads.has(row.heads) && covers(limit.on, bench, row);
}

double rounded(double value, int digits) {
  const double unit = std::pow(10.0, digits);
  return std::round(value * unit) / unit;
}

GoalCheck check_of(const Limit& limit, const AttentionBench& bench, const AttentionBenchRow& row) {
  GoalCheck check{row.variant, row.heads, row.n, row.d};
  if (row.probes != "none") check.what += ", probes: " + row.probes;
  check.what += ", " + row.pass + ", ";
  check.at_least = limit.at_least, check.aim = limit.aim, check.cpu = std::nan("");
  check.more_is_better = limit.measure != Measure::over_plain;
  switch (limit.measure) {
    case Measure::over_plain:
      check.what += "over plain";
      check.wall = row.over_plain, check.cpu = cpu_over_plain(bench, row);
      break;
    case Measure::over_rival:
      check.what += "times the speed of " + row.rival;
      check.wall = row.speedup_over_rival, check.cpu = row.rival_cpu_ms / row.cpu_ms;
      break;
    case Measure::rival_memory:
      check.what += "memory of " + row.rival + " over ours";
      check.wall = row.rival_peak_mb / row.peak_mb;
      break;
    case Measure::of_peak:
      check.what += "of the multiply-add peak", check.unit = " %", check.digits = 0;
      check.wall = 100 * wall_share_of_peak(bench, row);
      check.cpu = 100 * cpu_share_of_peak(bench, row);
      break;
    case Measure::tflops:
      check.what += "speed", check.unit = " TFLOP/s", check.digits = 0;
      check.wall = row.gflops / 1e3;
      break;
  }
  check.wall = rounded(check.wall, check.digits), check.cpu = rounded(check.cpu, check.digits);
  return check;
}

// A clock that there is not misses nothing.
bool beyond(const GoalCheck& check, double value, double limit) {
  return check.more_is_better ? value < limit : value > limit;
}

std::string cell(const GoalCheck& check, double value) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", check.digits, value);
  return text + check.unit;
}

std::string line_of(const GoalCheck& check) {
  std::string line;
  for (const std::string& text :
       {check.what, std::to_string(check.heads), std::to_string(check.n), std::to_string(check.d),
        cell(check, check.wall), cell(check, check.cpu), cell(check, check.at_least),
        cell(check, check.aim), missed(check)}) {
    line += "| " + text + " ";
  }
  return line + "|\n";
}

}  // namespace

std::vector<GoalCheck> goal_checks(const AttentionBench& bench) {
  std::vector<GoalCheck> checks;
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const AttentionBenchRow& row : bench.rows) {
    for (const Limit& limit : kLimits) {
      if (!covers(limit, bench, row)) continue;
      GoalCheck check = check_of(limit, bench, row);
      if (std::isnan(check.wall) && std::isnan(check.cpu)) continue;
      // A row with several rivals comes several times.
      if (seen.emplace(check.what, row.heads, row.n, row.d).second) {
        checks.push_back(std::move(check));
      }
    }
  }
  std::stable_partition(checks.begin(), checks.end(), [](const GoalCheck& check) {
    return missed(check).rfind("at least", 0) == 0;
  });
  return checks;
}

std::string missed(const GoalCheck& check) {
  for (const bool least : {true, false}) {
    const double limit = least ? check.at_least : check.aim;
    const bool wall = beyond(check, check.wall, limit), cpu = beyond(check, check.cpu, limit);
    if (!wall && !cpu) continue;
    const bool both = (wall && cpu) || std::isnan(check.wall) || std::isnan(check.cpu);
    const char* clock = both ? "" : wall ? ", by wall time alone" : ", by processor time alone";
    return std::string(least ? "at least" : "aim") + clock;
  }
  return "";
}

std::string goals_section(const AttentionBench& bench) {
  const std::vector<GoalCheck> checks = goal_checks(bench);
  if (checks.empty()) return "";
  std::string lines;
  std::size_t aims = 0, least = 0;
  for (const GoalCheck& check : checks) {
    const std::string miss = missed(check);
    if (miss.empty()) ++aims;
    if (miss.rfind("at least", 0) != 0) ++least;
    if (!miss.empty()) lines += line_of(check);
  }
  std::string text = "\n### Slower than aimed at\n\nLimits that apply to these rows: " +
                     std::to_string(checks.size()) + ". By both clocks " + std::to_string(least) +
                     " are reached at least, " + std::to_string(aims) + " of these with their aim.";
  if (lines.empty()) return text + "\n";
  return text +
         " The others:\n\n"
         "| what | heads | N | D | by wall time | by processor time | at least | aim | misses |\n"
         "|---|--:|--:|--:|--:|--:|--:|--:|---|\n" +
         lines;
}

}  // namespace phasescope::app
