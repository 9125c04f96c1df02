#pragma once

#include <vector>

#include "tasks/task.h"
#include "training/evals/eval_task.h"
#include "training/evals/sample_scores.h"

namespace phasescope::training {

// Every task of tasks/ as an extrapolation task: its metric against its lengths in one pass, with
// the guessers beside it and the map where it has one.
std::vector<EvalTask> sample_tasks();

// `samples` of a task as a model answers them. Throws Error "bad_input"
// where the model has another vocabulary or sees otherwise than the task needs.
std::vector<SampleScore> answered_samples(const EvalModel& entry, const tasks::Task& task,
                                          const std::vector<tasks::Sample>& samples,
                                          const model::ForwardOptions& options);

}  // namespace phasescope::training
