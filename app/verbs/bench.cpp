#include <algorithm>
#include <chrono>

#include "app/verbs/factories.h"
#include "app/verbs/verb_tools.h"
#include "app/window_main.h"
#include "formats/error.h"

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
    return "phasescope bench kernels --lengths 512 --dims 64 --runs 3";
  }
  void declare(Options& options) override {
    options.argument("WHAT", what_, "kernels, load, map, protocol or window", false);
    options.option("--lengths", lengths_, "of bench kernels");
    options.option("--dims", dims_, "head dimensions of bench kernels");
    options.option("--heads", heads_, "heads of bench kernels");
    options.option("--runs", runs_, "runs each");
  }
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
    Output output{.result =
                      run.call("bench.kernels", {{"lengths", integer_list(lengths_, "--lengths")},
                                                 {"dims", integer_list(dims_, "--dims")},
                                                 {"heads", heads_},
                                                 {"runs", runs_}})
                          .result};
    Table table = table_of("", output.result["rows"],
                           {"variant", "pass", "probes", "n", "d", "heads", "ms", "gflops",
                            "over_plain", "rival", "rival_ms", "speedup_over_rival", "peak_mb"});
    table.notes.push_back(
        "threads " + output.result["threads"].dump() + ", multiply-add peak measured in this run " +
        widgets::short_number(output.result["fma_peak_gflops"].get<double>()) + " GFLOP/s");
    output.tables = {std::move(table)};
    return output;
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

  std::string what_ = "kernels", lengths_ = "512,2048", dims_ = "64,128";
  int64_t heads_ = 8, runs_ = 5;
};

}  // namespace

std::unique_ptr<Verb> bench_verb() { return std::make_unique<BenchVerb>(); }

}  // namespace phasescope::app
