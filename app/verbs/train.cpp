#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "app/cli/worker_run.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "formats/json.h"
#include "protocol/error_info.h"
#include "protocol/messages/jobs.h"

namespace phasescope::app {

namespace {

using protocol::JobStatus;

// Training runs as a detached job; in the foreground this verb follows its folder. So Ctrl-C,
// closing the terminal or kill -9 of this program never tears a checkpoint. Under a launcher
// (torchrun's variables) this process itself becomes one of the job's.
class TrainVerb : public Verb {
 public:
  std::string name() const override { return "train"; }
  std::string help() const override { return "train a model from a run configuration"; }
  std::string example() const override {
    return "phasescope train sample_configs/desk/tapa.json --job out/j --set train.steps=20";
  }
  void declare(Options& options) override {
    options.argument("CONFIG", config_, "run configuration; not needed with --resume", false);
    options.option(
        "--from", from_,
        "a model whose weights it begins with (start.model of CONFIG; docs/training.md)");
    options.option("--job", job_, "the job's folder (default: a new one in the user's jobs)");
    options.request(start_, Options::Arguments::optional, {"resume", "set", "device"});
    options.flag("--background", background_, "start and return");
  }
  std::string missing_forms() const override {
    return background_ ? ".csv .md .svg .pdf .png .npy .safetensors" : ".csv .md .npy .safetensors";
  }
  Output run(Run& run) override {
    fill_start();
    if (const std::string rank = launched_rank(); !rank.empty()) run_as_rank(run, rank);
    protocol::Reply reply = run.call(start_);
    const JobStatus started = result_of<JobStatus>(reply);
    run.say("job " + started.dir);
    // What differs from the configuration that was given, above all.
    if (start_.resume && !started.message.empty()) run.say(started.message);
    if (background_) return Output{.result = std::move(reply.result)};
    return follow(run, started.dir);
  }

 private:
  void fill_start() {
    if (config_.empty() && from_.empty() && !start_.resume) {
      throw formats::bad_usage("train needs a run configuration", "CONFIG");
    }
    if (start_.resume && !from_.empty()) {
      throw formats::bad_usage("a job goes on with its own weights", "--from");
    }
    if (start_.resume && job_.empty()) {
      throw formats::bad_usage("--resume needs the folder", "--job");
    }
    const auto needs_configuration = [this](const std::string& option, bool given) {
      if (!given || !config_.empty() || !from_.empty()) return;
      throw formats::bad_usage("a job goes on with its own configuration", option,
                               "start a new one with CONFIG and " + option);
    };
    needs_configuration("--set", !start_.set.list.empty());
    needs_configuration("--device", !start_.device.empty());
    if (!config_.empty()) {
      start_.config =
          formats::json_from_file(config_, {.duplicate_keys = formats::DuplicateKeys::refuse});
      if (!start_.config.is_object()) {
        throw formats::bad_input("a run configuration must be a JSON object", config_);
      }
      start_.name = std::filesystem::path(config_).stem().string();
    }
    if (!from_.empty()) begin_with_model();
    if (!job_.empty()) start_.dir = std::filesystem::absolute(job_).lexically_normal().string();
  }

  // A name that is no path is a bundled model's.
  void begin_with_model() {
    namespace fs = std::filesystem;
    const fs::path path = fs::absolute(from_).lexically_normal();
    if (config_.empty()) start_.config = nlohmann::json::object(), start_.name = path.stem();
    start_.config["start"]["model"] = fs::exists(from_) ? path.string() : from_;
  }

  // RANK, where a launcher has set it; empty otherwise. One of its two variables alone would train
  // each process for itself.
  static std::string launched_rank() {
    const char *rank = std::getenv("RANK"), *size = std::getenv("WORLD_SIZE");
    if ((rank == nullptr) != (size == nullptr)) {
      throw formats::bad_usage(
          std::string("one of several processes has both RANK and WORLD_SIZE, and here is no ") +
              (rank == nullptr ? "RANK" : "WORLD_SIZE"),
          rank == nullptr ? "RANK" : "WORLD_SIZE", "set it, or unset both to train alone");
    }
    return rank == nullptr ? "" : rank;
  }

  // Rank 0 makes the folder that the others only need the name of.
  [[noreturn]] void run_as_rank(Run& run, const std::string& rank) {
    const std::string hint =
        "RANK and WORLD_SIZE are set, as a launcher sets them; unset them to train alone";
    if (start_.dir.empty()) {
      throw formats::bad_usage("several processes need the folder of their job", "--job", hint);
    }
    const CommonOptions& common = run.common();
    if (background_ || common.json || !common.out.empty() || !common.remote.empty()) {
      throw formats::bad_usage(
          "one of several processes trains in the foreground, here, and writes to its job alone",
          "--background, --json, --out, --remote", hint);
    }
    if (rank == "0") {
      start_.launched = true;
      // torchrun starts the same command again after a rank has died.
      const char* again = std::getenv("TORCHELASTIC_RESTART_COUNT");
      start_.resume = start_.resume || (again != nullptr && std::string_view(again) != "0");
      run.say("job " + result_of<JobStatus>(run.call(start_)).dir);
    }
    become_worker({"--job-rank", start_.dir});
  }

  static bool ended(const std::string& state) {
    return state == "done" || state == "failed" || state == "cancelled" || state == "died";
  }

  static std::string line_of(const JobStatus& job) {
    std::string line = "step " + std::to_string(job.step) + "/" + std::to_string(job.steps);
    if (job.last) line += "  loss " + widgets::short_number(job.last->loss);
    if (job.seconds_left > 0) {
      line += "  " + std::to_string(std::int64_t(job.seconds_left)) + " s left";
    }
    return job.state == "paused" ? line + "  paused" : line;
  }

  // Ctrl-C asks the job to stop; it saves a checkpoint first.
  Output follow(Run& run, const std::string& dir) {
    bool asked = false;
    std::int64_t said = 0;
    while (true) {
      protocol::Reply reply = run.call(protocol::JobRequest{.dir = dir});
      const JobStatus job = result_of<JobStatus>(reply);
      if (ended(job.state)) return finish(job, std::move(reply.result));
      const double fraction = job.steps > 0 ? double(job.step) / double(job.steps) : 0;
      run.show_progress(fraction, line_of(job));
      if (job.step >= said + 100) {
        said = job.step;
        run.say(line_of(job));
      }
      if (run.interrupted() && !asked) {
        run.call(protocol::ControlRequest{.dir = dir, .action = "cancel"});
        asked = true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
  }

  static Output finish(const JobStatus& job, nlohmann::json result) {
    Output output{.result = std::move(result)};
    output.text = "job " + job.dir + ": " + job.state + ", " + line_of(job) + "\n";
    if (!job.message.empty()) output.text += job.message + "\n";
    output.figures = {job_curve_figure(job)};
    if (job.state == "cancelled") output.status = 130;
    if (job.state == "failed" || job.state == "died") {
      throw protocol::RequestError(
          {job.state == "died" ? "worker_died" : job.code.value_or("bad_input"),
           "the training " + job.state + (job.message.empty() ? "" : ": " + job.message), job.dir,
           "phasescope train --resume --job " + job.dir});
    }
    return output;
  }

  protocol::StartRequest start_;
  std::string config_, from_, job_;
  bool background_ = false;
};

}  // namespace

std::unique_ptr<Verb> train_verb() { return std::make_unique<TrainVerb>(); }

}  // namespace phasescope::app
