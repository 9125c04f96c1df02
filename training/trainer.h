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
#include "training/run_config.h"
#include "training/task_data.h"

namespace phasescope::training {

// The canonical configuration of a run's model. Throws Error "bad_input" listing all problems,
// options that the encoding does not know among them.
model::ModelConfig model_config_of(const RunConfig& config);

// What validation found: bits a byte of texts, a target of a task; of a task the share of targets
// that are right, too.
struct Validation {
  double bits = 0;
  std::optional<double> right;
};

// What is said where a text or a task's samples are not those that a run or a job began with.
formats::Error other_data(const RunConfig& config, const std::string& of);

class Trainer {
 public:
  // Weights at their start values, drawn from train.seed.
  Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
          std::vector<formats::NamedText> validation);
  // The same on the samples of a task.
  Trainer(RunConfig config, std::shared_ptr<const TaskData> task);

  // One optimiser step. The point's `step` is the number of steps done with it, `time` the seconds
  // spent in steps so far. Throws Error "bad_input" when the loss is no finite number.
  protocol::MetricPoint step();
  int64_t steps_done() const { return optimiser_.steps_done(); }
  bool done() const { return steps_done() >= config_.train.steps; }
  double seconds() const { return seconds_; }
  // False from the beginning of an update of the weights to its end: where one was cut off (there
  // was no memory) they are those of no step.
  bool between_steps() const { return !updating_; }

  // On eval.windows windows of the trained length from the validation texts, or samples of the
  // task.
  Validation validation(protocol::Progress& progress) const;

  // Files of a checkpoint, for save_checkpoint: model.safetensors, config.json (both as open_model
  // reads them), optimiser.safetensors.
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
  // which depend on train.seed and the step alone.
  model::ForwardOptions forward_options(int64_t step) const;

 private:
  Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
          std::vector<formats::NamedText> validation, std::shared_ptr<const TaskData> task);
  Batch batch_of_step(int64_t step) const;
  // Of what is trained on: the text, or the task's samples.
  const std::string& data_sha256() const;
  model::ForwardOptions reading_options() const;
  int64_t tokens_done() const;
  double text_bits(protocol::Progress& progress) const;
  Validation task_validation(protocol::Progress& progress) const;

  RunConfig config_;
  std::shared_ptr<const Corpus> corpus_;  // one of the two
  std::shared_ptr<const TaskData> task_;
  std::vector<formats::NamedText> validation_;
  model::Decoder decoder_;
  AdamW optimiser_;
  model::AllRan kernels_;
  double seconds_ = 0;
  int64_t samples_tokens_ = 0;  // read of a task's samples in the steps done
  bool updating_ = false;
};

}  // namespace phasescope::training
