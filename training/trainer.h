#pragma once
// One training run in memory: the model, the optimiser, what has been done. Folders, requests and
// logs are the job's business (job.h).
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

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

namespace phasescope::training {

// The canonical configuration of a run's model. Throws Error "bad_input" listing all problems,
// options that the encoding does not know among them.
model::ModelConfig model_config_of(const RunConfig& config);

class Trainer {
 public:
  // Weights at their start values, drawn from train.seed.
  Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
          std::vector<formats::NamedText> validation);

  // One optimiser step. The point's `step` is the number of steps done with it, `time` the seconds
  // spent in steps so far. Throws Error "bad_input" when the loss is no finite number.
  protocol::MetricPoint step();
  int64_t steps_done() const { return optimiser_.steps_done(); }
  bool done() const { return steps_done() >= config_.train.steps; }
  double seconds() const { return seconds_; }
  // False from the beginning of an update of the weights to its end: where one was cut off (there
  // was no memory) they are those of no step.
  bool between_steps() const { return !updating_; }

  // Bits a byte on eval.windows windows of the trained length from the validation texts.
  double validation_bits(protocol::Progress& progress) const;

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
  RunConfig config_;
  std::shared_ptr<const Corpus> corpus_;
  std::vector<formats::NamedText> validation_;
  model::Decoder decoder_;
  AdamW optimiser_;
  model::AllRan kernels_;
  double seconds_ = 0;
  bool updating_ = false;
};

}  // namespace phasescope::training
