#include <algorithm>
#include <chrono>
#include <filesystem>

#include "app/figures/bench_figures.h"
#include "app/verbs/bench_page.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "app/window_main.h"
#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/text_input.h"
#include "protocol/bench_results.h"

namespace phasescope::app {

namespace {

using protocol::BenchResult;
using protocol::BenchRow;

// Median, least and largest of `runs` calls, in `unit` of `per_second` a second.
template <class F>
BenchRow timed_row(const std::string& name, int64_t runs, double per_second,
                   const std::string& unit, const F& call) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int64_t run = 0; run < runs; ++run) {
    const auto begin = clock::now();
    call();
    times.push_back(std::chrono::duration<double>(clock::now() - begin).count() * per_second);
  }
  std::sort(times.begin(), times.end());
  return {.name = name,
          .unit = unit,
          .value = times[times.size() / 2],
          .min = times.front(),
          .max = times.back(),
          .runs = runs};
}

class BenchVerb : public Verb {
 public:
  std::string name() const override { return "bench"; }
  std::string help() const override {
    return "benchmarks: medians and ratios of interleaved runs, rivals named";
  }
  std::string example() const override {
    return "phasescope bench kernels --variants plain,tape --lengths 512 --dims 64 --runs 3";
  }
  void declare(Options& options) override {
    options.argument("WHAT", what_, "kernels, load, map, protocol or window", false);
    options.argument("OUT", out_, "file or folder to write, as --out", false);
    options.option(
        "--variants", variants_,
        "of bench kernels: plain, table, tapa, tape, cape, fire; layer, heads: all statistics of "
        "a layer's and of a 12-layer model's heads");
    options.option("--passes", passes_, "of bench kernels: forward, backward");
    options.option("--lengths", lengths_, "tokens in bench kernels");
    options.option("--dims", dims_, "head dimensions of bench kernels");
    options.option("--heads", heads_, "heads of bench kernels");
    options.option("--write", page_, "page whose section of this device bench kernels replaces");
    options.option("--runs", runs_, "runs each");
  }
  std::string out_argument() const override { return out_; }
  Output run(Run& run) override {
    if (what_ == "kernels") return kernels(run);
    if (what_ == "load") return rows_output(run.call("bench.load", {{"runs", runs_}}).result);
    if (what_ == "window") return rows_output(protocol::to_json_form(bench_window()));
    if (what_ == "map") return rows_output(protocol::to_json_form(map(run)));
    if (what_ == "protocol") return rows_output(protocol::to_json_form(protocol_rows(run)));
    throw formats::bad_usage("bench does not know \"" + what_ + "\"", "WHAT",
                             "kernels, load, map, protocol, window");
  }

 private:
  Output kernels(Run& run) {
    const auto bench = protocol::from_json_form<protocol::AttentionBench>(
        run.call("bench.kernels", {{"variants", split_list(variants_)},
                                   {"passes", split_list(passes_)},
                                   {"lengths", integer_list(lengths_, "--lengths")},
                                   {"dims", integer_list(dims_, "--dims")},
                                   {"heads", integer_list(heads_, "--heads")},
                                   {"runs", runs_}})
            .result);
    Output output{.result = protocol::to_json_form(bench)};
    Table table = table_of("", output.result["rows"],
                           {"variant", "pass", "dtype", "probes", "n", "d", "heads", "ms", "cpu_ms",
                            "gflops", "over_plain", "rival", "rival_ms", "rival_cpu_ms",
                            "speedup_over_rival", "peak_mb", "rival_peak_mb"});
    table.notes.push_back(bench_device(bench) + ", " + bench.build + bench_peak(bench));
    output.tables = {std::move(table)};
    for (const char* pass : {"forward", "backward"}) {
      for (const auto& figure : {kernel_speed_figure, rival_figure}) {
        widgets::PlotSpec plot = figure(bench, pass);
        if (!plot.series.empty()) output.figures.push_back(std::move(plot));
      }
    }
    if (!page_.empty()) write_page(bench, run.command());
    return output;
  }

  void write_page(const protocol::AttentionBench& bench, const std::string& command) const {
    const std::string old =
        std::filesystem::exists(page_) ? formats::read_text_file(page_) : std::string();
    formats::write_file_atomically(formats::real_file_system(), page_,
                                   with_bench_section(old, bench_section(bench, command)));
  }

  // One 256 x 256 view of a map whose text has been read already: what a zoom step costs.
  BenchResult map(Run& run) const {
    const nlohmann::json params{{"model", "rope"},
                                {"head", "L1H1"},
                                {"size", {256, 256}},
                                {"of", "weight"},
                                {"pool", "max"}};
    run.call("map", params);
    return {.device = "cpu",
            .rows = {timed_row("map view of a text read before", runs_, 1e3, "ms",
                               [&] { run.call("map", params); })}};
  }

  BenchResult protocol_rows(Run& run) const {
    run.call("worker.info", nlohmann::json::object());
    return {.device = "cpu",
            .rows = {timed_row("round trip of a small request", 50 * runs_, 1e3, "ms",
                               [&] { run.call("worker.info", nlohmann::json::object()); })}};
  }

  static Output rows_output(nlohmann::json result) {
    Output output{.result = std::move(result)};
    output.tables = {
        table_of("", output.result["rows"], {"name", "value", "unit", "min", "max", "runs"})};
    return output;
  }

  std::string what_ = "kernels", out_, variants_, passes_, page_;
  std::string lengths_ = "512,2048,8192", dims_ = "64,128", heads_ = "4";
  int64_t runs_ = 5;
};

}  // namespace

std::unique_ptr<Verb> bench_verb() { return std::make_unique<BenchVerb>(); }

}  // namespace phasescope::app
