#include "worker/handlers.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "worker/bench/handle_bench.h"
#include "worker/field_words.h"
#include "worker/handle_analysis.h"
#include "worker/handle_compare.h"
#include "worker/handle_convert.h"
#include "worker/handle_duel.h"
#include "worker/handle_eval.h"
#include "worker/handle_interventions.h"
#include "worker/handle_jobs.h"
#include "worker/handle_models.h"
#include "worker/handle_questions.h"
#include "worker/handle_worker.h"
#include "worker/room.h"

namespace phasescope::worker {

std::vector<Handler> all_handlers() {
  std::vector<std::vector<Handler>> groups = {
      worker_handlers(),    models_handlers(),        convert_handlers(), analysis_handlers(),
      compare_handlers(),   eval_handlers(),          jobs_handlers(),    bench_handlers(),
      questions_handlers(), interventions_handlers(), duel_handlers(),
  };
  if (std::getenv("PHASESCOPE_TEST_HANDLERS")) groups.push_back(test_handlers());

  std::vector<Handler> all;
  for (auto& group : groups) {
    std::ranges::transform(group, std::back_inserter(all), [](Handler& one) {
      return with_named_fields(with_second_try(std::move(one)));
    });
  }
  return all;
}

}  // namespace phasescope::worker
