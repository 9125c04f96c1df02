#include "app/verbs/bench_page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <set>

#include "widgets/plot_spec.h"

namespace phasescope::app {

using protocol::AttentionBench;
using protocol::AttentionBenchRow;

namespace {

// Above the first section.
constexpr const char* kIntroduction =
    R"(# Benchmarks

Written by `phasescope bench kernels --write docs/benchmarks.md`: a run replaces the section of the
processor, instruction set, thread count and number of heads it ran on and keeps the others; a GPU
and a dtype other than float32 have sections of their own, and so has `--variants layer,heads` alone.

Every case runs once, then all of them again, in one process on random data: what drifts on a
shared machine drifts for all. Numbers are medians. *ms* is wall time and *CPU ms* the processor time
of all threads, which on a busy machine is nearer the truth; *over plain* and *times the rival's
speed* are given for both, wall time first. GFLOP/s counts the products of plain causal attention
(two forward, five backward) for every variant, and *of peak* compares with the multiply-add peak
measured in the same run, by processor time. MB is what a call holds at its peak above what was there
before, its results among it. *Probes: all* are entropy, largest score and its key, largest weight,
weight on key 0 and within three windows, mean distance, and by distance the number of pairs and the
sums of weights, scores and squared scores. On a GPU a time is that of 20 calls one after the other,
without what crosses to it, there is no processor time, and the peak is that of a large matrix product.
)";

std::string number(double value) { return std::isnan(value) ? "-" : widgets::short_number(value); }

std::string ratio(double value) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

// Of plain without probes at the same size and pass.
double plain_cpu_ms(const AttentionBench& bench, const AttentionBenchRow& like) {
  for (const AttentionBenchRow& row : bench.rows) {
    if (row.variant == "plain" && row.probes == "none" && row.pass == like.pass &&
        row.n == like.n && row.d == like.d && row.heads == like.heads) {
      return row.cpu_ms;
    }
  }
  return std::nan("");
}

bool runs_on_gpu(const AttentionBench& bench) { return bench.device == "cuda"; }

// Share of the peak; of what the threads' processor time allows.
std::string of_peak(const AttentionBench& bench, const AttentionBenchRow& row) {
  const double one = bench.fma_peak_gflops / static_cast<double>(bench.threads);
  const double share = runs_on_gpu(bench) ? row.gflops / bench.fma_peak_gflops
                                          : row.gflops * row.ms / row.cpu_ms / one;
  return std::isnan(share) ? "-" : std::to_string(std::lround(100 * share)) + " %";
}

std::string line_of(const AttentionBench& bench, const AttentionBenchRow& row) {
  const double plain = row.variant == "heads" ? std::nan("") : plain_cpu_ms(bench, row);
  const std::string name =
      row.probes == "none" ? row.variant : row.variant + ", probes: " + row.probes;
  std::string line;
  for (const std::string& cell :
       {name, std::to_string(row.heads), std::to_string(row.n), std::to_string(row.d),
        number(row.ms), number(row.cpu_ms), number(row.gflops), of_peak(bench, row),
        ratio(row.over_plain) + ", " + ratio(row.cpu_ms / plain), number(row.peak_mb),
        row.rival.empty() ? "-" : row.rival, number(row.rival_ms),
        ratio(row.speedup_over_rival) + ", " + ratio(row.rival_cpu_ms / row.cpu_ms),
        number(row.rival_peak_mb)}) {
    line += "| " + cell + " ";
  }
  return line + "|\n";
}

std::string table_of_pass(const AttentionBench& bench, const std::string& pass) {
  std::string lines;
  for (const AttentionBenchRow& row : bench.rows) {
    if (row.pass == pass) lines += line_of(bench, row);
  }
  if (lines.empty()) return "";
  return "\n### " + std::string(pass == "forward" ? "Forward" : "Backward") +
         "\n\n| variant | heads | N | D | ms | CPU ms | GFLOP/s | of peak | over plain | MB | "
         "rival "
         "| rival ms | times the rival's speed | rival MB |\n" +
         "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|\n" + lines;
}

std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// "2 heads", "2 and 12 heads"
std::string heads_of(const AttentionBench& bench) {
  std::set<std::int64_t> counts;
  for (const AttentionBenchRow& row : bench.rows) counts.insert(row.heads);
  std::string text;
  for (const std::int64_t count : counts) {
    if (text.empty()) {
      text = counts.size() == 1 ? counted(count, "head") : std::to_string(count);
    } else {
      text += " and " + std::to_string(count) + (count == *counts.rbegin() ? " heads" : "");
    }
  }
  return text;
}

std::string dtype_of(const AttentionBench& bench) {
  return bench.rows.empty() ? "f32" : bench.rows[0].dtype;
}

// "avx3" of "fused cpu avx3"
std::string last_word(const std::string& text) { return text.substr(text.rfind(' ') + 1); }

std::string heading_of(const std::string& section) { return section.substr(0, section.find('\n')); }

}  // namespace

std::string bench_device(const AttentionBench& bench) {
  const std::string dtype = dtype_of(bench) == "f32" ? "" : ", " + dtype_of(bench);
  const std::string threads = runs_on_gpu(bench) ? "" : ", " + counted(bench.threads, "thread");
  return bench.processor + ", " + last_word(bench.kernel) + threads + dtype;
}

std::string bench_peak(const AttentionBench& bench) {
  if (std::isnan(bench.fma_peak_gflops)) return "";
  return "; multiply-add peak " + number(bench.fma_peak_gflops) + " GFLOP/s";
}

std::string bench_section(const AttentionBench& bench, const std::string& command) {
  const bool statistics_alone =
      std::all_of(bench.rows.begin(), bench.rows.end(), [](const AttentionBenchRow& row) {
        return row.variant == "layer" || row.variant == "heads";
      });
  std::string text =
      "## " + bench_device(bench) + ", " + heads_of(bench) +
      (statistics_alone ? ": every statistic of every head, of one layer's attention "
                          "and of a 12-layer model with all its products"
                        : "") +
      "\n\n";
  text += bench.build + "; causal, batch 1, " + dtype_of(bench) + "; medians of " +
          std::to_string(bench.runs) + " interleaved runs" + bench_peak(bench) + ". `" + command +
          "`\n";
  return text + table_of_pass(bench, "forward") + table_of_pass(bench, "backward");
}

std::string with_bench_section(std::string page, const std::string& section) {
  if (page.empty()) page = kIntroduction;
  if (page.back() != '\n') page += '\n';
  const std::string heading = "\n" + heading_of(section) + "\n";
  const size_t begin = page.find(heading);
  if (begin == std::string::npos) return page + "\n" + section;
  const size_t next = page.find("\n## ", begin + heading.size() - 1);
  const std::string rest = next == std::string::npos ? "" : page.substr(next);
  return page.substr(0, begin + 1) + section + rest;
}

}  // namespace phasescope::app
