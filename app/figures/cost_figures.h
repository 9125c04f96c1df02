#pragma once
// What a forward pass costs, part by part.
#include <string>
#include <vector>

#include "app/figures/model_names.h"
#include "protocol/messages/cost.h"
#include "widgets/plot_spec.h"

namespace phasescope::app {

// Whether TAPE's Table 3 (arXiv 2501.00712) is of models of this size and of a pass of this length.
bool is_of_published_size(const protocol::CostResult& result);

// What a part of a result is called where it is read: among heads, its "head" would be another one.
std::string words_of_part(const std::string& name);

// Multiply-accumulates of each part that has any, as executed, a colour a model, the first part at
// the top; a part that a model does not have has no point. Models of the published size have a row
// more, with what is published of their encodings.
widgets::PlotSpec cost_figure(const std::vector<protocol::CostResult>& results,
                              const ModelNames& names);

}  // namespace phasescope::app
