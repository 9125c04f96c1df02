#pragma once
// Figures of tasks that are drawn as samples: what is added to a task's metric against length, and
// its maps.
#include <string>
#include <vector>

#include "app/figures/model_names.h"
#include "protocol/messages/eval.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// The encodings of a result's models, each once, in the order of the rows.
std::vector<std::string> encodings_of(const protocol::EvalResult& result);

// What guessing without the input gets at each length, always beside what models get; where a
// length is a square of cells, what a model would get that is right at its trained ones and nowhere
// else; and the trained lengths.
void add_guessers(const protocol::EvalResult& result, const ModelNames& names,
                  widgets::PlotSpec& plot);

// The map of each model's cells, with the trained lengths outlined; none of a task without one.
std::vector<widgets::PlotSpec> task_maps(const protocol::EvalResult& result,
                                         const ModelNames& names);

}  // namespace phasescope::app
