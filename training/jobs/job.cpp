#include "training/jobs/job.h"

#include <ATen/Parallel.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "model/checkpoints/open_model.h"
#include "model/devices.h"
#include "protocol/error_info.h"
#include "protocol/json_form.h"
#include "protocol/model_reading.h"
#include "protocol/progress.h"
#include "protocol/request.h"
#include "training/blind_guesser.h"
#include "training/evals/eval_task.h"
#include "training/jobs/asked_eval.h"
#include "training/jobs/eval_rows.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"
#include "training/jobs/job_reporter.h"
#include "training/jobs/joint_requests.h"
#include "training/jobs/needs.h"
#include "training/jobs/out_of_memory.h"
#include "training/ranks/ranks.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

enum ExitStatus {
  kDone = 0,
  kBadInput = 2,
  kNoDevice = 3,
  kInternal = 4,
  kOutOfMemory = 5,
  kSignalled = 128,
  kCancelled = 130
};

int status_of_code(const std::string& code) {
  if (code == "bad_input" || code == "bad_usage") return kBadInput;
  if (code == "device_unavailable") return kNoDevice;
  if (code == "out_of_memory") return kOutOfMemory;
  return code == "cancelled" ? kCancelled : kInternal;
}

// Orders of its data that a training tries when its loss jumps.
constexpr std::int64_t kMostOrders = 10;

// A training alone, or what one of several ranks does of it: all take the same way through this
// class, and rank 0 alone writes.
class TrainingJob {
 public:
  TrainingJob(formats::FileSystem& files, fs::path dir, RunConfig config, JobReporter& reporter,
              Ranks* ranks)
      : files_(files),
        dir_(std::move(dir)),
        checkpoints_(dir_ / job_file::checkpoints),
        config_(std::move(config)),
        reporter_(reporter),
        control_(dir_, reporter_),
        ranks_(ranks) {
    if (ranks_) joint_.emplace(*ranks_, control_, reporter_);
  }

  void run() {
    reporter_.set_steps(config_.train.steps);
    Trainer trainer = prepared();
    try {
      while (!trainer.done()) {
        obey(trainer);
        one_step(trainer);
      }
    } catch (const JobCancelled&) {
      save(trainer);
      throw;
    } catch (const std::exception&) {
      save_what_is_whole(trainer);
      throw;
    }
    reporter_.sync_metrics();
    if (writes()) require_last_checkpoint(trainer), look_at_best(trainer);
    reporter_.set_state("done", trainer.stopped_early()
                                    ? "ended after step " + std::to_string(trainer.steps_done()) +
                                          ": the last " + std::to_string(config_.train.patience) +
                                          " validations were no better than the best"
                                    : "");
  }

 private:
  bool writes() const { return !ranks_ || ranks_->first(); }

  void obey(const Trainer& trainer) {
    const auto before_pause = [&] { save(trainer); };
    if (joint_) return joint_->obey(before_pause);
    control_.obey(before_pause);
  }

  RunConfig of_this_rank() const {  // with the device that is its own
    RunConfig own = config_;
    if (ranks_) own.train.device = device_of_rank(own.train.device, ranks_->place());
    return own;
  }

  // Gradients on GPUs do not cross to the host.
  void meet_on_devices() {
    const at::Device device = model::device_named(of_this_rank().train.device);
    if (device.is_cpu()) return;
    const std::string by = ranks_->meet_on(device);
    if (!by.empty()) log_line(ranks_->name() + " adds up gradients by " + by);
  }

  Trainer prepared() {
    reporter_.set_state("running");
    const auto from = opened();
    Trainer trainer = config_.of_text() ? of_text(from) : of_task(from);
    const EvalSection& eval = config_.eval;
    const bool asked = eval.every > 0 || (eval.probe_every > 0 && eval.probe_text.empty());
    if (asked && !can_validate(trainer)) {
      throw formats::bad_input("no validation text has the " +
                                   std::to_string(config_.model.context) + " tokens of a window",
                               "data.validation",
                               "give longer texts, or eval.every=0 and an eval.probe_text");
    }
    if (const std::string note = note_of_atomic_dq(config_.train); !note.empty()) log_line(note);
    if (const std::int64_t short_ones = trainer.short_validation_texts(); short_ones > 0) {
      log_line("warning: " + std::to_string(short_ones) +
               " validation texts are shorter than a window of " +
               std::to_string(config_.model.context) + " tokens, and are left out");
    }
    // The others begin to prepare when they have the configuration.
    if (ranks_ && writes()) ranks_->of_first(to_json(config_).dump());
    if (joint_ && writes()) joint_->obey_while_others_work();
    if (ranks_) meet_on_devices();
    trainer.join(ranks_);
    if (writes()) formats::make_directories(files_, checkpoints_), remove_litter();
    load_newest(trainer);
    if (writes()) look_at_best(trainer);
    trainer.require_same_weights();
    if (trainer.steps_done() == 0 && writes()) say_what_it_needs(trainer);
    reporter_.write_too({.csv = config_.train.csv, .tensorboard = config_.train.tensorboard});
    reporter_.begin_after(trainer.steps_done(), trainer.seconds());
    // What the first jump goes back to.
    if (trainer.steps_done() == 0 && config_.train.spike == "rewind") save(trainer);
    return trainer;
  }

  // The model that training begins with; the configuration says from then on which one it was.
  std::shared_ptr<const model::Model> opened() {
    const auto from = opened_start(config_);
    if (from == nullptr) return from;
    log_line("begins with the weights of " + from->report.path + ", SHA-256 " +
             from->report.sha256);
    if (config_.start.model_sha256 != from->report.sha256) {
      config_.start.model_sha256 = from->report.sha256;
      write_config();
    }
    return from;
  }

  // Time, memory and disk, from a step that is measured and not made.
  void say_what_it_needs(Trainer& trainer) {
    const StepCost cost = measured_step(trainer);
    const Needs needs = needs_of(config_, cost);
    log_line(words_of(needs));
    const std::string lacking = lacking_room(needs, dir_);
    if (!lacking.empty()) reporter_.warn(lacking);
  }

  StepCost measured_step(Trainer& trainer) {
    try {
      return trainer.measured_step();
    } catch (const std::exception& error) {
      if (!may_be_smaller(trainer, error)) throw;
    }
    return trainer.measured_step();
  }

  void write_config() {
    formats::write_file_atomically(files_, dir_ / job_file::config,
                                   to_json(config_).dump(1) + "\n");
  }

  Trainer of_text(const std::shared_ptr<const model::Model>& from) {
    const fs::path text = find_corpus(config_.data.corpus, log_line);
    const auto tokenizer = text_tokenizer(config_, from.get());
    std::shared_ptr<const Corpus> corpus;
    std::vector<formats::NamedText> validation;
    prepare([&](const std::function<void()>& look_up) {  // a large text takes a while
      corpus = std::make_shared<const Corpus>(Corpus::open(
          text, config_.data, config_.model.context, tokenizer.get(), log_line, look_up));
      validation = read_validation_texts(config_.data.validation, config_.model.context);
    });
    log_line("training text " + text.string() + ", " + std::to_string(corpus->bytes()) +
             " bytes, SHA-256 " + corpus->sha256());
    record_data(corpus->sha256());
    record_tokenizer();
    return Trainer(of_this_rank(), corpus, std::move(validation), from);
  }

  Trainer of_task(const std::shared_ptr<const model::Model>& from) {
    std::shared_ptr<const TaskData> task;
    std::optional<BlindGuess> guess;
    prepare([&](const auto&) {
      task = std::make_shared<const TaskData>(config_);
      if (config_.eval.every == 0 || !writes()) return;
      const auto seed = static_cast<std::uint64_t>(config_.train.seed);
      guess = blind_guess(task->task(), task->validation(), ~seed, &task->tokenizer());
    });
    log_line("samples of " + config_.task.name + ", SHA-256 of the first " + task->sha256());
    record_data(task->sha256());
    if (guess) {
      reporter_.set_blind(guess->bits, guess->right);
      log_line("guessing by length and place: " + in_words({guess->bits, guess->right}));
    }
    return Trainer(of_this_rank(), std::move(task), from);
  }

  // Work that may take long: ranks ask each other meanwhile.
  template <class Function>
  void prepare(Function&& work) {
    if (joint_) return joint_->obey_during(work);
    work([this] { control_.look_up(); });
  }

  void record_tokenizer() {
    DataSection& data = config_.data;
    if (data.tokenizer.empty() || !data.tokenizer_sha256.empty()) return;
    data.tokenizer_sha256 = formats::sha256_of_file(tokenizer_file(data));
    write_config();
  }

  // The configuration says from then on which text or which samples it is about.
  void record_data(const std::string& sha256) {
    if (config_.data.corpus_sha256 == sha256) return;
    if (!config_.data.corpus_sha256.empty()) throw other_data(config_, "job");
    config_.data.corpus_sha256 = sha256;
    write_config();
  }

  void remove_litter() {
    try {
      remove_checkpoint_litter(files_, checkpoints_);
    } catch (const formats::Error& error) {
      log_line("warning: litter of an earlier save stays: " + error.full_text());
    }
  }

  // The newest that verifies; of several ranks the one that rank 0 finds.
  std::optional<Checkpoint> newest_checkpoint() {
    if (!writes()) {
      const std::string step = ranks_->of_first("");
      if (step.empty()) return std::nullopt;
      return verify_checkpoint(files_, checkpoint_folder(checkpoints_, std::stoll(step)));
    }
    FoundCheckpoint found = find_newest_checkpoint(files_, checkpoints_);
    for (const std::string& one : found.skipped) reporter_.warn("skipped checkpoint " + one);
    if (ranks_) ranks_->of_first(found.newest ? std::to_string(found.newest->step) : "");
    return std::move(found.newest);
  }

  void load_newest(Trainer& trainer) {
    const std::optional<Checkpoint> newest = newest_checkpoint();
    if (!newest) return log_line("begins at step 0");
    trainer.load(*newest);
    told_ = trainer.steps_done();
    if (const std::string other = trainer.differences_from(newest->state); !other.empty()) {
      reporter_.warn("goes on otherwise than it began: " + other);
    }
    log_line("goes on from checkpoint step-" + std::to_string(newest->step));
  }

  // A kill may have fallen between the best checkpoint and the file that names it, and a disk may
  // have refused it.
  void look_at_best(const Trainer& trainer) {
    const std::int64_t best = trainer.best_step();
    if (best == 0) return;
    try {
      verify_checkpoint(files_, checkpoint_folder(checkpoints_, best));
      name_best_checkpoint(files_, checkpoints_, best);
      log_line("the best validation is that of step " + std::to_string(best));
    } catch (const formats::Error& error) {
      reporter_.warn("the checkpoint of the best validation, step-" + std::to_string(best) +
                     ", cannot be used: " + error.full_text());
    }
  }

  bool can_validate(const Trainer& trainer) const {
    return !config_.of_text() || trainer.has_validation_texts();
  }

  static std::string in_words(const Validation& found) {
    if (!found.right) return std::to_string(found.bits) + " bits a byte";
    return std::to_string(found.bits) + " bits a target, " + std::to_string(100 * *found.right) +
           " % right";
  }

  void one_step(Trainer& trainer) {
    protocol::MetricPoint point;
    const std::int64_t skipped = trainer.skipped();
    try {
      point = trainer.step();
    } catch (const LossSpike& spike) {
      return go_back(trainer, spike);
    } catch (const std::exception& error) {
      if (!may_be_smaller(trainer, error)) throw;
      return;  // the step is made again
    }
    reporter_.set_kernel(trainer.kernel());
    if (trainer.skipped() > skipped) {
      reporter_.warn("step " + std::to_string(point.step) + " was left out: " +
                     words_of_jump(point.loss, point.gradient_norm.value_or(0)) + "; " +
                     std::to_string(trainer.skipped()) + " steps were left out so far");
    }
    const bool at_end = point.step >= config_.train.steps;
    const std::int64_t every = config_.eval.every;
    if (can_validate(trainer) && (at_end || (every > 0 && point.step % every == 0))) {
      // A cancel is obeyed after the step: a checkpoint without its metrics line would leave a
      // hole. So would one that is saved because this fails.
      protocol::NoProgress undisturbed;
      const Validation found = trainer.validation(undisturbed);
      point.validation_bits = found.bits;
      point.validation_right = found.right;
      trainer.note(found);
      log_line("step " + std::to_string(point.step) + ", loss " + std::to_string(point.loss) +
               ", validation " + in_words(found));
    }
    const std::int64_t probe_every = config_.eval.probe_every;
    if (writes() && probe_every > 0 && point.step % probe_every == 0) {
      point.heads = trainer.head_values();
    }
    reporter_.point(point);
    told_ = point.step;
    const bool best = point.validation_bits && point.step == trainer.best_step();
    if (trainer.done() || best || point.step % config_.train.checkpoint_every == 0) {
      compare_weights(trainer);
      save(trainer);
    }
  }

  // A step for which there was no memory is tried once more, in parts of half the rows; alone: of
  // several ranks halve_parts() refuses, and one without memory ends them all.
  bool may_be_smaller(Trainer& trainer, const std::exception& error) {
    const std::int64_t step = trainer.steps_done() + 1;
    if (!says_out_of_memory(error) || !trainer.between_steps() || step == made_smaller_) {
      return false;
    }
    if (!trainer.halve_parts()) return false;
    made_smaller_ = step;
    reporter_.warn(memory_or_internal_error(error).message() + "; step " + std::to_string(step) +
                   " and those after it are read in " + std::to_string(trainer.parts()) +
                   " parts, which changes losses by the order of float32 sums "
                   "(train.accumulate)");
    return true;
  }

  // What is not the same at all ranks is not saved afterwards either.
  void compare_weights(const Trainer& trainer) {
    try {
      trainer.require_same_weights();
    } catch (const formats::Error& error) {
      ranks_differ_ = error.code() == "internal";  // and none of them is gone
      throw;
    }
  }

  // To the last checkpoint, and on with other data.
  void go_back(Trainer& trainer, const LossSpike& spike) {
    const std::string jump =
        "step " + std::to_string(spike.step) + ": " + words_of_jump(spike.loss, spike.norm);
    const std::optional<Checkpoint> newest = newest_checkpoint();
    const std::int64_t order = trainer.order() + 1;
    if (!newest || order > kMostOrders) {
      throw formats::bad_input(
          jump + (newest ? ", after " + std::to_string(kMostOrders) + " other orders of the data"
                         : ", and there is no checkpoint to go back to"),
          "train.learning_rate", "try a smaller one");
    }
    trainer.load(*newest);
    told_ = trainer.steps_done();
    trainer.set_order(order);
    reporter_.warn(jump + "; training goes on from step " + std::to_string(newest->step) +
                   " with its data in order " + std::to_string(order));
    reporter_.begin_after(trainer.steps_done(), trainer.seconds());
  }

  // A training whose result is nowhere, or not whole, is not done; resumed, it makes the lost steps
  // again.
  void require_last_checkpoint(const Trainer& trainer) {
    try {
      verify_checkpoint(files_, checkpoint_folder(checkpoints_, trainer.steps_done()));
    } catch (const formats::Error& error) {
      const std::string why = not_saved_.empty() ? error.message() : not_saved_;
      throw formats::Error(
          "internal", "the last checkpoint could not be saved: " + why, dir_.string(),
          "make room and resume the job: it repeats the steps since the one before");
    }
  }

  // The steps before the one that failed, whose weights are what they were before it. Where its
  // validation failed, the step is in no metrics yet, and is made again after the last checkpoint.
  void save_what_is_whole(const Trainer& trainer) {
    if (!trainer.between_steps() || trainer.steps_done() == 0) return;
    if (trainer.steps_done() != told_ || ranks_differ_) return;
    try {
      save(trainer);
    } catch (const std::exception& error) {
      log_line(std::string("warning: the steps before could not be saved: ") + error.what());
    }
  }

  void save(const Trainer& trainer) {
    if (!writes()) return;
    reporter_.sync_metrics();
    CheckpointOptions options;
    options.keep = config_.train.keep_checkpoints;
    options.keep_steps = config_.train.keep_steps;
    options.best = trainer.best_step();
    options.state = trainer.state();
    const SaveOutcome outcome = save_checkpoint(
        files_, checkpoints_, trainer.steps_done(),
        [&](formats::FileSystem& hashing, const fs::path& folder) {
          trainer.write_files(hashing, folder);
        },
        options);
    if (!outcome.message.empty()) reporter_.warn(outcome.message);
    not_saved_ = outcome.in_place() ? "" : outcome.message;
  }

  formats::FileSystem& files_;
  fs::path dir_, checkpoints_;
  RunConfig config_;
  JobReporter& reporter_;
  JobControl control_;
  Ranks* ranks_;                        // null: alone
  std::optional<JointRequests> joint_;  // of the ranks
  std::int64_t told_ = 0;               // the last step whose metrics are written
  std::int64_t made_smaller_ = 0;       // the step that was last made again in smaller parts
  bool ranks_differ_ = false;
  std::string not_saved_;  // why the last checkpoint that was written is not there
};

std::vector<EvalModel> opened_models(const protocol::EvalRequest& request, const fs::path& folder,
                                     protocol::Progress& progress) {
  std::vector<EvalModel> models;
  for (const std::string& name : request.models) {
    progress.throw_if_cancelled();
    const protocol::ModelReading reading = protocol::model_reading(name);
    model::OpenModelOptions options;
    options.overrides = reading.settings;
    const std::string path = found_from(folder, reading.model);
    const at::Device device = model::device_named(request.running.device);
    options.dtype = model::dtype_to_compute_in(request.running.dtype, device, path);
    models.push_back({name, model::on_device(model::open_model(path, options), device)});
  }
  return models;
}

void run_eval(formats::FileSystem& files, const fs::path& dir, json asked, JobReporter& reporter) {
  const auto [folder, request] = asked_eval(std::move(asked));
  JobControl control(dir, reporter);
  JobProgress progress(reporter, control);
  reporter.set_state("running");
  if (const auto threads = static_cast<int>(request.running.threads); threads > 0) {
    at::set_num_threads(threads);
  }
  const std::vector<EvalModel> models = opened_models(request, folder, progress);
  EvalRows rows(files, dir / job_file::rows);
  protocol::EvalResult result = eval_task(request.task).run(models, request, progress, rows);
  protocol::AllRan ran;
  for (protocol::Provenance& one : result.provenance) {
    one.command = protocol::command_line(request), one.version = PHASESCOPE_VERSION;
    if (!models.empty()) one.device = models[0].model->decoder.device().str();
    ran.insert(one.ran.begin(), one.ran.end());
  }
  reporter.set_kernel(protocol::words_of(protocol::listed(ran)));
  formats::write_file_atomically(files, dir / job_file::result,
                                 protocol::to_json_form(result).dump(1) + "\n");
  reporter.fraction(1, "");
  reporter.set_state("done");
}

int cancelled(JobReporter& reporter, int signal = stop_signal()) {
  if (signal == 0) {
    reporter.set_state("cancelled");
    return kCancelled;
  }
  reporter.set_state("cancelled", std::string("it was asked to end (") + strsignal(signal) +
                                      "); a resume goes on from here");
  return kSignalled + signal;
}

// Turns whatever ends `work` into a state, a line of the log and an exit status.
template <class Function>
int ended(JobReporter& reporter, Function&& work) {
  try {
    work();
    return kDone;
  } catch (const JobCancelled& leaving) {
    return cancelled(reporter, leaving.signal);
  } catch (const protocol::Cancelled&) {
    return cancelled(reporter);
  } catch (const protocol::RequestError& error) {
    reporter.fail(error.info().code, error.what());
    return status_of_code(error.info().code);
  } catch (const formats::Error& error) {
    // A forward pass that was told to stop says so in this way.
    if (error.code() == "cancelled") return cancelled(reporter);
    reporter.fail(error.code(), error.full_text());
    return status_of_code(error.code());
  } catch (const std::exception& exception) {
    const formats::Error error = memory_or_internal_error(exception);
    reporter.fail(error.code(), error.full_text());
    return status_of_code(error.code());
  }
}

// `place`: of one of several ranks. Those behind rank 0 are told the configuration by it.
int run_by_kind(formats::FileSystem& files, const fs::path& dir,
                const std::optional<RankPlace>& place) {
  const bool first = !place || place->rank == 0;
  JobReporter reporter(files, dir, first ? JobReporter::Writes::all : JobReporter::Writes::nothing);
  return ended(reporter, [&] {
    std::optional<Ranks> ranks;
    if (place) ranks.emplace(*place);
    Ranks* group = ranks ? &*ranks : nullptr;
    const fs::path path = dir / job_file::config;
    // Rank 0 prepares first, and the others know by it what to prepare.
    if (!first) {
      const JobControl control(dir, reporter);
      JointRequests(*group, control, reporter).obey_while_others_work();
    }
    const json config = first ? formats::json_from_file(path) : json::parse(group->of_first(""));
    if (config.contains("eval_job")) {
      if (group) throw formats::bad_usage("an eval is run by one process", dir.string());
      reporter.set_kind("eval");
      run_eval(files, dir, config.at("eval_job"), reporter);
    } else {
      TrainingJob(files, dir, run_config_from_json(config, path.string()), reporter, group).run();
    }
  });
}

// Takes the folder for as long as `work` runs in it.
template <class Function>
int as_owner(formats::FileSystem& files, const fs::path& dir, Function&& work) {
  const std::optional<JobLock> lock = JobLock::try_take(dir);
  if (!lock) {
    log_line("error: " + folder_in_use(dir).full_text());
    return kBadInput;
  }
  mark_begun(dir), remove_job_litter(files, dir);
  forget_old_request(files, dir);
  return work();
}

template <class Function>
int with_errors_logged(Function&& work) {
  try {
    return work();
  } catch (const formats::Error& error) {
    log_line("error: " + error.full_text());
    return status_of_code(error.code());
  } catch (const std::exception& exception) {
    log_line(std::string("error: ") + exception.what());
    return kInternal;
  }
}

}  // namespace

int run_job(formats::FileSystem& files, const fs::path& dir) {
  return with_errors_logged(
      [&] { return as_owner(files, dir, [&] { return run_by_kind(files, dir, std::nullopt); }); });
}

int run_job(const fs::path& dir) { return run_job(formats::real_file_system(), dir); }

int run_job_as_rank(const fs::path& dir) {
  formats::FileSystem& files = formats::real_file_system();
  return with_errors_logged([&] {
    const RankPlace place = rank_place();
    const bool first = place.rank == 0;
    log_as("rank " + std::to_string(place.rank), first ? dir / job_file::log : fs::path());
    const auto run = [&] { return run_by_kind(files, dir, place); };
    return first ? as_owner(files, dir, run) : run();
  });
}

}  // namespace phasescope::training
