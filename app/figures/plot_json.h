#pragma once
// Figures as JSON, for files: the numbers of a picture beside it.
#include <nlohmann/json_fwd.hpp>

#include "widgets/plot_spec.h"

namespace phasescope::app {

// NaN and infinities are the strings "nan", "inf", "-inf", as in every result.
nlohmann::json json_of(const widgets::PlotSpec& plot);
nlohmann::json json_of(const widgets::MapSpec& map);
nlohmann::json json_of(const widgets::GridSpec& grid);

}  // namespace phasescope::app
