#include "training/evals/eval_task.h"

#include <algorithm>
#include <iterator>

#include "formats/error.h"
#include "formats/near_names.h"
#include "tasks/task.h"
#include "training/evals/eval_perplexity.h"
#include "training/evals/eval_samples.h"

namespace phasescope::training {

const std::vector<EvalTask>& eval_tasks() {
  static const std::vector<EvalTask> tasks = [] {
    std::vector<EvalTask> all = {perplexity_task()};
    std::ranges::move(sample_tasks(), std::back_inserter(all));
    return all;
  }();
  return tasks;
}

const EvalTask& eval_task(const std::string& name) {
  const tasks::Task* of_samples = tasks::find_task(name);
  const std::string key = of_samples != nullptr ? of_samples->info().key : name;
  std::vector<std::string> known;
  for (const EvalTask& task : eval_tasks()) {
    if (task.key == key) return task;
    known.push_back(task.key);
  }
  throw formats::bad_usage("no such task: \"" + key + "\"", "task",
                           formats::hint_of_names({key}, known));
}

}  // namespace phasescope::training
