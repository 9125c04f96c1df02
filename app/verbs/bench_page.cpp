#include "app/verbs/bench_page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <set>

#include "app/outputs/result_tables.h"
#include "app/verbs/bench_goals.h"
#include "formats/error.h"
#include "formats/json.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

using protocol::AttentionBench;
using protocol::AttentionBenchRow;

namespace {

// Above the first section; the page is written anew with it each time.
constexpr const char* kIntroduction =
    R"(# Benchmarks

Written by `phasescope bench kernels --write docs/benchmarks.md`: a run replaces this introduction and
the section of the processor, instruction set, thread count and number of heads it ran on and keeps the
rest; a GPU, a dtype other than float32 and `--layout model` (a token's heads beside each other, rows of a
head 4096 numbers apart or more, as in a model of 32 heads of 128) have sections of their own, and so has
`--variants layer,heads` alone. *Slower than aimed at* compares the rows of a section with the limits of
`app/verbs/bench_goals.cpp`: what must be reached at least, and the aim.

At each number of heads, length N and head dimension D every case runs once, then all of them again,
in one process on random data: within a size, what drifts on a shared machine drifts for all; sizes
follow one another. Numbers are medians, in brackets the least and the largest of the runs where these
are several. *ms* is wall time and *CPU ms* the processor time of all threads, which on a busy machine
is nearer the truth; *over plain* and *times the rival's speed* are given for both, wall time first.
GFLOP/s counts the products of plain causal attention (two forward, five backward) for every variant,
and *of peak* compares with the multiply-add peak measured in the same run, by processor time. MB is
what a call holds at its peak above what was there before, its results among it. A variant that has no
fused form at a size, or that has no such size, says so.

*Eager tensor operations* are this program's own twin of a variant, written with LibTorch's operations:
forward in blocks of rows, backward with whole maps. Backward, our kernels give the gradients of all
that a variant has (its table, its state, its small network), and the rivals those of q, k and v alone.
A *dense bias made before* is in neither the rival's time nor its memory, and no gradient of it is asked
for.

*Sinks* and *gates* (a number a channel) stand beside plain scores, *forgetting* is a bias by token, *query_table* a
table of 256 near distances for each query, *relative_keys* the same made in the kernel, of a vector of 16 numbers of
each query and one of each distance, *clamp* a second q and k for far keys: of three heads one has all keys
far, one those past a third of the text, one none. A section without these rows is older than they are.

*Probes: all* are entropy, largest score and its key, largest weight, weight on key 0 and within three
windows, mean distance, and by distance the number of pairs and the sums of weights, scores and squared
scores, in one pass with attention itself. By distance means what head statistics ask for: each distance
below 2048, then 32 buckets an octave. *All, about 32 buckets* has so many over the whole text, as many in
one octave as in another; the limits are for these. *All, log-sum-exp known* is what the first take in a
second pass over a layer, after one that left its log-sum-exp.

A GPU's section is one that `./dev bench --import` brought from it; there is none until the CUDA kernels
have run on a device. In it a time is that of 20 calls one after the other, without what crosses to the
GPU, there is no processor time, and the peak is that of a large matrix product, where LibTorch was there.

*Steps of trainings* are of `phasescope bench step CONFIG... --write docs/benchmarks.md`: a section for each
processor and number of threads. The rival is a loop that trains the same model in the same dtype with
LibTorch's own operations; encodings that it has no code for have none.
)";

// Written by hand, at the page's end.
constexpr const char* kExplanations = "\n## Why some are slower than aimed at\n";

std::string number(double value) { return std::isnan(value) ? "-" : widgets::short_number(value); }

std::string ratio(double value) {
  if (std::isnan(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

// Share of the peak; of what the threads' processor time allows.
std::string of_peak(const AttentionBench& bench, const AttentionBenchRow& row) {
  const double share =
      runs_on_gpu(bench) ? wall_share_of_peak(bench, row) : cpu_share_of_peak(bench, row);
  return std::isnan(share) ? "-" : std::to_string(std::lround(100 * share)) + " %";
}

std::string spread(const AttentionBenchRow& row) {
  if (!(row.ms_max > row.ms_min)) return number(row.ms);
  return number(row.ms) + " [" + number(row.ms_min) + ", " + number(row.ms_max) + "]";
}

// "tape, probes: all, ran as plain (...)" where it was not what the section is headed by.
std::string case_of(const AttentionBench& bench, const AttentionBenchRow& row) {
  std::string name = row.variant;
  if (row.probes != "none") name += ", probes: " + row.probes;
  if (row.kernel != bench.kernel) name += (row.ran ? ", ran as " : ", ") + row.kernel;
  return name;
}

std::string line_of(const AttentionBench& bench, const AttentionBenchRow& row) {
  std::string line;
  for (const std::string& cell :
       {case_of(bench, row), std::to_string(row.heads), std::to_string(row.n),
        std::to_string(row.d), spread(row), number(row.cpu_ms), number(row.gflops),
        of_peak(bench, row), ratio(row.over_plain) + ", " + ratio(cpu_over_plain(bench, row)),
        number(row.peak_mb), row.rival.empty() ? "-" : row.rival, number(row.rival_ms),
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
         "\n\n| variant | heads | N | D | ms [least, most] | CPU ms | GFLOP/s | of peak | over "
         "plain | MB | "
         "rival | rival ms | times the rival's speed | rival MB |\n" +
         "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|\n" + lines;
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

std::string peak_of(const AttentionBench& bench) {
  if (std::isnan(bench.fma_peak_gflops)) return "";
  return "; multiply-add peak " + number(bench.fma_peak_gflops) + " GFLOP/s";
}

// Build, sizes in common, runs, day and peak.
std::string conditions_of(const AttentionBench& bench, const std::string& date) {
  return bench.build + "; causal, batch 1, " + dtype_of(bench) + "; medians of " +
         counted(bench.runs, "interleaved run") + ", " + date + peak_of(bench);
}

}  // namespace

std::string bench_device(const AttentionBench& bench) {
  const std::string dtype = dtype_of(bench) == "f32" ? "" : ", " + dtype_of(bench);
  const std::string threads = runs_on_gpu(bench) ? "" : ", " + counted(bench.threads, "thread");
  const std::string layout = bench.layout == "model" ? ", rows as a model lays them out" : "";
  return bench.processor + ", " + last_word(bench.kernel) + threads + dtype + layout;
}

std::string bench_facts(const AttentionBench& bench, const std::string& date) {
  const std::string threads = runs_on_gpu(bench) ? "" : ", " + counted(bench.threads, "thread");
  return bench.processor + threads + ", " + conditions_of(bench, date);
}

std::string bench_section(const AttentionBench& bench, const std::string& command,
                          const std::string& date) {
  const bool statistics_alone =
      std::all_of(bench.rows.begin(), bench.rows.end(), [](const AttentionBenchRow& row) {
        return row.variant == "layer" || row.variant == "heads";
      });
  const std::string heading =
      "## " + bench_device(bench) + ", " + heads_of(bench) +
      (statistics_alone ? ": every statistic of every head, of one layer's attention "
                          "and of a 12-layer model with all its products"
                        : "");
  return heading + "\n\n" + conditions_of(bench, date) + ". `" + command + "`\n" +
         table_of_pass(bench, "forward") + table_of_pass(bench, "backward") + goals_section(bench);
}

CarriedBench carried_bench(const std::string& text, const std::string& path) {
  const formats::Json result = formats::parse_json(text, path);
  const auto fail = [&path](const std::string& why) {
    return formats::bad_input(path + " " + why, path,
                              "it is what first_minutes.py of ./dev carry --out DIR writes");
  };
  const formats::Json times = result.is_object() ? result.value("times", formats::Json()) : result;
  if (!times.is_object() || !result.value("date", formats::Json()).is_string()) {
    throw fail("is no result of a device");
  }
  if (result.value("emulated", formats::Json(true)) != false) {
    throw fail("has the times of the kernels' emulation, which say nothing of a device");
  }
  CarriedBench carried{{}, result["date"].get<std::string>()};
  try {
    carried.bench = protocol::from_json_form<AttentionBench>(times.at("table"));
  } catch (const std::exception& error) {
    throw fail(std::string("holds no table of times: ") + error.what());
  }
  if (carried.bench.rows.empty() || !runs_on_gpu(carried.bench)) {
    throw fail("holds no times of a device");
  }
  return carried;
}

bool is_bench_page(const std::string& page) {
  return page.empty() || page.rfind("# Benchmarks\n", 0) == 0;
}

std::string with_bench_section(std::string page, const std::string& section) {
  const std::size_t first = page.find("\n## ");
  page = kIntroduction + (first == std::string::npos ? "" : page.substr(first));
  if (page.back() != '\n') page += '\n';
  const std::string heading = "\n" + heading_of(section) + "\n";
  const std::size_t same = page.find(heading);
  if (same != std::string::npos) {
    const std::size_t next = page.find("\n## ", same + heading.size() - 1);
    const std::string rest = next == std::string::npos ? "" : page.substr(next);
    return page.substr(0, same + 1) + section + rest;
  }
  const std::size_t end = std::min(page.find(kExplanations), page.size());
  return page.substr(0, end) + "\n" + section + page.substr(end);
}

}  // namespace phasescope::app
