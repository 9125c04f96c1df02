#pragma once
// One training run in memory: the model, the optimiser, what has been done. Folders, requests and
// logs are the job's business (job.h).
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/text_input.h"
#include "model/config.h"
#include "model/decoder.h"
#include "protocol/messages/jobs.h"
#include "protocol/progress.h"
#include "training/adamw.h"
#include "training/checkpoint.h"
#include "training/corpus.h"
#include "training/head_probe.h"
#include "training/loss_watch.h"
#include "training/ranks/ranks.h"
#include "training/run_config.h"
#include "training/start/lora.h"
#include "training/start/start_model.h"
#include "training/task_data.h"

namespace phasescope::training {

// What validation found: bits a byte of texts, a target of a task; of a task the share of targets
// that are right, too.
struct Validation {
  double bits = 0;
  std::optional<double> right;
};

// Thrown in place of a step's update where the loss jumps and train.spike is "rewind".
struct LossSpike {
  std::int64_t step = 0;      // the one that was not made, counted from 1
  double loss = 0, norm = 0;  // before the gradient was clipped
};

// What a training needs, from a step that was measured.
struct StepCost {
  double seconds = 0;
  std::int64_t checkpoint_bytes = 0;  // of one checkpoint
};

// What is said where a text or a task's samples are not those that a run or a job began with.
formats::Error other_data(const RunConfig& config, const std::string& of);

class Trainer {
 public:
  // Weights at their start values: drawn from train.seed, or those of `from`, opened_start() of the
  // configuration, which is opened here where it is left out.
  Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
          std::vector<formats::NamedText> validation,
          std::shared_ptr<const model::Model> from = nullptr);
  // The same on the samples of a task.
  Trainer(RunConfig config, std::shared_ptr<const TaskData> task,
          std::shared_ptr<const model::Model> from = nullptr);

  // From now on this is one of several ranks (null: alone), which must outlive it: each reads its
  // rows of a step's batch and its share of a validation. Losses, weights and validations are then
  // the same at all ranks, and with train.accumulate 1 bit for bit those of one process with as
  // many parts (accumulate) as there are ranks; with other parts they differ by the order of
  // float32 sums.
  void join(const Ranks* ranks) { ranks_ = ranks; }
  // Throws Error "internal" where the weights are not the same at all ranks, which ranks on
  // processors of different kinds may come to.
  void require_same_weights() const;

  // One optimiser step. The point's `step` is the number of steps done with it, `time` the seconds
  // spent in steps so far. A step whose loss jumps is left out, and counted, or throws LossSpike,
  // as train.spike says; without it Error "bad_input" is thrown when the loss is no finite number.
  protocol::MetricPoint step();
  std::int64_t steps_done() const { return steps_done_; }
  bool done() const { return steps_done() >= config_.train.steps || stopped_early(); }
  double seconds() const { return seconds_; }
  // Steps without an update, since training began.
  std::int64_t skipped() const { return steps_done_ - optimiser_.steps_done(); }
  // Tells what validation found; afterwards training may be done.
  void note(const Validation& found) {
    watch_.add_validation(steps_done_, found.bits, found.right);
  }
  // With train.keep_best the step of the best validation so far; 0: there is none.
  std::int64_t best_step() const { return watch_.best_step(); }
  bool stopped_early() const { return watch_.gave_up(); }
  // Which data the steps draw; 0 at first. Another order is other data for the same steps.
  std::int64_t order() const { return order_; }
  void set_order(std::int64_t order) { order_ = order; }
  // Reads the longest batch of the run forwards and backwards and changes nothing.
  StepCost measured_step();
  // Reads the rows of a step in twice as many parts from now on, which takes less memory and
  // changes losses by the order of float32 sums. False where a part is a row already, or rows are
  // shared with other ranks, which would have to do the same.
  bool halve_parts();
  std::int64_t parts() const { return config_.train.accumulate; }
  // False from the beginning of an update of the weights to its end: where one was cut off (there
  // was no memory) they are those of no step.
  bool between_steps() const { return !updating_; }

  // On eval.windows windows of the trained length from the validation texts, or samples of the
  // task.
  Validation validation(protocol::Progress& progress) const;
  // What eval.probe_metrics are of every head, on eval.probe_text or the first validation text.
  // Throws Error "bad_input" where there is neither.
  HeadValues head_values() const;
  // How many validation texts are shorter than a window, and are not read; and whether any is left.
  std::int64_t short_validation_texts() const { return short_validation_; }
  bool has_validation_texts() const { return !validation_.empty(); }

  // Files of a checkpoint, for save_checkpoint: model.safetensors and config.json, or those of an
  // adapter, which open_model reads; optimiser.safetensors; with train.average the averaged weights
  // in average.safetensors, which opens too.
  void write_files(formats::FileSystem& fs, const std::filesystem::path& folder) const;
  // What else a checkpoint needs, for its manifest.
  nlohmann::json state() const;
  // What a checkpoint with that state was made with and this trainer has otherwise, as a list in
  // words; empty where the steps after it are those of an unbroken run.
  std::string differences_from(const nlohmann::json& state) const;
  // Goes on from a checkpoint: from then on every step is the one an unbroken run would have made.
  void load(const Checkpoint& checkpoint);

  const RunConfig& config() const { return config_; }
  const model::Decoder& decoder() const { return decoder_; }
  // What ran attention in the steps so far: "fused cpu avx3", "plain"; "none" before the first.
  std::string kernel() const { return protocol::words_of(protocol::listed(kernels_)); }

  // How step `step` reads its windows: backend, dtype, and the shift and the draw of its positions,
  // which depend on train.seed and the step alone. Nothing is left out at random in it.
  model::ForwardOptions forward_options(std::int64_t step) const;

 private:
  Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
          std::vector<formats::NamedText> validation, std::shared_ptr<const TaskData> task,
          std::shared_ptr<const model::Model> from);
  Batch batch_of_step(std::int64_t step) const;
  // Mean loss of the batch's counted targets, without smoothed labels; the gradients of the loss
  // that has them are added to the parameters'. Of a part of a step's batch both are its share of
  // the mean over `all` counted targets.
  double add_gradients(Batch& batch, std::int64_t step, std::int64_t all);
  // The rows of a step's batch that this rank reads.
  Batch own_rows(const Batch& batch) const;
  // Adds up what the ranks found; `loss` is this rank's share.
  double summed_over_ranks(double loss);
  // Whether place n of what a validation measures is this rank's, and the values of all places
  // where each rank has its own and 0 elsewhere.
  bool is_own(std::size_t n) const;
  std::vector<double> completed(std::vector<double> values) const;
  nlohmann::json made_with() const;
  // What the rows of a step leave out at random, wherever they are read.
  model::Drops drops_of(const Batch& batch, std::int64_t step) const;
  // Both over the counted targets of what is read: what is made smaller, and what is told.
  struct Losses {
    at::Tensor learnt;
    double told = 0;
  };
  Losses losses_of(Batch& batch, std::int64_t step);
  void update(double rate);
  void load_weights(const std::filesystem::path& folder);
  const model::Decoder& validated() const { return average_ ? *average_ : decoder_; }
  // The hash of what is trained on: the text, or the task's samples.
  const std::string& data_sha256() const;
  model::ForwardOptions reading_options() const;
  std::int64_t tokens_done() const;
  double text_bits(protocol::Progress& progress) const;
  Validation task_validation(protocol::Progress& progress) const;

  RunConfig config_;
  std::shared_ptr<const Corpus> corpus_;  // one of the two
  std::shared_ptr<const TaskData> task_;
  std::vector<std::vector<std::int64_t>> validation_;    // tokens of the texts that hold a window
  std::int64_t short_validation_ = 0;                    // how many do not
  std::shared_ptr<const model::Model> from_;             // null where weights were drawn
  std::shared_ptr<const formats::Tokenizer> tokenizer_;  // null for bytes
  model::Decoder decoder_;
  Lora lora_;
  std::vector<std::string> trained_;  // names of the tensors that are trained whole
  AdamW optimiser_;
  std::optional<model::Decoder> average_;  // the mean of the weights, with train.average
  LossWatch watch_;
  const Ranks* ranks_ = nullptr;
  model::AllRan kernels_;
  double seconds_ = 0;
  std::int64_t steps_done_ = 0, order_ = 0;
  std::int64_t samples_tokens_ = 0;  // read of a task's samples in the steps done
  bool updating_ = false;
};

}  // namespace phasescope::training
