#include "training/evals/eval_task.h"

#include "formats/error.h"
#include "formats/near_names.h"
#include "training/evals/eval_perplexity.h"

namespace phasescope::training {

const std::vector<EvalTask>& eval_tasks() {
  static const std::vector<EvalTask> tasks = {perplexity_task()};
  return tasks;
}

const EvalTask& eval_task(const std::string& key) {
  std::vector<std::string> known;
  for (const EvalTask& task : eval_tasks()) {
    if (task.key == key) return task;
    known.push_back(task.key);
  }
  throw formats::bad_usage("no such task: \"" + key + "\"" + formats::near_names(key, known),
                           "task");
}

}  // namespace phasescope::training
