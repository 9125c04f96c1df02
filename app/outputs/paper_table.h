#pragma once

#include "app/cli/output.h"
#include "app/figures/model_names.h"
#include "protocol/messages/eval.h"

namespace phasescope::app {

// A table as the papers have it: a row for each model, a column for each length, every value with
// its interval. The best of a column is marked, and those that the best's interval holds; of a task
// the blind guesser has a row, which is never marked. Without rows where the result has different
// metrics.
Table results_table(const protocol::EvalResult& result, const ModelNames& names);

}  // namespace phasescope::app
