#pragma once
// What a model answers to samples of a task, in one pass: greedy decoding of an exact answer is
// right where, fed with prompt and answer, the likeliest id at every place is the answer's.
#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder.h"
#include "tasks/task.h"
#include "training/batch.h"

namespace phasescope::training {

// The answers to each target from the first that counts on; before it ids are -1 and losses 0. Both
// are among the ids that can be answers of the task.
struct Answers {
  tasks::Ids ids;              // the likeliest, the lowest of equal ones
  std::vector<double> losses;  // nats
  tasks::Score score;          // of the targets that count
  double nats = 0;             // sum over the same
};

// `samples` as the model reads them (as_ids), all in one pass.
std::vector<Answers> answers_of(const model::Decoder& decoder, const tasks::Task& task,
                                std::span<const tasks::Sample> samples,
                                model::ForwardOptions options);

// What a batch has beside the ids that are read, which `options` then looks into.
void add_to(model::ForwardOptions& options, Batch& batch);

}  // namespace phasescope::training
