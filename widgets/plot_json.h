#pragma once

#include <nlohmann/json_fwd.hpp>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// The figure as JSON and back: plot_of(json_of(plot)) draws the same picture.
// NaN and infinities are the strings "nan", "inf", "-inf".
nlohmann::json json_of(const PlotSpec& plot);
nlohmann::json json_of(const MapSpec& map);

// Throws std::invalid_argument naming the key that does not fit.
PlotSpec plot_of(const nlohmann::json& json);

}  // namespace phasescope::widgets
