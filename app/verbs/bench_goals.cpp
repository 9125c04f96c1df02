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

enum class On { avx512, avx2, any_cpu, h200 };
enum class Measure { over_plain, over_rival, rival_memory, of_peak, tflops };
using enum On;
using enum Measure;

struct Rows {
  const char *variant, *pass = "forward", *probes = "none";
};
constexpr Rows kPlain{"plain"}, kBackward{"plain", "backward"};
constexpr Rows kExtremes{"plain", "forward", "maximum, entropy"};
constexpr Rows kProbes{"plain", "forward", "all, about 32 buckets"};
constexpr Rows kLayer{"layer", "forward", "all"}, kModel{"heads", "forward", "all"};
constexpr Rows kTable{"table"}, kFire{"fire"}, kTapa{"tapa"}, kTape{"tape"}, kCape{"cape"};

struct Range {
  std::int64_t low = 0, high = INT64_MAX;
  bool has(std::int64_t value) const { return value >= low && value <= high; }
};
constexpr Range kAny;
constexpr Range only(std::int64_t value) { return {value, value}; }

// Head dimensions; all where none is named.
struct Dims {
  std::int64_t one = 0, other = 0;
  bool has(std::int64_t value) const { return one == 0 || value == one || value == other; }
};

// What the name of the rival compared with begins with; "" where none is.
constexpr const char *kNone = "", *kFlash = "PyTorch SDPA, flash", *kEager = "eager";

struct Limit {
  On on;
  Rows rows;
  const char* rival;
  Range n;
  Dims d;
  Range heads;
  Measure measure;
  double at_least, aim;  // a share of the peak in per cent
};

constexpr Limit kLimits[] = {
    // Plain attention over PyTorch's, and its share of the peak.
    {avx512, kPlain, kFlash, {1, 512}, {64, 128}, kAny, over_rival, 1.7, 2.2},
    {avx512, kPlain, kFlash, only(2048), {64, 128}, kAny, over_rival, 1.3, 1.6},
    {avx512, kPlain, kFlash, only(8192), {64, 128}, kAny, over_rival, 1.2, 1.45},
    {avx512, kPlain, kNone, only(2048), {64, 128}, kAny, of_peak, 62, 75},
    {avx512, kPlain, kNone, only(8192), {64, 128}, kAny, of_peak, 70, 82},
    {avx2, kPlain, kNone, {2048, 8192}, {64, 128}, kAny, of_peak, 75, 83},
    {any_cpu, kBackward, kFlash, only(2048), {}, kAny, over_rival, 1.2, 1.5},
    {any_cpu, kBackward, kFlash, only(8192), {}, kAny, over_rival, 1.0, 1.3},
    // Variants over plain.
    {any_cpu, kTable, kNone, {2048, 8192}, {}, kAny, over_plain, 1.03, 1.00},
    {any_cpu, kTapa, kNone, {2048, 8192}, {64}, kAny, over_plain, 1.12, 1.07},
    {any_cpu, kTapa, kNone, {2048, 8192}, {128}, kAny, over_plain, 1.06, 1.04},
    {any_cpu, kTape, kNone, {2048, 8192}, {}, kAny, over_plain, 1.6, 1.48},
    {any_cpu, kCape, kNone, {2048, 8192}, {64}, {1, 12}, over_plain, 1.9, 1.65},
    {any_cpu, kCape, kNone, {2048, 8192}, {128}, {1, 12}, over_plain, 1.6, 1.4},
    {any_cpu, kCape, kNone, {2048, 8192}, {128}, only(32), over_plain, 2.3, 1.7},
    // Probes over none.
    {any_cpu, kExtremes, kNone, kAny, {}, kAny, over_plain, 1.02, 1.00},
    {any_cpu, kProbes, kNone, only(512), {}, kAny, over_plain, 1.35, 1.2},
    {any_cpu, kProbes, kNone, only(2048), {}, kAny, over_plain, 1.20, 1.10},
    {any_cpu, kProbes, kNone, only(8192), {}, kAny, over_plain, 1.12, 1.05},
    // Every statistic of a layer's heads, and of a model's, over eager attention and its maps.
    {any_cpu, kLayer, kEager, only(4096), {}, only(12), over_rival, 20, 55},
    {any_cpu, kLayer, kEager, only(4096), {}, only(12), rival_memory, 10, 10},
    {any_cpu, kModel, kEager, only(4096), {}, only(12), over_rival, 20, 20},
    {any_cpu, kModel, kEager, only(4096), {}, only(12), rival_memory, 10, 10},
    // NVIDIA H200, 16-bit numbers.
    {h200, kPlain, kNone, only(8192), {128}, kAny, tflops, 500, 645},
    {h200, kPlain, kNone, only(32768), {128}, kAny, tflops, 500, 690},
    {h200, kBackward, kNone, only(8192), {128}, kAny, tflops, 330, 545},
    {h200, kBackward, kNone, only(32768), {128}, kAny, tflops, 330, 585},
    {h200, kTable, kNone, kAny, {}, kAny, over_plain, 1.08, 1.03},
    {h200, kFire, kNone, kAny, {}, kAny, over_plain, 1.25, 1.10},
    {h200, kTapa, kNone, kAny, {}, kAny, over_plain, 1.35, 1.12},
    {h200, kTape, kNone, kAny, {}, kAny, over_plain, 1.50, 1.33},
    {h200, kCape, kNone, kAny, {}, kAny, over_plain, 3.0, 1.6},
    {h200, kProbes, kNone, kAny, {}, kAny, over_plain, 1.35, 1.15},
};

bool covers(On on, const AttentionBench& bench, const AttentionBenchRow& row) {
  if (on == h200) {
    return runs_on_gpu(bench) && bench.processor.find("H200") != std::string::npos;
  }
  if (runs_on_gpu(bench) || row.dtype != "f32") return false;
  const auto runs = [&](const char* target) {
    return row.ran && row.ran->implementation.ends_with(target);
  };
  return on == any_cpu || runs(on == avx512 ? " avx3" : " avx2");
}

bool covers(const Limit& limit, const AttentionBench& bench, const AttentionBenchRow& row) {
  return row.variant == limit.rows.variant && row.pass == limit.rows.pass &&
         row.probes == limit.rows.probes && row.rival.rfind(limit.rival, 0) == 0 &&
         limit.n.has(row.n) && limit.d.has(row.d) && limit.heads.has(row.heads) &&
         covers(limit.on, bench, row);
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
  check.more_is_better = limit.measure != over_plain;
  switch (limit.measure) {
    case over_plain:
      check.what += "over plain";
      check.wall = row.over_plain, check.cpu = cpu_over_plain(bench, row);
      break;
    case over_rival:
      check.what += "times the speed of " + row.rival;
      check.wall = row.speedup_over_rival, check.cpu = row.rival_cpu_ms / row.cpu_ms;
      break;
    case rival_memory:
      check.what += "memory of " + row.rival + " over ours";
      check.wall = row.rival_peak_mb / row.peak_mb;
      break;
    case of_peak:
      check.what += "of the multiply-add peak", check.unit = " %", check.digits = 0;
      check.wall = 100 * wall_share_of_peak(bench, row);
      check.cpu = 100 * cpu_share_of_peak(bench, row);
      break;
    case tflops:
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
