#pragma once
// What a model writes behind a sample's prompt, token by token, and whether the answer is in it.
#include <span>
#include <vector>

#include "model/checkpoints/open_model.h"
#include "protocol/progress.h"
#include "tasks/task.h"
#include "training/evals/sample_scores.h"

namespace phasescope::training {

// Continues each prompt greedily by TaskInfo::written tokens, as RULER does (arXiv 2404.06654); no
// token ends it. Positions go on past the trained context, so that the whole prompt stays in sight.
// `correct` is 1 of 1 where the text begins with the answer, `contained` says whether it stands
// anywhere. What ran is added to `kernels`. Throws Error "bad_input" where the model's positions do
// not reach so far, and Cancelled.
std::vector<SampleScore> written_samples(const model::Model& model, const tasks::Task& task,
                                         std::span<const tasks::Sample> samples,
                                         model::AllRan& kernels, model::Backend backend,
                                         protocol::Progress& progress);

}  // namespace phasescope::training
