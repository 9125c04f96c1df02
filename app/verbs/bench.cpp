#include "protocol/messages/bench.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "app/figures/bench_figures.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/bench_page.h"
#include "app/verbs/bench_transfers.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "app/window_main.h"
#include "formats/error.h"
#include "formats/json.h"
#include "formats/text_input.h"
#include "protocol/bench_results.h"
#include "protocol/messages/jobs.h"
#include "protocol/messages/map.h"
#include "protocol/messages/worker.h"

namespace phasescope::app {

namespace {

constexpr const char* kRivalOfSteps = "plain LibTorch loop of the same model";
constexpr std::chrono::milliseconds kBetweenSteps{100};

using nlohmann::json;
using protocol::BenchResult;
using protocol::BenchRow;

// Median, least and largest of `runs` calls, in `unit` of `per_second` a second.
template <class F>
BenchRow timed_row(const std::string& name, std::int64_t runs, double per_second,
                   const std::string& unit, const F& call) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (std::int64_t run = 0; run < runs; ++run) {
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

// Frames of the size of a whole map of 4096 tokens, and a file of the size of a small model.
constexpr std::int64_t kLargeFrame = std::int64_t{64} << 20, kLargeFile = std::int64_t{1} << 30;

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
    options.argument("WHAT", what_, "kernels, step, load, map, protocol or window", false);
    options.arguments("OUT", words_,
                      "file to write, or a folder for the plots too, as --out; of step the run "
                      "configurations whose steps are timed",
                      false);
    options.request(request_);
    options.option(
        "--beside", beside_,
        "with window: a run configuration that is trained on the same processor meanwhile");
    options.option(
        "--write", page_,
        "page of benchmarks, whose section of this device bench kernels or bench step replaces");
    options.option(
        "--import", import_,
        "take the times from this file of a GPU machine (./dev carry) instead of measuring");
  }
  std::string out_argument() const override {
    return what_ == "step" || words_.empty() ? "" : words_.front();
  }
  std::string missing_forms() const override {
    return what_ == "kernels" ? kNoArrays : kTablesAlone;
  }
  Output run(Run& run) override {
    if (what_ != "step" && words_.size() > 1) {
      throw formats::bad_usage("one file is written", "OUT", "name one");
    }
    if (what_ != "window" && !beside_.empty()) {
      throw formats::bad_usage("bench " + what_ + " does not take it", "--beside");
    }
    if (what_ == "kernels") return kernels(run);
    refuse_what_is_of_kernels();
    if (!page_.empty() && what_ != "step") {
      throw formats::bad_usage("this benchmark has no page", "--write");
    }
    if (!import_.empty()) {
      throw formats::bad_usage("only times of kernels can be imported", "--import");
    }
    if (what_ == "window") {
      if (!run.common().remote.empty()) {
        throw formats::bad_usage("bench window measures the window of this machine", "--remote");
      }
      return beside_.empty() ? rows_output(protocol::to_json_form(bench_window()), provenance(run))
                             : window_beside_training(run);
    }
    if (what_ == "step") return steps(run);
    json result;
    if (what_ == "load") {
      result =
          run.call(protocol::LoadBenchRequest{.device = request_.device, .runs = request_.runs})
              .result;
      // The disk of this machine, so not of a worker elsewhere.
      if (run.common().remote.empty()) {
        for (const BenchRow& row : file_rows(kLargeFile, request_.runs)) {
          result["rows"].push_back(protocol::to_json_form(row));
        }
      }
    } else if (what_ == "map") {
      result = protocol::to_json_form(map(run));
    } else if (what_ == "protocol") {
      result = protocol::to_json_form(protocol_rows(run));
    } else {
      throw formats::bad_usage("bench does not know \"" + what_ + "\"", "WHAT",
                               "kernels, step, load, map, protocol, window");
    }
    return rows_output(std::move(result), worker_provenance(run));
  }

 private:
  // The other benchmarks have choices of their own few.
  void refuse_what_is_of_kernels() const {
    static const std::map<std::string, std::set<std::string>> own{
        {"load", {"device", "runs", "threads"}},
        {"map", {"runs", "threads"}},
        {"protocol", {"runs", "threads"}},
        {"step", {"lengths", "passes", "backend", "device", "runs", "threads"}},
        {"window", {}}};
    const auto takes = own.find(what_);
    if (takes == own.end()) return;
    for (const std::string& key : given(request_)) {
      if (takes->second.contains(key)) continue;
      throw formats::bad_usage("bench " + what_ + " does not take it", protocol::option_name(key));
    }
  }

  Output kernels(Run& run) {
    if (!page_.empty()) page_before();
    const auto [bench, date] = measured_or_brought(run);
    const std::string facts = bench_facts(bench, date);
    Output output{.result = protocol::to_json_form(bench)};
    output.result["provenance"] = provenance_of(bench, date, run);
    output.provenance.push_back(output.result["provenance"]);
    Table table = table_of<protocol::AttentionBenchRow>(
        "", output.result["rows"],
        {"variant", "pass",         "dtype", "probes",   "kernel",       "n",
         "d",       "heads",        "ms",    "ms_min",   "ms_max",       "cpu_ms",
         "gflops",  "over_plain",   "rival", "rival_ms", "rival_cpu_ms", "speedup_over_rival",
         "peak_mb", "rival_peak_mb"});
    table.notes.push_back(facts);
    output.tables = {std::move(table)};
    output.figures = bench_figures(bench, facts);
    if (!page_.empty()) {
      output.files.push_back(
          {page_, with_bench_section(page_before(), bench_section(bench, run.command(), date))});
    }
    return output;
  }

  // What is measured here and today, or what a file brings.
  CarriedBench measured_or_brought(Run& run) const {
    if (!import_.empty()) return carried_bench(formats::read_text_file(import_), import_);
    return {protocol::from_json_form<protocol::AttentionBench>(run.call(request_).result), today()};
  }

  // As the papers print what an encoding costs: a row for each configuration and length.
  Output steps(Run& run) const {
    if (!page_.empty()) page_before();
    protocol::StepBenchRequest asked{.runs = request_.runs, .threads = request_.threads};
    // Windows are as long as each configuration has them, and run as it says, unless asked for.
    const protocol::KernelsBenchRequest unasked;
    if (request_.lengths != unasked.lengths) asked.lengths = request_.lengths;
    if (request_.backend != unasked.backend) asked.backend = request_.backend;
    asked.device = request_.device;
    asked.forward_only = request_.passes == std::vector<std::string>{"forward"};
    if (!request_.passes.empty() && !asked.forward_only) {
      throw formats::bad_usage("steps have both passes", "--passes",
                               "leave it out, or time forward passes alone: --passes forward");
    }
    asked.configs = json::array();
    for (const std::string& file : words_) {
      asked.configs.push_back({{"name", std::filesystem::path(file).stem().string()},
                               {"config", formats::json_from_file(file)}});
    }
    if (words_.empty()) {
      throw formats::bad_usage("bench step needs a run configuration", "CONFIG",
                               "bench step sample_configs/desk/rope.json");
    }
    const auto bench = protocol::from_json_form<protocol::StepBench>(run.call(asked).result);
    Output output{.result = protocol::to_json_form(bench)};
    output.result["provenance"] = worker_provenance(run);
    output.provenance.push_back(output.result["provenance"]);
    Table table = table_of_steps(bench);
    if (!page_.empty()) {
      table.title =
          "Steps of trainings, " + bench.processor + ", " + counted(bench.threads, "thread");
      const std::string section =
          markdown_of(table) + "\n`" + run.command() + "`, " + today() + "\n";
      output.files.push_back({page_, with_bench_section(page_before(), section)});
      table.title.clear();
    }
    output.tables = {std::move(table)};
    return output;
  }

  // What a row has not (a rival, a forward pass of its own) is left empty.
  static Table table_of_steps(const protocol::StepBench& bench) {
    json rows = protocol::to_json_form(bench.rows);
    for (json& row : rows) {
      for (json& cell : row) {
        if (cell == "nan") cell = nullptr;
      }
    }
    std::vector<std::string> columns{"name",
                                     "dtype",
                                     "length",
                                     "windows",
                                     "forward_ms",
                                     "step_ms",
                                     "step_ms_min",
                                     "step_ms_max",
                                     "over_first",
                                     "tokens_per_second",
                                     "peak_mb",
                                     "rival_ms",
                                     "speedup_over_rival"};
    const auto on_cpu = [](const protocol::StepBenchRow& row) { return row.device == "cpu"; };
    if (!std::ranges::all_of(bench.rows, on_cpu)) {
      columns.insert(columns.end(), {"device", "kernel", "to_device", "to_host"});
    }
    Table table = table_of<protocol::StepBenchRow>("", rows, columns);
    table.notes.push_back(bench.processor + ", " + counted(bench.threads, "thread") +
                          ", medians of " + counted(bench.runs, "interleaved run") +
                          "; the rival is a " + kRivalOfSteps);
    return table;
  }

  // The window's rows while a training keeps the same processor busy, and what its steps took.
  Output window_beside_training(Run& run) const {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                         ("phasescope-beside-" + std::to_string(::getpid()));
    protocol::StartRequest start{.dir = (folder / "job").string(),
                                 .config = formats::json_from_file(beside_)};
    start.set.list = {"train.steps=10000000", "train.checkpoint_every=10000000", "eval.every=0"};
    run.call(start);
    const auto show = [&] {
      return protocol::from_json_form<protocol::JobStatus>(
          run.call(protocol::JobRequest{.dir = start.dir}).result);
    };
    const auto stop = [&] {
      run.call(protocol::ControlRequest{.dir = start.dir, .action = "cancel"});
      while (protocol::is_live(show().state)) std::this_thread::sleep_for(kBetweenSteps);
      run.call(protocol::ControlRequest{.dir = start.dir, .action = "remove"});
    };
    protocol::BenchResult measured;
    try {
      while (show().step == 0 && protocol::is_live(show().state)) {
        std::this_thread::sleep_for(kBetweenSteps);
      }
      const protocol::JobStatus before = show();
      measured = bench_window();
      // It counts from the program's start, and has waited for the training.
      std::erase_if(measured.rows, [](const auto& row) { return row.name == "first_frame"; });
      const protocol::JobStatus after = show();
      const double steps = static_cast<double>(after.step - before.step);
      if (steps <= 0) {
        throw formats::internal_error("the training beside the window made no step: " +
                                      after.message);
      }
      const double ms = 1e3 * (after.seconds - before.seconds) / steps;
      measured.rows.push_back({.name = "beside.step",
                               .unit = "ms",
                               .value = ms,
                               .min = ms,
                               .max = ms,
                               .runs = after.step - before.step});
    } catch (...) {
      stop();
      throw;
    }
    stop();
    std::error_code none;
    std::filesystem::remove_all(folder, none);
    return rows_output(protocol::to_json_form(measured), provenance(run));
  }

  // What the page holds now; nothing where there is none. Throws Error "bad_usage" or "bad_input"
  // for what is no page of benchmarks, or cannot be written.
  std::string page_before() const {
    const std::filesystem::path path = page_;
    if (path.extension() != ".md") {
      throw formats::bad_usage("a page of benchmarks is a .md file", page_, "--write FILE.md");
    }
    require_writable_place(std::filesystem::absolute(path).parent_path());
    std::error_code none;
    if (!std::filesystem::exists(path) || std::filesystem::file_size(path, none) == 0) return "";
    std::string page = formats::read_text_file(path);
    if (!is_bench_page(page)) {
      throw formats::bad_usage("this file is no page of benchmarks, and is left as it is", page_,
                               "its first line would be \"# Benchmarks\"");
    }
    return page;
  }

  // ---- provenance ------------------------------------------------------------------------------

  static std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
    return text;
  }

  json provenance(Run& run) const {
    json made = protocol::to_json_form(protocol::Provenance{
        .command = run.command(), .version = PHASESCOPE_VERSION, .seed = request_.seed});
    made["runs"] = request_.runs;
    made["date"] = today();
    return made;
  }

  // With the worker that was measured: another program, maybe on another host.
  json worker_provenance(Run& run) const {
    const json facts = run.call(protocol::WorkerInfoRequest{}).result;
    json made = provenance(run);
    made["version"] = facts.at("version");
    for (const char* key : {"torch", "threads"}) made[key] = facts.at(key);
    return made;
  }

  json provenance_of(const protocol::AttentionBench& bench, const std::string& date,
                     Run& run) const {
    json made = import_.empty() ? worker_provenance(run) : provenance(run);
    made["device"] = bench.device;
    made["processor"] = bench.processor;
    made["kernel"] = bench.kernel;
    protocol::AllRan ran;
    for (const protocol::AttentionBenchRow& row : bench.rows) {
      if (row.ran) ran.insert(*row.ran);
    }
    made["ran"] = protocol::to_json_form(protocol::listed(ran));
    made["build"] = bench.build;
    made["threads"] = bench.threads;
    made["fma_peak_gflops"] = protocol::detail::write_double(bench.fma_peak_gflops);
    if (!bench.rows.empty()) made["dtype"] = bench.rows[0].dtype;
    made["date"] = date;
    return made;
  }

  // ---- the other benchmarks --------------------------------------------------------------------

  // One 256 x 256 view of a map whose text has been read already: what a zoom step costs.
  BenchResult map(Run& run) const {
    protocol::MapRequest request{.model = "rope", .head = {"L1H1"}, .pool = "max"};
    // The first call starts the worker, which opens the model and reads the text.
    BenchRow first = timed_row("first map, from the start of the worker", 1, 1e3, "ms",
                               [&] { run.call(request); });
    return {.device = "cpu",
            .rows = {std::move(first), timed_row("map view of a text read before", request_.runs,
                                                 1e3, "ms", [&] { run.call(request); })}};
  }

  BenchResult protocol_rows(Run& run) const {
    run.call(protocol::WorkerInfoRequest{});
    BenchResult result{.device = "cpu",
                       .rows = {timed_row("round trip of a small request", 50 * request_.runs, 1e3,
                                          "ms", [&] { run.call(protocol::WorkerInfoRequest{}); })}};
    for (BenchRow& row : frame_rows(kLargeFrame, request_.runs)) {
      result.rows.push_back(std::move(row));
    }
    return result;
  }

  static Output rows_output(json result, json provenance) {
    Output output{.result = std::move(result)};
    output.provenance.push_back(provenance);
    output.result["provenance"] = std::move(provenance);
    output.tables = {table_of(
        "", output.result["rows"],
        {"name", "value", "unit", "min", "max", "runs", "rival", "rival_value", "over_rival"})};
    return output;
  }

  std::string what_ = "kernels", page_, import_, beside_;
  std::vector<std::string> words_;
  protocol::KernelsBenchRequest request_;
};

}  // namespace

std::unique_ptr<Verb> bench_verb() { return std::make_unique<BenchVerb>(); }

}  // namespace phasescope::app
