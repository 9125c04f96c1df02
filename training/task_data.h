#pragma once
// Samples of a task as what a model is trained on and tested with.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/tokenizer.h"
#include "model/encoding.h"
#include "tasks/task.h"
#include "training/batch.h"
#include "training/run_config.h"

namespace phasescope::training {

// A sample as a model reads it: of a text the ids of prompt and answer, of which the answer's
// count. `tokenizer` is the model's own, null where the task has ids of its own. Prompt and answer
// are cut into tokens apart and joined, the answer as it stands behind the prompt's last word.
// Throws Error "bad_input" where the tokenizer does not keep them apart.
tasks::Sample as_ids(const tasks::Task& task, tasks::Sample sample,
                     const formats::Tokenizer* tokenizer);

// Which targets of a batch count: those that training learns from (of placeholders all answers,
// behind the terminator too, as the public code), or those of the metric.
enum class Counted { in_training, in_metric };

// Samples side by side, padded on the right with the task's own id. Models that see both ways and
// encoders get a mask of what is padding, where there is some. `places`: of which the model's
// encoding knows. Nodes of a tree and pieces of an image stand one after the other for those that
// know of lines alone.
Batch batch_of(const tasks::Task& task, std::span<const tasks::Sample> samples, Counted counted,
               model::Places places = model::Places::line);

// The image moved down and to the right, by negative numbers up and to the left, level 0 where
// nothing comes from, and then mirrored from left to right.
tasks::Ids moved_image(const tasks::ImageShape& shape, const tasks::Ids& pixels, std::int64_t down,
                       std::int64_t right, bool mirrored);

// The column of a batch in which a sample's first target is answered.
std::size_t first_answer(const tasks::Task& task, const tasks::Sample& sample);

// The samples of a training, each a function of (train.seed, step) alone: a resumed run draws the
// same. Those that it is tested on are drawn by another seed.
class TaskData {
 public:
  // Throws Error "bad_input" for a task whose samples of the longest length are longer than
  // model.context.
  explicit TaskData(const RunConfig& config);

  const tasks::Task& task() const { return task_; }
  // What texts are read with.
  const formats::Tokenizer& tokenizer() const { return bytes_; }
  // `order`: another one draws other samples for the same steps.
  Batch batch(std::int64_t step, std::int64_t order = 0) const;
  // As many as eval.windows, over the lengths in turn.
  std::vector<tasks::Sample> validation() const;
  // The hash of the task, its lengths, and samples as they are drawn here: another version that
  // draws others is another training.
  const std::string& sha256() const { return sha256_; }
  // The longest length that step `step` draws.
  std::int64_t longest_at(std::int64_t step) const;

 private:
  tasks::Sample sample(std::uint64_t seed, const tasks::Ids& length, std::uint64_t index) const;
  void move(tasks::Sample& sample, std::uint64_t seed, std::uint64_t index) const;
  tasks::Ids drawn_length(std::uint64_t seed, std::int64_t step, std::int64_t row) const;
  void check_context() const;
  std::string fingerprint() const;

  const tasks::Task& task_;
  TaskSection section_;
  std::int64_t steps_, context_, tested_;
  std::uint64_t seed_, sample_seed_, validation_seed_;
  model::Places places_;
  formats::ByteTokenizer bytes_;
  std::string sha256_;
};

}  // namespace phasescope::training
