#pragma once
// What a forward pass costs, part by part.
#include <vector>

#include "app/figures/model_names.h"
#include "protocol/messages/cost.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// Multiply-accumulates of each part that has any, as executed, a colour a model, the first part at
// the top; a part that a model does not have has no point.
widgets::PlotSpec cost_figure(const std::vector<protocol::CostResult>& results,
                              const ModelNames& names);

}  // namespace phasescope::app
