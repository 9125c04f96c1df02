#include "protocol/messages/sweep.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "app/figures/job_figures.h"
#include "app/outputs/eval_output.h"
#include "app/outputs/result_tables.h"
#include "app/verbs/factories.h"
#include "app/verbs/sweep_plan.h"
#include "app/verbs/verb.h"
#include "formats/error.h"
#include "protocol/error_info.h"
#include "protocol/messages/jobs.h"

namespace phasescope::app {

namespace {

namespace fs = std::filesystem;
using protocol::SweepCell;
using protocol::SweepResult;

constexpr std::size_t kMostCurves = 24;            // that can be told apart in one figure
constexpr std::chrono::seconds kBetweenLooks{10};  // at Slurm's queue, which others ask too

// Every cell is a job of its own, found again by its folder: whatever ends this verb, the same
// command goes on with what is not done.
class SweepVerb : public Verb {
 public:
  std::string name() const override { return "sweep"; }
  std::string help() const override { return "many trainings over a grid, and a table of them"; }
  std::string example() const override {
    return "phasescope sweep sample_configs/sweeps/copy.json --job out/sweep --table";
  }
  std::string missing_forms() const override { return ".npy .safetensors"; }
  void declare(Options& options) override {
    options.argument("CONFIG", config_, "base configuration, grid and eval");
    options.option("--job", folder_, "folder of the jobs' folders (default: out/NAME of the file)");
    options.option("--jobs", at_once_, "at once (default: what the file says)", 1, 1024);
    options.option("--seeds", seeds_, "of the grid's seeds the first so many (default: all)", 1,
                   10'000);
    options.option("--device", device_, protocol::kTrainsOnAbout.help);
    options.option("--kept", kept_,
                   "a .jsonl file of what jobs of this sweep came to, on other days too: those are "
                   "not trained again, and what is done here is added");
    options.flag("--table", table_, "show what there is, and start nothing");
    options.flag("--slurm", slurm_, "hand what is left to Slurm as a job array, and follow it");
    options.repeated("--sbatch", sbatch_,
                     "option of sbatch, e.g. --sbatch=--partition=short (may be repeated)");
  }

  Output run(Run& run) override {
    plan_ = sweep_plan(config_);
    if (at_once_ > 0) plan_.at_once = at_once_;
    if (!device_.empty()) place_all_on_device();
    if (!sbatch_.empty() && !slurm_) {
      throw formats::bad_usage("this is an option of Slurm's", "--sbatch", "give --slurm too");
    }
    if (table_ && at_once_ > 0) {
      throw formats::bad_usage("--table starts nothing", "--jobs", "give one of them");
    }
    if (slurm_ && table_) {
      throw formats::bad_usage("--table starts nothing", "--slurm", "give one of them");
    }
    if (seeds_ > 0) {
      std::erase_if(plan_.jobs,
                    [this](const SweepJob& job) { return job.seed >= std::size_t(seeds_); });
    }
    place_ = fs::absolute(folder_.empty() ? fs::path("out") / fs::path(config_).stem()
                                          : fs::path(folder_))
                 .lexically_normal();
    for (const SweepJob& job : plan_.jobs) dirs_.push_back((place_ / job.name).string());
    read(run, Check::yes);
    keep(run);
    if (slurm_) {
      follow_array(run);
    } else if (!table_) {
      work_through(run);
    }
    keep(run);
    return shown(run, read(run));
  }

 private:
  // Trainings, and the evals of what they train.
  void place_all_on_device() {
    for (SweepJob& job : plan_.jobs) job.config["train"]["device"] = device_;
    if (evaluates()) plan_.eval["device"] = device_;
  }

  // Whether configurations are refused that cannot be used, before hours of training and not at
  // their turn, and folders that hold what another sweep asked for.
  enum class Check { no, yes };

  SweepResult read(Run& run, Check check = Check::no) const {
    nlohmann::json cells = nlohmann::json::array();
    for (std::size_t n = 0; n < dirs_.size(); ++n) {
      cells.push_back({{"dir", dirs_[n]}, {"group", plan_.jobs[n].group}});
      if (check == Check::no) continue;
      cells.back()["config"] = plan_.jobs[n].config, cells.back()["eval"] = plan_.eval;
    }
    return result_of<SweepResult>(run.call(protocol::SweepRequest{.cells = std::move(cells)}));
  }

  // What the file has becomes folders, what folders have comes into the file.
  void keep(Run& run) const {
    if (kept_.empty()) return;
    protocol::KeepRequest request{.file = fs::absolute(kept_).lexically_normal().string(),
                                  .cells = nlohmann::json::array(),
                                  .eval = plan_.eval};
    for (std::size_t n = 0; n < dirs_.size(); ++n) {
      request.cells.push_back({{"dir", dirs_[n]}, {"config", plan_.jobs[n].config}});
    }
    const auto found = result_of<protocol::KeptResult>(run.call(request));
    for (const std::string& name : found.restored) run.say("kept from before: " + name);
    for (const std::string& name : found.others) {
      run.say("kept with another configuration, and trained anew: " + name);
    }
  }

  bool evaluates() const { return !plan_.eval.is_null(); }

  // Starts what may start, until nothing runs and nothing is left.
  void work_through(Run& run) {
    bool stopping = false;
    while (true) {
      const SweepResult now = read(run);
      std::int64_t running = 0;
      for (const SweepCell& cell : now.cells) {
        running += protocol::is_live(cell.state) || protocol::is_live(cell.evaluated) ? 1 : 0;
      }
      say_progress(run, now, running, ended_of(now));
      if (run.interrupted() && !stopping) {
        stopping = true;
        stop(run, now);
      }
      bool started = false;
      for (std::size_t n = 0; n < now.cells.size() && running < plan_.at_once && !stopping; ++n) {
        if (!start_next(run, n, now.cells[n])) continue;
        ++running, started = true;
      }
      if (running == 0 && !started) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  }

  protocol::SlurmResult ask_slurm(Run& run, bool submit) const {
    protocol::SlurmRequest request{.dir = place_.string(), .at_once = plan_.at_once};
    request.eval = plan_.eval, request.options = sbatch_, request.submit = submit;
    request.cells = nlohmann::json::array();
    for (std::size_t n = 0; submit && n < dirs_.size(); ++n) {
      request.cells.push_back({{"dir", dirs_[n]}, {"config", plan_.jobs[n].config}});
    }
    return result_of<protocol::SlurmResult>(run.call(request));
  }

  // Until nothing of the array is in the queue. Who stops following stops nothing.
  void follow_array(Run& run) {
    protocol::SlurmResult array = ask_slurm(run, true);
    if (array.id.empty()) return;
    run.say("array " + array.id + ", script and logs in " + (place_ / "slurm").string());
    while (!array.queue.empty()) {
      const SweepResult now = read(run);
      const auto running =
          std::ranges::count(array.queue, std::string("RUNNING"), &protocol::SlurmElement::state);
      say_progress(run, now, running, ended_of(now));
      if (run.interrupted()) {
        run.say("array " + array.id + " goes on; the same command follows it, scancel ends it");
        return;
      }
      wait_for_next_look(run);
      array = ask_slurm(run, false);
    }
  }

  static void wait_for_next_look(const Run& run) {
    const auto until = std::chrono::steady_clock::now() + kBetweenLooks;
    while (std::chrono::steady_clock::now() < until && !run.interrupted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  std::int64_t ended_of(const SweepResult& now) const {
    return std::ranges::count_if(now.cells, [this](const SweepCell& cell) {
      return cell.state == "done" && (!evaluates() || cell.evaluated == "done");
    });
  }

  void say_progress(Run& run, const SweepResult& now, std::int64_t running, std::int64_t ended) {
    const double all = double(now.cells.size());
    double done = 0;
    for (const SweepCell& cell : now.cells) {
      done += cell.steps > 0 ? double(cell.step) / double(cell.steps) : 0;
    }
    const std::string words = std::to_string(ended) + " of " + std::to_string(now.cells.size()) +
                              " done, " + std::to_string(running) + " running";
    run.show_progress(all > 0 ? done / all : 1, words);
    if (words != std::exchange(said_, words)) run.say(words);
    if (ended > std::exchange(ended_, ended)) keep(run);
  }

  // The training of a cell, or its eval where it is trained; false where nothing is left of it.
  // What was started in this run and has ended without being done is not tried again.
  bool start_next(Run& run, std::size_t n, const SweepCell& cell) {
    if (protocol::is_live(cell.state) || protocol::is_live(cell.evaluated)) return false;
    const bool trained = cell.state == "done";
    if (trained && (!evaluates() || cell.evaluated == "done")) return false;
    if (!attempted_.insert({n, trained}).second) return false;
    try {
      if (trained) {
        start_eval(run, n, cell);
      } else {
        start_training(run, n);
      }
      return true;
    } catch (const protocol::RequestError& error) {
      run.say(plan_.jobs[n].name + ": " + error.what());
      return false;
    }
  }

  void start_training(Run& run, std::size_t n) {
    run.say("training " + plan_.jobs[n].name);
    run.call(
        protocol::StartRequest{.dir = dirs_[n], .config = plan_.jobs[n].config, .resume = true});
  }

  void start_eval(Run& run, std::size_t n, const SweepCell& cell) {
    const std::string dir = dirs_[n] + "/eval";
    run.say("evaluating " + plan_.jobs[n].name);
    if (!cell.evaluated.empty()) {
      run.call(protocol::ControlRequest{.dir = dir, .action = "resume"});
      return;
    }
    nlohmann::json eval = plan_.eval;
    eval["models"] = {dirs_[n]};
    run.call(protocol::StartRequest{.kind = "eval", .dir = dir, .config = std::move(eval)});
  }

  // Each saves a checkpoint first; the same command goes on later.
  void stop(Run& run, const SweepResult& now) {
    for (const SweepCell& cell : now.cells) {
      if (protocol::is_live(cell.state)) {
        run.call(protocol::ControlRequest{.dir = cell.dir, .action = "cancel"});
      }
      if (protocol::is_live(cell.evaluated)) {
        run.call(protocol::ControlRequest{.dir = cell.dir + "/eval", .action = "cancel"});
      }
    }
  }

  static void add_eval(const protocol::EvalResult& eval, Output& output) {
    Output made = eval_output(eval, {}, names_in(eval));
    std::ranges::move(made.tables, std::back_inserter(output.tables));
    output.figures = std::move(made.figures);
  }

  // Before anything is evaluated: the losses of what has begun.
  std::vector<widgets::PlotSpec> progress_of(Run& run, const SweepResult& now) const {
    std::vector<protocol::JobStatus> jobs;
    for (const SweepCell& cell : now.cells) {
      if (cell.step == 0 || jobs.size() == kMostCurves) continue;
      jobs.push_back(
          result_of<protocol::JobStatus>(run.call(protocol::JobRequest{.dir = cell.dir})));
    }
    if (jobs.empty()) return {};
    return {job_curves_figure(jobs, "loss")};
  }

  Output shown(Run& run, SweepResult now) const {
    Output output{.result = protocol::to_json_form(now)};
    nlohmann::json rows = protocol::to_json_form(now.cells);
    const std::int64_t ended = ended_of(now);
    for (std::size_t n = 0; n < rows.size(); ++n) {
      rows[n]["job"] = plan_.jobs[n].name;
      if (!now.cells[n].message.empty()) {
        output.text += plan_.jobs[n].name + ": " + now.cells[n].message + "\n";
      }
    }
    Table cells = table_of<SweepCell>(
        std::to_string(ended) + " of " + std::to_string(rows.size()) + " jobs are done", rows,
        {"job", "state", "step", "steps", "loss", "validation_bits", "validation_right",
         "evaluated"});
    output.tables.push_back(std::move(cells));
    output.whole = ended == std::int64_t(now.cells.size());
    if (!now.eval.rows.empty()) add_eval(now.eval, output);
    if (output.figures.empty()) output.figures = progress_of(run, now);
    const bool failed = std::ranges::any_of(now.cells, [](const SweepCell& cell) {
      return cell.state == "failed" || cell.evaluated == "failed";
    });
    // Who only looks, or leaves what goes on later, has not failed.
    const bool worked = !table_ && !run.interrupted();
    if (failed || (worked && !output.whole)) output.status = 1;
    return output;
  }

  SweepPlan plan_;
  std::vector<std::string> dirs_;
  std::string config_, folder_, device_, said_, kept_;
  std::set<std::pair<std::size_t, bool>> attempted_;  // a cell's training (false) and eval (true)
  fs::path place_;                                    // of the jobs' folders
  std::vector<std::string> sbatch_;
  std::int64_t at_once_ = 0, seeds_ = 0, ended_ = 0;
  bool table_ = false, slurm_ = false;
};

}  // namespace

std::unique_ptr<Verb> sweep_verb() { return std::make_unique<SweepVerb>(); }

}  // namespace phasescope::app
