#pragma once
// The tables and figures of an extrapolation test, as its verb prints them, its view and a job's
// page show them and the report has them.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/cli/output.h"
#include "app/figures/model_names.h"
#include "protocol/messages/eval.h"

namespace phasescope::app {

// One row for each model and length.
Table eval_table(const protocol::EvalResult& result);
// What the loss of each further model is above the first one's, by length; without rows where the
// result has no two models that can be paired.
Table differences_table(const protocol::EvalResult& result);

// A table and what its file is called beside those of other results.
struct NamedTable {
  std::string name;
  Table table;
};

// All tables of a result: "eval" (every row); of several models "eval_by_length" (as papers have
// it, results_table.h) and, where they can be paired, "eval_differences".
std::vector<NamedTable> eval_tables(const protocol::EvalResult& result, const ModelNames& names);

// All tables and figures of a result. `form` is the result as the worker sent it.
Output eval_output(const protocol::EvalResult& result, nlohmann::json form,
                   const ModelNames& names);

}  // namespace phasescope::app
